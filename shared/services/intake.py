"""An upload while it comes in: its bytes go to the store and through the scan at once, in flat memory.

The record is written last, so that a file which can be seen is whole and scanned. Until then `abort` leaves nothing behind; from then on
the bytes stay, whatever the answer to the write was: an object without a record is harmless, a record without its object is not.
"""

from collections.abc import Callable

import msgspec

from shared.core import paths, scan
from shared.core.contract import Contract
from shared.core.errors import Conflict, Refused, Unavailable
from shared.core.judge import Judge
from shared.core.records import File
from shared.core.scan import Scanner
from shared.core.window import Timing
from shared.ports import Blobs, Multipart
from shared.services.object_writer import ObjectWriter

INPUT = "batch"
"""The purpose of the files that callers upload."""

Keep = Callable[[File], None]
"""Writes the record of a file that is whole; repeating it is harmless. Refused when there is no room: then it is not written. Conflict, Unavailable."""


class Intake:
    """One file on its way in. Made by `shared.services.files.Files.begin`; ends with `finish` or `abort`."""

    def __init__(
        self,
        draft: File,
        contract: Contract,
        timing: Timing,
        *,
        keep: Keep,
        judge: Judge | None,
        blobs: Blobs,
        multipart: Multipart,
    ) -> None:
        self._draft = draft
        self._contract = contract
        self._timing = timing
        self._keep = keep
        self._judge = judge
        self._blobs = blobs
        self._keys = (paths.file(draft.org, draft.id), paths.scan(draft.org, draft.id))
        self._content, self._index = (ObjectWriter(blobs, multipart, key) for key in self._keys)
        self._scanner = Scanner(contract.line_limits)
        self._recorded = False

    def write(self, data: bytes) -> None:
        """Take the next bytes. Refused `file_too_large`, what the scan refuses, or for its first bad line where the contract judges uploads."""
        if self._content.size + len(data) > self._contract.file_bytes:
            raise too_large(self._contract)
        for frame in self._scanner.feed(data):
            self._note(frame)
        self._content.write(data)

    def finish(self, *, purpose: str | None, expires_after: int | None = None) -> File:
        """Make the file appear, and give its record. `expires_after` is in seconds; None lets the contract say.

        Refused `empty_file`, `missing_required_parameter`, `invalid_request`, or what `keep` refuses.
        """
        check_purpose(purpose)
        seconds = lifetime(self._contract, expires_after)
        for frame in self._scanner.finish():
            self._note(frame)
        self._index.close()
        self._content.close()
        file = msgspec.structs.replace(
            self._draft,
            bytes=self._content.size,
            requests=self._scanner.summary.requests,
            sectioned=self._scanner.sectioned,
            expires_at=self._draft.created_at + self._timing.seconds(seconds),
        )
        self._recorded = True
        try:
            self._keep(file)
        except Refused:
            self._recorded = False
            raise
        except Unavailable:
            self._keep_again(file)
        return file

    def abort(self) -> None:
        """Leave nothing behind. Nothing happens once the record was written. Unavailable: something may be left."""
        if self._recorded:
            return
        for writer, key in zip((self._content, self._index), self._keys, strict=True):
            writer.abort()
            self._blobs.delete(key)

    def _note(self, frame: bytes) -> None:
        """Keep a frame of the index, unless it has a line that refuses the file."""
        if self._judge is not None:
            for error in self._judge.errors(scan.entries([frame])):
                raise Refused(self._contract.refusal(error.code), f"Line {error.line}: {error.message}.", param="file")
        self._index.write(frame)

    def _keep_again(self, file: File) -> None:
        try:
            self._keep(file)
        except Conflict:
            return  # the id is ours alone, so the first write took effect


def check_purpose(purpose: str | None) -> None:
    """Refused unless the file is to be the input of batches: there is nothing else to upload a file for."""
    if not purpose:
        raise Refused("missing_required_parameter", "Missing required field: 'purpose'.", param="purpose")
    if purpose != INPUT:
        raise Refused("invalid_request", f"'purpose' must be {INPUT!r}.", param="purpose")


def lifetime(contract: Contract, expires_after: int | None) -> int:
    """Give the seconds that a file lives, which a caller may choose within the contract's bounds. Refused `invalid_request`."""
    if expires_after is None:
        return contract.input_lifetime
    least, most = contract.expires_after
    if not least <= expires_after <= most:
        message = f"'expires_after[seconds]' must be between {least} and {most}."
        raise Refused("invalid_request", message, param="expires_after[seconds]")
    return expires_after


def too_large(contract: Contract, param: str = "file") -> Refused:
    """Refuse a file, or a body that must hold one, for its size; `param` is the field that has it or tells of it."""
    message = f"The file is larger than {contract.file_bytes} bytes. Split it into several files, a batch each."
    return Refused("file_too_large", message, param=param)
