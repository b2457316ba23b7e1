"""From a file on this machine to a batch on the server: check, upload, create."""

import codecs
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cli.client import Client
from cli.screen import Screen
from cli.upload import upload
from cli.wire import Batch

CHAT = "/v1/chat/completions"
ENDPOINTS = frozenset({CHAT, "/v1/completions", "/v1/embeddings", "/v1/responses"})
FIRST_LINE_BYTES = 32 << 20


class _Line(msgspec.Struct, frozen=True):
    url: str | None = None
    format: object = None


def check_input(path: Path) -> None:
    """Raise ValueError where the file cannot be an input, before anything is sent."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a regular file: write the requests to a file first")
    if status.st_size == 0:
        raise ValueError(f"{path} is empty: it needs one request a line")


def endpoint_of(path: Path) -> str:
    """Give the endpoint that the first line of a file names, or behind the format of a sectioned file the first section.

    Where it names none, that of chats: the server says what is wrong.
    """
    with path.open("rb") as source:
        line = _line(source.readline(FIRST_LINE_BYTES).removeprefix(codecs.BOM_UTF8))
        if line.url is None and line.format is not None:
            line = _line(source.readline(FIRST_LINE_BYTES))
    return line.url if line.url in ENDPOINTS else CHAT


def _line(raw: bytes) -> _Line:
    try:
        return msgspec.json.decode(raw, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Line()


def parse_metadata(pairs: Iterable[str]) -> dict[str, str]:
    """Read `key=value` words; ValueError names the one that is none, or comes twice."""
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(f"metadata is key=value, not {pair!r}")
        if key in metadata:
            raise ValueError(f"metadata names {key!r} twice")
        metadata[key] = value
    return metadata


def submit(
    client: Client,
    screen: Screen,
    path: Path,
    *,
    endpoint: str,
    window: str,
    metadata: dict[str, str],
    idempotency_key: str,
) -> Batch:
    """Upload the file and create a batch of it; raises CliError."""
    file = upload(client, screen, path)
    screen.note(f"uploaded {path.name} ({file.bytes} bytes) as {file.id}")
    body = {"input_file_id": file.id, "endpoint": endpoint, "completion_window": window}
    return client.create_batch(body | ({"metadata": metadata} if metadata else {}), idempotency_key)
