"""Files that come from elsewhere in S3: copied inside S3, in the version that was looked at, and scanned like any other.

They take the way of large uploads (`shared.services.scans`); of a small one all of it is walked before the answer.
"""

from contextlib import suppress
from math import inf

import msgspec

from shared.core import assembly, paths
from shared.core.assembly import Piece
from shared.core.contract import Contract
from shared.core.errors import NotFound, Refused, Unavailable
from shared.core.ids import Space
from shared.core.prefixes import Prefixes
from shared.core.records import File, Pending
from shared.core.window import Timing
from shared.ports import Blobs, Elsewhere, ScanStarter
from shared.services.files import Files
from shared.services.intake import check_purpose, lifetime, too_large
from shared.services.scans import Scans
from shared.services.uploads import PROMPT_BYTES

URI = "s3_uri"


class S3Files:
    """Takes files in by their URI."""

    def __init__(
        self,
        *,
        files: Files,
        blobs: Blobs,
        elsewhere: Elsewhere,
        scans: Scans,
        starter: ScanStarter,
        prefixes: Prefixes,
        timing: Timing,
        prompt_bytes: int = PROMPT_BYTES,
    ) -> None:
        self._files = files
        self._blobs = blobs
        self._elsewhere = elsewhere
        self._scans = scans
        self._starter = starter
        self._prefixes = prefixes
        self._timing = timing
        self._prompt_bytes = prompt_bytes

    def take(self, space: Space, contract: Contract, *, uri: str, purpose: str, expires_after: int | None) -> File:
        """Take a file in. Refused as an upload would be, and `invalid_request` when the object may not be used or is not there."""
        check_purpose(purpose)
        seconds = self._timing.seconds(lifetime(contract, expires_after))
        self._prefixes.check(space.org, uri, URI)
        try:
            info = self._elsewhere.stat(uri)
        except NotFound:
            raise Refused("invalid_request", f"There is no {uri}, or it may not be read.", param=URI) from None
        if info.size > contract.file_bytes:
            raise too_large(contract)
        if not info.size:
            raise Refused("empty_file", "the file has no request lines", param=URI)
        draft = self._files.draft(space, contract, uri.rpartition("/")[2])
        file = msgspec.structs.replace(
            draft,
            bytes=info.size,
            expires_at=draft.created_at + seconds,
            status="uploaded",
            pending=Pending(pieces=True),
        )
        self._blobs.put(paths.pieces(space.org, file.id), assembly.encode([Piece(uri, info.etag, 0, info.size)]))
        self._files.keep(file, contract)
        return self._now(file) if info.size <= self._prompt_bytes else self._later(file)

    def _now(self, file: File) -> File:
        done = self._scans.advance(file.space, file.id, until=inf)
        if done.refusal is not None:
            self._files.delete(file.space, file.id)
            raise Refused(done.refusal.code, done.refusal.message, param=done.refusal.param)
        return done

    def _later(self, file: File) -> File:
        with suppress(Unavailable):  # then the sweep has it scanned, or a batch that names it
            self._starter.start(file.space, file.id)
        return file
