"""An input file to the server: in one request where it is small, else in parts, several at a time, and broken uploads taken up again.

Where the deployment signs URLs, the parts go straight to its store; where it does not, through the API in parts that pass an API Gateway. What has
arrived is noted in a hidden file beside the input, so that the same command, given again, sends only what is missing. The note is good for that
very file (size and time of change), that server, and as long as the upload is pending there, which is an hour.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from cli.client import TOO_LARGE, Client
from cli.errors import CliError, ForeignError, RefusedError
from cli.screen import Screen
from cli.upload_note import Note
from cli.wire import PENDING, File, Upload

FORM_BYTES = 64 << 20
PLAIN_PART = 4 << 20
"""A part that fits, as a form, into what a Lambda takes."""

SIGNED_PART = 16 << 20
SIGNED_PARTS = 1000
"""The most URLs that the server gives at a time."""

AT_ONCE = 4

Send = Callable[[int, bytes], str]
"""Sends the part of a number, from 1, and gives what the completion has to name it by."""


def upload(client: Client, screen: Screen, path: Path) -> File:
    """Upload a file and give it. CliError; then the same call goes on where it broke off."""
    size = path.stat().st_size
    note = Note.beside(path, client.base_url)
    if size <= FORM_BYTES and note is None:
        try:
            return client.upload(path)
        except ForeignError as error:
            if error.status != TOO_LARGE:
                raise
            # Something between us and the server takes no request this large; in parts it gets through.
    return _in_parts(client, screen, path, note)


def _in_parts(client: Client, screen: Screen, path: Path, note: Note | None) -> File:
    begun = None if note is None else _still_there(client, note)
    if begun is not None and begun.file is not None:
        Note.remove(path)
        return begun.file  # only the answer was lost
    if note is None or begun is None:
        note = _begin(client, path)
    elif note.parts:
        screen.note(f"going on with {path.name}: {len(note.parts)} of {note.count} parts are there")
    with _told(screen, path):
        _send_missing(client, screen, path, note)
        note.check(path)
        done = client.complete_upload(note.upload_id, note.completion())
    Note.remove(path)
    if done.file is None:
        raise CliError(f"upload {done.id} is {done.status} and has no file", "submit the file again")
    return done.file


def _still_there(client: Client, note: Note) -> Upload | None:
    try:
        found = client.get_upload(note.upload_id)
    except RefusedError as error:
        if error.status == 404:  # noqa: PLR2004 - not found
            return None
        raise
    return found if found.status == PENDING or found.file is not None else None


def _begin(client: Client, path: Path) -> Note:
    size = path.stat().st_size
    upload_id = client.create_upload(path.name, size).id
    part_bytes = max(SIGNED_PART, -(-size // SIGNED_PARTS))
    signed = bool(client.part_urls(upload_id, [1], part_bytes))
    return Note.new(path, client.base_url, upload_id, part_bytes if signed else PLAIN_PART, signed=signed)


def _send_missing(client: Client, screen: Screen, path: Path, note: Note) -> None:
    missing = note.missing()
    send = _sender(client, note, missing)
    with _bar(screen, note) as advance, ThreadPoolExecutor(AT_ONCE) as threads:

        def one(number: int) -> None:
            with path.open("rb") as source:
                source.seek((number - 1) * note.part_bytes)
                data = source.read(note.part_bytes)
            note.arrived(number, send(number, data))
            advance(len(data))

        sent = [threads.submit(one, number) for number in missing]
        try:
            done, _ = wait(sent, return_when=FIRST_EXCEPTION)
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
        for one_sent in done:
            one_sent.result()


def _sender(client: Client, note: Note, missing: list[int]) -> Send:
    if not note.signed:
        return lambda _, data: client.add_part(note.upload_id, data)
    urls = client.part_urls(note.upload_id, missing, note.part_bytes) if missing else {}
    return lambda number, data: client.put_part(urls[number], data)


@contextmanager
def _bar(screen: Screen, note: Note) -> Iterator[Callable[[int], None]]:
    """Show how far the upload is, on a terminal; gives what counts bytes on."""
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen.err, disable=not screen.live, transient=True) as progress:
        task = progress.add_task("uploading", total=note.size, completed=note.bytes_there)
        yield lambda count: progress.advance(task, count)


@contextmanager
def _told(screen: Screen, path: Path) -> Iterator[None]:
    """Whoever is stopped here learns how to go on."""
    try:
        yield
    except (CliError, KeyboardInterrupt):
        screen.note(f"{path.name} is not whole on the server yet; the same command goes on where it broke off")
        raise
