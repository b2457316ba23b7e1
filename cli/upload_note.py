"""What has arrived of an upload, noted beside the file; a note that cannot be written only costs the taking up again."""

from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self

import msgspec

from cli.errors import CliError


class _Saved(msgspec.Struct):
    base_url: str
    size: int
    changed_at: int  # ns
    upload_id: str
    part_bytes: int
    signed: bool
    parts: dict[int, str]


class Note:
    """The state of one upload; parts arrive from several threads."""

    def __init__(self, place: Path, saved: _Saved) -> None:
        self._place = place
        self._saved = saved
        self._lock = Lock()

    @classmethod
    def new(cls, path: Path, base_url: str, upload_id: str, part_bytes: int, *, signed: bool) -> Self:
        """Begin a note of an upload of which nothing has arrived."""
        status = path.stat()
        saved = _Saved(base_url, status.st_size, status.st_mtime_ns, upload_id, part_bytes, signed, {})
        note = cls(_place(path), saved)
        note._write()
        return note

    @classmethod
    def beside(cls, path: Path, base_url: str) -> Self | None:
        """Give the note of an earlier upload of this very file to this server, if there is one."""
        status = path.stat()
        try:
            saved = msgspec.json.decode(_place(path).read_bytes(), type=_Saved)
        except (OSError, msgspec.DecodeError):
            return None
        same = (saved.base_url, saved.size, saved.changed_at) == (base_url, status.st_size, status.st_mtime_ns)
        return cls(_place(path), saved) if same else None

    @staticmethod
    def remove(path: Path) -> None:
        """Remove the note of a file."""
        with suppress(OSError):
            _place(path).unlink()

    @property
    def upload_id(self) -> str:
        """The upload."""
        return self._saved.upload_id

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._saved.size

    @property
    def part_bytes(self) -> int:
        """The bytes of every part but the last."""
        return self._saved.part_bytes

    @property
    def signed(self) -> bool:
        """Whether the parts go to signed URLs."""
        return self._saved.signed

    @property
    def count(self) -> int:
        """How many parts there are in all."""
        return -(-self.size // self.part_bytes)

    @property
    def parts(self) -> dict[int, str]:
        """What the completion names the parts by that have arrived."""
        return self._saved.parts

    @property
    def bytes_there(self) -> int:
        """The bytes that have arrived."""
        return sum(min(self.part_bytes, self.size - (number - 1) * self.part_bytes) for number in self.parts)

    def missing(self) -> list[int]:
        """Give the numbers of the parts that have not arrived."""
        return [number for number in range(1, self.count + 1) if number not in self.parts]

    def arrived(self, number: int, name: str) -> None:
        """Note a part."""
        with self._lock:
            self.parts[number] = name
            self._write()

    def completion(self) -> dict[str, Any]:
        """Give the body of the completion."""
        names = [self.parts[number] for number in range(1, self.count + 1)]
        return {"etags": names} if self.signed else {"part_ids": names}

    def check(self, path: Path) -> None:
        """CliError when the file is not what it was when the upload began: the parts would not fit together."""
        status = path.stat()
        if (self.size, self._saved.changed_at) != (status.st_size, status.st_mtime_ns):
            self.remove(path)
            raise CliError(f"{path} was changed while it was uploaded", "submit it again")

    def _write(self) -> None:
        part = self._place.with_name(f"{self._place.name}.part")
        with suppress(OSError):
            part.write_bytes(msgspec.json.encode(self._saved))
            part.replace(self._place)


def _place(path: Path) -> Path:
    return path.with_name(f".{path.name}.slackwater-upload")
