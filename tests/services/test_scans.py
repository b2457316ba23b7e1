"""Large files: put together and scanned in steps, by workers that die, come twice and lose answers."""

import hashlib
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from shared.core import assembly, paths, scan
from shared.core.assembly import Piece
from shared.core.errors import NotFound, Unavailable
from shared.core.records import File, Pending
from shared.core.request_line import Limits
from shared.core.scan import Scanner
from tests.fakes import Call, Fault, Hostile, fail, lose_answer, ok, then
from tests.services.world import ACME, LINE, OPENAI, START, World, lines

LEG = 4_000
"""Bytes of a leg here: 30 lines or so."""

FOREVER = START + 1e9


SECTION = (
    b'{"section": "%s", "method": "POST", "url": "/v1/chat/completions",'
    b' "body": {"model": "echo"}, "messages": [{"role": "user", "content": "hi"}]}'
)


def uploaded(world: World, content: bytes, piece: int = 1_500, md5: str | None = None) -> File:
    """Keep a file that is still to be put together from pieces of this size, and scanned."""
    blobs = world.memory.blobs
    pieces = []
    for at in range(0, len(content), piece):
        key = paths.upload_part("acme", "upload_1", f"part_{at:09d}")
        data = content[at : at + piece]
        pieces.append(Piece(key, blobs.put(key, data), 0, len(data)))
    draft = world.files.draft(ACME, OPENAI, "big.jsonl")
    file = msgspec.structs.replace(
        draft, bytes=len(content), status="uploaded", upload="upload_1", pending=Pending(pieces=True, md5=md5)
    )
    blobs.put(paths.pieces("acme", file.id), assembly.encode(pieces))
    world.memory.files.put(file)
    return file


def index(world: World, file_id: str) -> bytes:
    """Give the scan of a file as it is stored."""
    return world.memory.blobs.get(paths.scan("acme", file_id))


def whole(content: bytes) -> list[Any]:
    """Give what one pass finds."""
    scanner = Scanner(Limits())
    frames = [*scanner.feed(content), *scanner.finish()]
    return list(scan.entries(frames))


CONTENT = b"\xef\xbb\xbf" + lines(200) + b"\n{oops\n" + lines(3) + b"\r\n" + LINE[:-1] % b"last"
"""A byte order mark, good lines, a blank one, a bad one, three that come twice, and no newline at the end."""


@pytest.mark.parametrize("leg_bytes", [97, LEG, 1 << 30])
def test_a_scan_in_legs_finds_what_one_pass_finds(leg_bytes: int) -> None:
    """Wherever the legs are cut: duplicates across legs, physical lines, offsets."""
    world = World(leg_bytes=leg_bytes)
    file = uploaded(world, CONTENT)

    done = world.scans.advance(ACME, file.id, until=FOREVER)

    assert ("processed", 201, None) == (done.status, done.requests, done.pending)
    assert whole(CONTENT) == list(scan.entries([index(world, file.id)]))
    assert CONTENT == world.memory.blobs.get(paths.file("acme", file.id))
    assert [paths.file("acme", file.id), paths.scan("acme", file.id)] == world.memory.blobs.keys()


def one_step(world: World, file: File) -> File:
    """Work on a file in a process that has time for one step, and knows nothing but what is stored."""
    ticks = iter([START, START, START + 2, START + 2, START + 2])
    world.scans._clock = lambda: next(ticks, START + 2)
    return world.scans.advance(ACME, file.id, until=START + 1)


def test_a_scan_goes_on_in_another_process_after_every_step() -> None:
    """Each call has time for one step, and knows nothing but what is stored."""
    world = World(leg_bytes=LEG)
    file = uploaded(world, CONTENT)
    calls = 0

    while file.pending is not None:
        file = one_step(world, file)
        calls += 1

    assert calls > len(CONTENT) // LEG
    assert whole(CONTENT) == list(scan.entries([index(world, file.id)]))


def test_a_sectioned_file_may_be_cut_anywhere() -> None:
    """Inside the format, a section or a request; whoever goes on knows the sections that lie behind."""
    content = b"\xef\xbb\xbf" + b"\n".join(
        [
            b'{"format": "batchrouter.sectioned.v1"}',
            SECTION % b"s",
            b'{"custom_id": "a", "section": "s", "body": {}}\r',
            SECTION % b"s",
            SECTION % b"t",
            b'{"custom_id": "b", "section": "t", "body": {"n": 2}}',
            b'{"custom_id": "a", "section": "t", "body": {}}',
            b'{"custom_id": "c", "section": "u", "body": {}}',
        ]
    )
    expected = whole(content)
    assert [2, 3, 4, 5, 6, 7, 8] == [item.line for item in expected]

    for leg_bytes in range(3, len(content)):
        world = World(leg_bytes=leg_bytes)
        done = uploaded(world, content)
        while done.pending is not None:
            done = one_step(world, done)

        assert ("processed", 2, True) == (done.status, done.requests, done.sectioned)
        assert expected == list(scan.entries([index(world, done.id)]))


