"""Files that are put together and scanned after their upload was answered: a loop of short steps with a saved place.

A file that was large, or went straight to the store, is `uploaded` first. Whoever comes then works on it: the function that the upload asks to
(`functions.tasks.scan`), or Validate of a batch that names it. One works at a time: a step marks the record, and for a minute after that others
only look (a digest of gigabytes may take longer, and be made twice). A step that is repeated nevertheless writes the same bytes to the same place, and
the place in the record moves on only from where it was; so a worker that dies costs one step.

The steps: put the file together from its pieces, a part each; check its digest, if the caller gave one; scan it, a leg of some hundred MiB each. The
index of a leg is an object of its own; what a scanner has to know besides its place is which custom_ids were used and which sections there are, and
that is in the legs before. The last step joins the legs to the scan.

Time: everything is read once or twice at the speed of S3, so that 5 GB take some minutes; only the digest has to be made in one step, and that is
one pass without any work on the lines.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import md5

import msgspec

from shared.core import assembly, paths, scan
from shared.core.assembly import Piece
from shared.core.contract import Contract
from shared.core.errors import Conflict, NotFound, Refused, SlackwaterError
from shared.core.ids import Space
from shared.core.records import BatchError, File, Pending
from shared.core.request_line import Limits
from shared.core.scan import Scanner
from shared.ports import Blobs, Clock, Elsewhere, FileStore, Multipart
from shared.services.object_writer import ObjectWriter
from shared.services.remains import discard_file

LEG_BYTES = 256 << 20
IDLE_SECONDS = 60
"""After this long without a step whoever worked on a file is taken for dead; all steps but that of the digest are far shorter."""

FOREIGN = "s3://"


class Scans:
    """The work that is pending on files."""

    def __init__(
        self,
        *,
        files: FileStore,
        blobs: Blobs,
        multipart: Multipart,
        elsewhere: Elsewhere,
        contracts: Mapping[str, Contract],
        clock: Clock,
        leg_bytes: int = LEG_BYTES,
    ) -> None:
        self._files = files
        self._blobs = blobs
        self._multipart = multipart
        self._elsewhere = elsewhere
        self._contracts = contracts
        self._clock = clock
        self._leg_bytes = leg_bytes

    def advance(self, space: Space, file_id: str, *, until: float) -> File:
        """Work on a file until it is done or the clock passes `until`, unless somebody else does so; give it as it then is. NotFound."""
        file, mine = self._claim(space, file_id)
        if not mine:
            return file
        done = file
        try:
            work = _Work(self._contracts[file.contract].line_limits)
            while file.pending is not None and self._clock() < until:
                done = self._step(file, file.pending, work)
                file = self._moved(file, done)
        except NotFound:
            with suppress(SlackwaterError):  # else the bucket's lifecycle removes it
                self._discard_if_deleted(done)
            raise
        finally:
            with suppress(SlackwaterError):  # else it is idle in a minute
                self._let_go(space, file_id)
        return file

    def _discard_if_deleted(self, file: File) -> None:
        """Remove what a step has written after the file was deleted: nobody else knows of it."""
        try:
            self._files.get(file.space, file.id)
        except NotFound:
            discard_file(file, self._blobs, self._multipart)

    def _claim(self, space: Space, file_id: str) -> tuple[File, bool]:
        now, mine = int(self._clock()), False

        def change(file: File) -> File:
            nonlocal mine
            mine = file.pending is not None and now >= file.pending.touched + IDLE_SECONDS
            return _touched(file, now) if mine else file

        return self._files.update(space, file_id, change), mine

    def _let_go(self, space: Space, file_id: str) -> None:
        self._files.update(space, file_id, lambda file: _touched(file, 0))

    def _moved(self, seen: File, done: File) -> File:
        """Save what a step has done, unless somebody who took us for dead has gone on meanwhile: then his place is where we go on."""
        now = int(self._clock())

        def change(latest: File) -> File:
            if _place(latest) != _place(seen):
                return latest
            moved = msgspec.structs.replace(
                latest,
                status=done.status,
                requests=done.requests,
                sectioned=done.sectioned,
                pending=done.pending,
                refusal=done.refusal,
            )
            return _touched(moved, now)

        latest = self._files.update(seen.space, seen.id, change)
        if latest.pending is None:
            self._clean(latest)
        return latest

    def _step(self, file: File, pending: Pending, work: "_Work") -> File:
        try:
            if pending.pieces:
                return msgspec.structs.replace(file, pending=self._put_together(file, pending, work))
            if pending.md5 is not None:
                return msgspec.structs.replace(file, pending=self._check(file, pending, pending.md5))
            return self._scan(file, pending, work)
        except Refused as refused:
            refusal = BatchError(code=refused.code, message=refused.message, param=refused.param)
            return msgspec.structs.replace(file, status="error", pending=None, refusal=refusal)

    def _put_together(self, file: File, pending: Pending, work: "_Work") -> Pending:
        key = paths.file(file.org, file.id)
        if pending.multipart is None:
            # Saved before the first part: should we die in between, the upload is one that the bucket's lifecycle removes.
            return msgspec.structs.replace(pending, multipart=self._multipart.begin(key))
        if not work.parts:
            pieces = assembly.decode(self._blobs.get(paths.pieces(file.org, file.id)))
            work.parts = tuple(assembly.parts(pieces, file.bytes))
        if pending.part <= len(work.parts):
            self._write(key, pending.multipart, pending.part, work.parts[pending.part - 1], file.bytes)
            return msgspec.structs.replace(pending, part=pending.part + 1)
        self._multipart.complete(key, pending.multipart)
        return msgspec.structs.replace(pending, pieces=False, multipart=None)

    def _write(self, key: str, upload: str, number: int, part: assembly.Part[Piece], size: int) -> None:
        first = part.ranges[0]
        if first.source.startswith(FOREIGN):
            span = None if first.size == size else (first.start, first.end)
            try:
                self._elsewhere.fetch(key, upload, number, uri=first.source, span=span, etag=first.etag)
            except (Conflict, NotFound):
                message = f"{first.source} was changed or removed while it was copied, or may not be read."
                raise Refused("invalid_request", message, param="s3_uri") from None
        elif part.copied is not None:
            self._multipart.copy(
                key, upload, number, source=first.source, start=first.start, end=first.end, etag=first.etag
            )
        else:
            ranges = (self._blobs.get(piece.source, piece.start, piece.end, etag=piece.etag) for piece in part.ranges)
            self._multipart.part(key, upload, number, b"".join(ranges))

    def _check(self, file: File, pending: Pending, wanted: str) -> Pending:
        digest = md5(usedforsecurity=False)
        for data in self._blobs.stream(paths.file(file.org, file.id)):
            digest.update(data)
        if digest.hexdigest() != wanted.lower():
            raise wrong_md5()
        return msgspec.structs.replace(pending, md5=None)

    def _scan(self, file: File, pending: Pending, work: "_Work") -> File:
        end = min((pending.leg + 1) * self._leg_bytes, file.bytes)
        scanner, read_to = work.scanner_at(pending) or self._resumed(file, pending, work.limits)
        writer = ObjectWriter(self._blobs, self._multipart, paths.leg(file.org, file.id, pending.leg))
        for data in self._blobs.stream(paths.file(file.org, file.id), read_to, end):
            for frame in scanner.feed(data):
                writer.write(frame)
        for frame in scanner.finish() if end == file.bytes else scanner.pause():
            writer.write(frame)
        writer.close()
        if end < file.bytes:
            work.keep(scanner, leg=pending.leg + 1, read_to=end)
            after = msgspec.structs.replace(pending, leg=pending.leg + 1, position=scanner.position)
            return msgspec.structs.replace(file, pending=after)
        self._join(file, legs=pending.leg + 1)
        return msgspec.structs.replace(
            file,
            status="processed",
            requests=scanner.summary.requests,
            sectioned=scanner.sectioned,
            pending=None,
        )

    def _resumed(self, file: File, pending: Pending, limits: Limits) -> tuple[Scanner, int]:
        """Give a scanner that knows the legs before, and from where it is to be fed: from the beginning of the line that the last leg ended in."""
        scanner = Scanner(limits, pending.position)
        for leg in range(pending.leg):
            scanner.remember(scan.entries(self._blobs.stream(paths.leg(file.org, file.id, leg))))
        return scanner, pending.position.offset

    def _join(self, file: File, legs: int) -> None:
        writer = ObjectWriter(self._blobs, self._multipart, paths.scan(file.org, file.id))
        for data in self._legs(file, legs):
            writer.write(data)
        writer.close()

    def _legs(self, file: File, legs: int) -> Iterator[bytes]:
        for leg in range(legs):
            yield from self._blobs.stream(paths.leg(file.org, file.id, leg))

    def _clean(self, file: File) -> None:
        """Remove what only the work needed. What stays, should that fail, goes with the file."""
        with suppress(SlackwaterError):
            self._blobs.delete(paths.legs(file.org, file.id))
            self._blobs.delete(paths.pieces(file.org, file.id))
            if file.upload is not None:
                self._blobs.delete(paths.upload(file.org, file.upload))


class _Work:
    """What one worker knows besides the record: all of it could be found again from the store."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.parts: tuple[assembly.Part[Piece], ...] = ()
        self._scanner: tuple[Scanner, int, int] | None = None

    def keep(self, scanner: Scanner, *, leg: int, read_to: int) -> None:
        """Keep a scanner for the leg that comes next."""
        self._scanner = (scanner, leg, read_to)

    def scanner_at(self, pending: Pending) -> tuple[Scanner, int] | None:
        """Give the scanner that was kept, and from where it is to be fed, if it is for this leg."""
        if self._scanner is None or self._scanner[1] != pending.leg:
            return None
        scanner, _, read_to = self._scanner
        return scanner, read_to


def wrong_md5() -> Refused:
    """Refuse a file whose bytes are not those that the caller meant."""
    return Refused("invalid_request", "The MD5 of the parts together is not `md5`. Upload the file again.", param="md5")


def _touched(file: File, at: int) -> File:
    if file.pending is None:
        return file
    return msgspec.structs.replace(file, pending=msgspec.structs.replace(file.pending, touched=at))


def _place(file: File) -> Pending | None:
    return _touched(file, 0).pending
