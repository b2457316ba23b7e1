"""How much a space may store, and what counts.

Results are never refused for want of room, but they take it where the contract counts them.
"""

import msgspec

from shared.core.records import File, Stored

RESULT = "batch_output"
"""The purpose of files that batches leave; all others are inputs."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The most files and bytes that a space may store, None where that does not matter; `inputs_only`: results do not count."""

    files: int | None = None
    bytes: int | None = None
    inputs_only: bool = False

    def takes(self, stored: Stored, file: File) -> bool:
        """Whether there is room for a new file beside what is stored."""
        files, size = (stored.input_files, stored.input_bytes) if self.inputs_only else (stored.files, stored.bytes)
        return (self.files is None or files < self.files) and (self.bytes is None or size + file.bytes <= self.bytes)


ENDLESS = Room()


def change(stored: Stored, file: File, sign: int) -> Stored:
    """Count a file in (`sign` 1) or out (-1)."""
    inputs = sign if file.purpose != RESULT else 0
    return Stored(
        files=stored.files + sign,
        bytes=stored.bytes + sign * file.bytes,
        input_files=stored.input_files + inputs,
        input_bytes=stored.input_bytes + inputs * file.bytes,
    )
