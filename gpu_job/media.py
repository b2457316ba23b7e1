"""Images, sounds and videos in requests: what is at an https URL is fetched here and put into the request, so that the engine fetches nothing.

Rules:

- A media URL is an https or a data URL. Any other one (http, file) is an error of its row, and so is one that could not be fetched.
- They are found by the names of fields that engines read URLs from, wherever in `messages` or `input` these are, whatever type a part says it has.
- The names that a caller gives to media (`uuid`) are taken out: by them an engine would find again what another organization has sent.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from gpu_job.fetch import Fetcher, NotFetched
from gpu_job.row import Finished, Row, refuse

FIELDS = ("image_url", "audio_url", "video_url", "file_url")
CONTENTS = ("messages", "input")
NAME = "uuid"
_NOTED = frozenset({*FIELDS, NAME})
MOST = 20 << 20
"""The most bytes that are fetched for one request: as many as a line may have."""
ROWS = 32
"""How many rows have fetched media in this process at once."""


class Place(NamedTuple):
    """Where a media URL stands: `holder[key]`; `name` is how an error names it."""

    holder: dict[str, Any]
    key: str
    name: str

    @property
    def url(self) -> str:
        """What stands there."""
        return str(self.holder[self.key])

    @property
    def scheme(self) -> str:
        """The scheme of that, in small letters."""
        return self.url.partition(":")[0].lower()


class Media:
    """Puts media into rows."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._rows = asyncio.Semaphore(ROWS)

    @asynccontextmanager
    async def inlined(self, row: Row) -> AsyncIterator[Finished | None]:
        """Have the media in the row's body for the length of a block; gives the finished row if that cannot be done."""
        if not any(_NOTED.intersection(item) for _, item in _objects(row.request.body)):
            yield None
            return
        async with self._rows:
            yield await self._inline(row)

    async def _inline(self, row: Row) -> Finished | None:
        body = msgspec.json.decode(row.body)
        found = list(_places(body))
        for place in found:
            if place.scheme not in {"data", "https"}:
                return refuse(row, f"`{place.name}` must be an https or a data URL.", place.name)
        room = MOST
        for place in found:
            # One after the other: what there is no room for is not fetched.
            if place.scheme == "https":
                try:
                    fetched = await self._fetcher.fetch(place.url, room)
                except NotFetched as error:
                    return refuse(row, f"`{place.name}` could not be fetched: {error}.", place.name)
                room -= len(fetched.data)
                place.holder[place.key] = await asyncio.to_thread(_data_url, fetched.kind, fetched.data)
        row.body = await asyncio.to_thread(msgspec.json.encode, body)
        return None


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"


def _places(body: dict[str, Any]) -> Iterator[Place]:
    """Find the media URLs of a request's body, in order; names of media are taken out on the way."""
    for name, item in _objects(body):
        item.pop(NAME, None)
        for field in FIELDS:
            told = item.get(field)
            holder, key = (told, "url") if isinstance(told, dict) else (item, field)
            if isinstance(holder.get(key), str):
                yield Place(holder, key, f"{name}.{field}")


def _objects(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every object below the contents of a request, and how an error names it."""
    for content in CONTENTS:
        if isinstance(body.get(content), list):
            yield from _below(body[content], f"body.{content}")


def _below(value: dict[str, Any] | list[Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield name, value
        children = [(f"{name}.{key}", item) for key, item in value.items() if isinstance(item, dict | list)]
    else:  # of tokens, perhaps: no name is made for what holds nothing
        children = [(f"{name}[{index}]", item) for index, item in enumerate(value) if isinstance(item, dict | list)]
    for child, item in children:
        yield from _below(item, child)
