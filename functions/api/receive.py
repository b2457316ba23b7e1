"""A form whose file streams by: its bytes go on as they come, whatever its size, and what a refused one left behind is removed."""

from contextlib import suppress
from typing import Protocol, TypeVar

from anyio import CancelScope
from fastapi import Request
from fastapi.concurrency import run_in_threadpool

from functions.api.body import blocks, discard
from functions.api.query import DIGITS
from shared.core.errors import Refused, Unavailable

FORM_BYTES = 1 << 20
"""More than a form needs around its file."""

T_co = TypeVar("T_co", covariant=True)

TOO_MUCH = frozenset({"file_too_large", "body_too_large"})


class Form(Protocol[T_co]):
    """Takes the body of one request."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Refused."""

    def finish(self) -> T_co:
        """Take the end of the body, and give what it made. Refused."""

    def abort(self) -> None:
        """Leave nothing behind of what was not finished."""


def announced(request: Request) -> int:
    """Give the length that the client announced, 0 where it did not."""
    length = request.headers.get("content-length", "")
    return int(length[:DIGITS]) if length.isascii() and length.isdecimal() else 0


async def receive(request: Request, form: Form[T_co], limit: int) -> T_co:
    """Feed a request's body to a form; of a refused one, read on to its end or to `limit` bytes."""
    stream = request.stream()
    try:
        async for block in blocks(stream):
            await run_in_threadpool(form.feed, block)
        return await run_in_threadpool(form.finish)
    except Refused as refused:
        if refused.code not in TOO_MUCH:
            await discard(stream, limit)
        raise
    finally:
        with CancelScope(shield=True), suppress(Unavailable):  # the bucket's lifecycle removes what is left then
            await run_in_threadpool(form.abort)
