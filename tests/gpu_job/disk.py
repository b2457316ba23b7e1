"""A disk that takes nothing more, for this process and the children that it starts meanwhile."""

import resource
from types import TracebackType
from typing import Self


class FullDisk:
    """Within the block, or until `tidy`, files can be made and opened but not written. The kernel says so, with EFBIG in place of ENOSPC."""

    def __enter__(self) -> Self:
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, self._limits[1]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tidy()

    def tidy(self) -> None:
        """Make room."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
