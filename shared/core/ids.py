"""Ids: a prefix and a ULID, so that the order of ids is the order of creation and newest-first is a key query.

New ids come from outside (`shared.ports.NewId`); here are only the ids that follow from others, and the references
under which stores keep things. A reference begins with the organization: nothing can be looked up without it.
"""

import re
from hashlib import sha256
from typing import NamedTuple

from ulid import ULID

FILE = "file-"
UPLOAD = "upload_"
PART = "part_"
BATCH = "batch_"
REQUEST = "req_"
ROW = "batch_req_"

_TAIL = re.compile(r"[0-9A-Za-z_-]{1,64}")


class Space(NamedTuple):
    """What a caller sees: the objects of one organization made under one contract's mount."""

    org: str
    contract: str

    def __str__(self) -> str:
        return f"{self.org}/{self.contract}"


class BatchRef(NamedTuple):
    """One batch, as stores, executions and workers name it: `<org>/<contract>/<batch id>`."""

    org: str
    contract: str
    id: str

    @property
    def space(self) -> Space:
        """The space that the batch lives in."""
        return Space(self.org, self.contract)

    @classmethod
    def parse(cls, text: str) -> "BatchRef":
        """Read what `str()` wrote; ValueError for anything else."""
        org, contract, batch = text.split("/")
        return cls(org, contract, batch)

    def __str__(self) -> str:
        return f"{self.org}/{self.contract}/{self.id}"


def could_be(prefix: str, text: str) -> bool:
    """Whether `text` has the form of an id: what has not is nobody's, and stores are not asked for it."""
    return text.startswith(prefix) and _TAIL.fullmatch(text, len(prefix)) is not None


def derived(prefix: str, at: int, *names: str) -> str:
    """Give the one id that follows from `names`, sorted as if it had been made at `at` (Unix seconds).

    A result file's id follows from its batch, so that a second Finalize finds the first one's work.
    """
    tail = sha256("\n".join(names).encode()).digest()[:10]
    return f"{prefix}{ULID.from_bytes((at * 1000).to_bytes(6, 'big') + tail)}"


def execution(batch_id: str, generation: int) -> str:
    """Name an execution of the lifecycle; the name is its idempotency key."""
    return f"{batch_id}-{generation}"


def generation(execution_name: str) -> int:
    """Give the generation of the execution with this name; ValueError for a name of another making."""
    return int(execution_name.rpartition("-")[2])


def row_id(batch_id: str, line: int) -> str:
    """Give the `id` of a result row: it tells batch and input line, so that no record a row is needed."""
    return f"{ROW}{batch_id.removeprefix(BATCH)}_{line}"


def line_of(row_id: str) -> int:
    """Give the input line of a row with this `id`."""
    return int(row_id.rpartition("_")[2])


def request_id(batch_id: str, line: int) -> str:
    """Give the `response.request_id` of a result row; it tells batch and input line as well."""
    return f"{REQUEST}{batch_id.removeprefix(BATCH)}_{line}"
