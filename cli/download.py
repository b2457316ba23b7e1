"""Result files to disk: streamed, whole or not at all, taken up where a broken connection left them.

A part of a file is written beside its place under a hidden name and moved there when it is complete, so that a file
with the right name is always a whole one. A download goes on from the byte reached only if the server says that the
bytes are still the same file (If-Range with a strong ETag, and the 206 repeats that ETag); otherwise it starts anew.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

import httpx

from cli.client import Client
from cli.errors import CliError, ForeignError, UnwritableError
from cli.retry import DOWNLOAD
from cli.wire import Batch

PARTIAL = 206
RANGE_OUTSIDE = 416


def download_results(client: Client, batch: Batch, directory: Path) -> list[Path]:
    """Write the batch's files into `directory` (made if missing), replacing older ones; returns their paths.

    The files are `<batch id>_output.jsonl` and `<batch id>_errors.jsonl`; a batch has one, both or none of them.
    Raises CliError; no incomplete file stays.
    """
    files = [(batch.output_file_id, "output"), (batch.error_file_id, "errors")]
    written = []
    for file_id, kind in files:
        if file_id is not None:
            place = directory / f"{batch.id}_{kind}.jsonl"
            with _replacing(place) as sink:
                _fetch(client, file_id, sink)
            written.append(place)
    return written


def _fetch(client: Client, file_id: str, sink: BinaryIO) -> None:
    backoff = client.backoff(DOWNLOAD)
    etag: str | None = None
    while True:
        reached = sink.tell()
        ranged = {"Range": f"bytes={reached}-", "If-Range": etag} if etag and reached else {}
        try:
            with client.content(file_id, ranged) as answer:
                if ranged and not _continues(answer, reached, etag):
                    etag = None  # ask for the whole file next time
                    if answer.status_code in {PARTIAL, RANGE_OUTSIDE}:
                        continue
                if not ranged and answer.status_code in {PARTIAL, RANGE_OUTSIDE}:
                    raise ForeignError("the server gave a part of a file where the whole was asked for", status=0)
                if answer.status_code != PARTIAL:
                    sink.seek(0)
                    sink.truncate()
                    etag = _strong(answer.headers.get("etag"))
                sink.writelines(answer.iter_raw())
                return
        except CliError as error:
            if sink.tell() > reached:
                backoff.progressed()
            backoff.rest(error)


def _continues(answer: httpx.Response, reached: int, etag: str | None) -> bool:
    """Tell whether a ranged request was answered with the rest of the same bytes."""
    start = re.match(r"bytes (\d+)-", answer.headers.get("content-range", ""))
    return (
        answer.status_code == PARTIAL
        and start is not None
        and int(start[1]) == reached
        and answer.headers.get("etag") == etag
    )


def _strong(etag: str | None) -> str | None:
    return etag if etag and not etag.startswith("W/") else None


@contextmanager
def _replacing(place: Path) -> Iterator[BinaryIO]:
    """Give a file that takes `place` when the block ends well, and vanishes when it does not."""
    part = place.with_name(f".{place.name}.{token_hex(4)}.part")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as sink:
                yield sink
                sink.flush()
                os.fsync(sink.fileno())
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise UnwritableError(f"cannot write {place}: {error.strerror}") from error
