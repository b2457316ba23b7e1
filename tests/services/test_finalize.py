"""The result files, byte by byte: small ones, large ones in parts, and whatever stops or disturbs their writing."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from shared.core import paths
from shared.core.assembly import LEAST_PART, PART_BYTES
from shared.core.errors import Conflict
from shared.core.lifecycle import Event, is_terminal
from shared.core.records import Batch, Status
from shared.services.ahead import READERS
from tests.fakes import PATIENCE, Call
from tests.services.ended import MIB, REF, Ended, Some

ENOUGH = 10_000.0


class Killed(BaseException):
    """The process was killed: no thread of it lives on to tell."""


def small() -> Ended:
    """Give a batch with rows of every kind, small."""
    return Ended(([Some(3, 1), Some(2)], 2), ([Some(0, 2)], 1), ([], 3), ([Some(4)], 0))


def large() -> Ended:
    """Give a batch whose output file has chunks to be copied, chunks to be put together, and borders of parts in their midst."""
    chunks = [
        Some(3, row_bytes=3 * MIB),
        Some(2, 1, row_bytes=2 * MIB),
        Some(1, row_bytes=100),
        Some(3, row_bytes=3 * MIB),
    ]
    return Ended((chunks, 2), ([Some(5, row_bytes=MIB)], 0))


def two_parts() -> Ended:
    """Give the smallest batch whose output file is written in parts, one of them copied."""
    return Ended(([Some(3, row_bytes=3 * MIB), Some(1, 1)], 1))


@pytest.mark.parametrize("make", [small, large])
def test_every_row_is_in_its_file_in_the_order_of_shards_epochs_and_numbers(make: Callable[[], Ended]) -> None:
    """Committed rows first, then the rows of lines that have none."""
    ended = make()
    assert Status.EXPIRED is ended.finalize().status
    ended.assert_published()


@pytest.mark.parametrize(
    ("how", "status"),
    [(Event.DRAIN, "completed"), (Event.CANCEL, "cancelled"), (Event.EXPIRE, "expired"), (Event.FAULT, "failed")],
)
def test_each_ending_has_its_own_rows(how: Event, status: str) -> None:
    """Only the rows of lines without an answer differ."""
    ended = Ended(([Some(1, 1)], 2), how=how)
    assert status == ended.finalize().status
    ended.assert_published()


def test_a_file_without_rows_is_not_shown() -> None:
    """Neither an output file where nothing was answered, nor an error file where everything was."""
    unanswered, answered = Ended(([], 3)), Ended(([Some(3)], 0))
    assert unanswered.finalize().output_file_id is None
    assert answered.finalize().error_file_id is None
    unanswered.assert_published()
    answered.assert_published()


def reads(ended: Ended) -> list[int]:
    """Run Finalize; give how many bytes each of its reads gives."""
    found: list[int] = []

    def watch(call: Call) -> object:
        answer = call()
        if isinstance(answer, bytes):
            found.append(len(answer))
        return answer

    ended.meet = watch
    ended.finalize()
    ended.meet = lambda call: call()
    return found


def test_large_chunks_are_copied_inside_the_store() -> None:
    """Nine MiB are never read."""
    ended = two_parts()
    assert sum(reads(ended)) < MIB
    ended.assert_published()


def test_large_chunks_are_copied_wherever_they_stand() -> None:
    """Shards end with small ones; behind such a one, what is read makes two parts of the least size."""
    ended = Ended(*[([Some(9, row_bytes=MIB), Some(9, row_bytes=MIB), Some(1)], 0)] * 2)
    assert sum(reads(ended)) < 2 * LEAST_PART + MIB
    ended.assert_published()


def test_every_byte_of_small_chunks_is_read_once() -> None:
    """And so is every plan, though its rows stand in two parts."""
    ended = Ended(*[([Some(30, row_bytes=100_000)], 4000)] * 4, custom_id_chars=512)
    plans = sum(len(ended.memory.blobs.get(key)) for key in ended.memory.blobs.keys(paths.plans(REF)))
    assert len(ended.output) + plans == sum(reads(ended))
    ended.assert_published()


def test_no_more_than_two_parts_are_in_memory() -> None:
    """What is read waits for no more than one part to be written in front of it."""
    ended = Ended(*[([Some(7, row_bytes=100_000)] * 12, 0)] * 6)
    part = ended.memory.blobs.part
    held = most = 0

    def watch(call: Call) -> object:
        nonlocal held, most
        answer = call()
        held += len(answer) if isinstance(answer, bytes) else 0
        most = max(most, held)
        return answer

    def write(key: str, upload: str, number: int, data: bytes) -> None:
        nonlocal held
        part(key, upload, number, data)
        held -= len(data)

    ended.meet, ended.memory.blobs.part = watch, write  # type: ignore[method-assign]
    ended.finalize()
    ended.meet = lambda call: call()
    ended.assert_published()
    assert 0 == held
    assert most <= 2 * PART_BYTES


def test_what_a_part_needs_is_read_side_by_side() -> None:
    """Four readers wait for each other: one after the other they would wait for ever."""
    ended = Ended(*[([Some(3)], 0)] * 4, readers=partial(ThreadPoolExecutor, READERS))
    together = Barrier(4)

    def meet(call: Call) -> object:
        answer = call()
        if isinstance(answer, bytes):
            together.wait(PATIENCE)
        return answer

    ended.meet = meet
    ended.finalize()
    ended.meet = lambda call: call()
    ended.assert_published()


@pytest.mark.parametrize("make", [small, large])
def test_files_are_the_same_however_many_read(make: Callable[[], Ended]) -> None:
    """In threads, in whatever order their answers come."""
    ended = make()
    chance, ended.readers = random.Random(1), partial(ThreadPoolExecutor, READERS)

    def meet(call: Call) -> object:
        time.sleep(chance.random() / 100)
        return call()

    ended.meet = meet
    while ended.finalize(seconds=9).status is Status.FINALIZING:
        pass
    ended.assert_published()


def test_an_error_file_of_lines_that_never_ran_is_written_in_parts() -> None:
    """Its rows are made part by part, and cut where a part is full."""
    ended = Ended(*[([Some(1)], 5000)] * 3, custom_id_chars=512)
    ended.finalize()
    ended.assert_published()
    assert len(ended.error) > 8 * MIB


@pytest.mark.parametrize("make", [small, large])
def test_a_finalize_that_has_time_for_one_step_at_a_time_comes_to_the_same_end(make: Callable[[], Ended]) -> None:
    """Each call goes on where the cursor stands."""
    ended = make()
    calls = 1
    while ended.finalize(seconds=4).status is Status.FINALIZING:
        calls += 1
        assert calls < 100
    ended.assert_published()
    assert calls > 1


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("make", [small, two_parts])
def test_a_finalize_that_is_killed_at_any_call_is_finished_by_the_next(make: Callable[[], Ended], after: bool) -> None:  # noqa: FBT001 - a parameter
    """At each single call that it makes."""
    step, reached = 0, True
    while reached:
        ended = make()
        reached = killed_at(ended, step, after=after)
        ended.finalize()
        ended.assert_published()
        step += 1
    assert step > 5


def killed_at(ended: Ended, step: int, *, after: bool) -> bool:
    """Run Finalize until it is killed at this call; whether it made so many."""

    def meet(call: Call) -> object:
        if ended.calls == step + 1:
            if after:
                call()
            raise Killed
        return call()

    ended.meet = meet
    try:
        ended.finalize()
    except Killed:
        return True
    finally:
        ended.meet = lambda call: call()
    return False


@pytest.mark.parametrize("make", [small, two_parts])
@pytest.mark.parametrize("seconds", [ENOUGH, 4.0], ids=["to its end", "for one step"])
def test_a_second_finalize_that_comes_between_two_calls_of_the_first_disturbs_nothing(
    make: Callable[[], Ended], seconds: float
) -> None:
    """Between any two; both end well, and write the same."""
    step, reached = 0, True
    while reached:
        ended = make()
        reached = disturbed_at(ended, step, seconds)
        ended.finalize()
        ended.assert_published()
        step += 1
    assert step > 5


def disturbed_at(ended: Ended, step: int, seconds: float) -> bool:
    """Run Finalize, and another one in front of this call; whether it made so many. Once the other has ended the batch, nothing changes it."""
    others: list[Batch] = []

    def meet(call: Call) -> object:
        if ended.calls == step + 1:
            ended.meet = lambda call: call()
            others.append(ended.finalize(seconds))
        return call()

    ended.meet = meet
    batch = ended.finalize()
    assert all(batch == other for other in others if is_terminal(other))
    return bool(others)


def test_two_finalizes_that_take_turns_come_to_one_end() -> None:
    """A second one makes a step in front of every call of the first."""
    ended = large()
    deep = False

    def meet(call: Call) -> object:
        nonlocal deep
        if not deep:
            deep = True
            ended.finalize(seconds=4)
            deep = False
        return call()

    ended.meet = meet
    ended.finalize()
    ended.meet = lambda call: call()
    ended.assert_published()


@pytest.mark.parametrize("make", [small, two_parts], ids=["one that is read", "one that is copied"])
def test_a_chunk_that_is_not_the_committed_one_stops_the_finalize(make: Callable[[], Ended]) -> None:
    """Better no result than a wrong one."""
    ended = make()
    key = ended.memory.blobs.keys(paths.chunks(REF))[0]
    ended.memory.blobs.put(key, b"something else" * MIB)
    with pytest.raises(Conflict):
        ended.finalize()
    assert Status.FINALIZING is ended.memory.batches.get(REF).status


def test_a_batch_that_has_ended_stays_as_it_is() -> None:
    """A late Finalize changes neither record nor files, and removes what a zombie left behind."""
    ended = small()
    batch = ended.finalize()
    zombies = paths.chunk(REF, 0, 9, 9, "zombie")
    ended.memory.blobs.put(zombies, b"late")
    assert batch == ended.finalize()
    ended.assert_published()
