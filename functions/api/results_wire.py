"""A page of results as it is sent: the rows are written as they stand in result files, byte by byte."""

from typing import Any, Literal

import msgspec
from pydantic import BaseModel

from shared.services.results import Rows


class ResultList(BaseModel):
    """A page of results; its rows are those of the contract's result files. `next` is null when the batch has ended and there are no more."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    has_more: bool
    next: str | None
    status: str


def encode(page: Rows) -> bytes:
    """Write a page as `ResultList`."""
    rest = {"has_more": page.has_more, "next": page.next, "status": page.status}
    return b'{"object":"list","data":[' + b",".join(page.rows) + b"]," + msgspec.json.encode(rest)[1:]