@pytest.mark.parametrize("port", ["blobs", "multipart", "file_store"])
def test_a_step_that_fails_or_loses_its_answer_is_done_again(port: str) -> None:
    """Every third call of a store goes wrong, one way or the other; the file is the same in the end."""
    plain = World(leg_bytes=LEG)
    expected = uploaded(plain, CONTENT)
    plain.scans.advance(ACME, expected.id, until=FOREVER)
    trouble: dict[str, dict[str, list[Fault]]] = {
        "blobs": {"get": [ok, fail] * 3, "put": [ok, lose_answer] * 3, "delete": [fail]},
        "multipart": {"begin": [lose_answer], "part": [lose_answer, ok, fail], "complete": [lose_answer, fail]},
        "file_store": {"update": [ok, lose_answer, ok, fail] * 3},
    }
    world = World(leg_bytes=LEG)
    behind: Any = {"blobs": world.memory.blobs, "multipart": world.memory.blobs, "file_store": world.memory.files}[port]
    hostile = Hostile(behind, trouble[port])
    world = World(world.memory, leg_bytes=LEG, **{port: hostile.port})
    file = uploaded(world, CONTENT)

    for _ in range(50):
        with suppress(Unavailable):
            file = world.scans.advance(ACME, file.id, until=FOREVER)
        world.time += 61
        if file.pending is None:
            break

    assert "processed" == file.status
    assert index(plain, expected.id) == index(world, file.id)
    assert CONTENT == world.memory.blobs.get(paths.file("acme", file.id))


def test_one_works_while_others_look() -> None:
    """A second worker touches nothing while the first is at it."""
    memory = World().memory
    other = World(memory, leg_bytes=LEG)
    seen = []

    def look() -> None:
        seen.append(other.scans.advance(ACME, file.id, until=FOREVER).status)

    hostile = Hostile(memory.blobs, {"stream": [then(look)]})
    world = World(memory, leg_bytes=LEG, blobs=hostile.port)
    file = uploaded(world, CONTENT)

    world.scans.advance(ACME, file.id, until=FOREVER)

    assert ["uploaded"] == seen
    assert {} == hostile.left


def test_a_worker_that_was_taken_for_dead_does_no_harm() -> None:
    """It wakes up in the middle of a step, when another one has long finished the file."""
    memory = World().memory
    other = World(memory, leg_bytes=LEG)
    other.time += 120

    def finish() -> None:
        other.scans.advance(ACME, file.id, until=FOREVER)

    hostile = Hostile(memory.blobs, {"stream": [ok, then(finish)]})
    world = World(memory, leg_bytes=LEG, blobs=hostile.port)
    file = uploaded(world, CONTENT)

    done = world.scans.advance(ACME, file.id, until=FOREVER)

    assert "processed" == done.status
    assert whole(CONTENT) == list(scan.entries([index(world, file.id)]))


def test_a_right_md5_is_checked_and_a_wrong_one_is_an_error() -> None:
    """Over all bytes, whatever pieces they came in."""
    world = World(leg_bytes=LEG)
    digest = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()

    assert "processed" == world.scans.advance(ACME, uploaded(world, CONTENT, md5=digest).id, until=FOREVER).status
    refused = world.scans.advance(ACME, uploaded(world, CONTENT, md5="0" * 32).id, until=FOREVER)
    assert "error" == refused.status
    assert refused.refusal is not None
    assert "md5" == refused.refusal.param


@pytest.mark.parametrize(
    ("content", "code"),
    [(lines(99).decode().encode("utf-16"), "invalid_encoding"), (b"\n" * 9999, "empty_file")],
)
def test_what_the_scan_refuses_stays_with_the_file(content: bytes, code: str) -> None:
    """As its status and its reason; there is nothing more to do."""
    world = World(leg_bytes=LEG)

    done = world.scans.advance(ACME, uploaded(world, content).id, until=FOREVER)

    assert ("error", None) == (done.status, done.pending)
    assert done.refusal is not None
    assert code == done.refusal.code


def test_a_file_that_is_deleted_while_it_is_scanned_is_gone() -> None:
    """The work ends, and no record comes back."""
    memory = World().memory
    hostile = Hostile(memory.blobs, {"stream": [then(lambda: memory.files.delete(ACME, file.id))]})
    world = World(memory, leg_bytes=LEG, blobs=hostile.port)
    file = uploaded(world, CONTENT)

    with pytest.raises(NotFound):
        world.scans.advance(ACME, file.id, until=FOREVER)

    assert [] == memory.files.page(ACME, after=None, limit=9, newest_first=True)


def test_a_processed_file_is_left_alone() -> None:
    """Whoever asks."""
    world = World()
    file = world.take_in()

    assert file == world.scans.advance(ACME, file.id, until=FOREVER)


@pytest.mark.parametrize("step", ["begin", "part", "complete", "put"])
def test_a_file_that_is_deleted_while_it_is_worked_on_leaves_nothing(step: str) -> None:
    """What a step wrote after the deletion goes with the file; its prompts are in no object that nobody can name."""
    plain = World(leg_bytes=LEG)
    file = uploaded(plain, CONTENT)

    def deleted(call: Call) -> Any:
        plain.files.delete(ACME, file.id)
        return call()

    port = "blobs" if step == "put" else "multipart"
    hostile: Any = Hostile(plain.memory.blobs, {step: [deleted]}).port
    world = World(plain.memory, leg_bytes=LEG, **{port: hostile})

    with pytest.raises(NotFound):
        world.scans.advance(ACME, file.id, until=FOREVER)

    assert [] == world.memory.blobs.keys()
    assert {} == world.memory.blobs._uploads
