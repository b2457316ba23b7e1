"""What happens to a batch while its workers are killed, stopped, cancelled and out of time: every line still has its one row."""

import random
import signal

import pytest
from openai import OpenAI

from tests.e2e.stack import LocalStack, assert_exactly_once, chat, submit, until

pytestmark = pytest.mark.stack


def _delayed(count: int) -> list[dict[str, object]]:
    dice = random.Random(7)
    return [chat(f"line-{index}", f"hello {index} [[delay {dice.uniform(0.5, 3):.3f}]]") for index in range(count)]


def _fast_and_slow(count: int, slow: float) -> list[dict[str, object]]:
    """Of 25 lines, 5 answer at once and 20 take their time."""
    return [
        chat(f"{'fast' if index % 25 < 5 else 'slow'}-{index}", "hi" if index % 25 < 5 else f"hi [[delay {slow}]]")
        for index in range(count)
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_batch_completes_though_its_workers_are_killed(
    stack: LocalStack, client: OpenAI, number: signal.Signals
) -> None:
    """Three workers are killed while 2,000 lines run; each line is answered exactly once."""
    lines = _delayed(2000)
    batch = submit(client, lines)
    for done in (100, 600, 1200):
        assert "in_progress" == until(client, batch, done).status
        stack.signal_worker(number)
    batch = until(client, batch)
    assert "completed" == batch.status
    found = assert_exactly_once(client, batch, lines)
    assert all(row["response"]["status_code"] == 200 for row in found.values())


def test_a_cancel_keeps_what_is_finished(client: OpenAI) -> None:
    """Fast lines that were answered before the cancel keep their answers; the rest say that they were cancelled."""
    lines = _fast_and_slow(2000, slow=3)
    batch = submit(client, lines)
    until(client, batch, done=50)
    client.batches.cancel(batch.id)
    batch = until(client, batch)
    assert "cancelled" == batch.status
    found = assert_exactly_once(client, batch, lines)
    kept = [custom_id for custom_id, row in found.items() if row["error"] is None]
    assert len(kept) >= 50
    assert {"batch_cancelled"} == {row["error"]["code"] for row in found.values() if row["error"]}


def test_the_deadline_keeps_what_is_finished(fast_stack: LocalStack) -> None:
    """When the window is over, answered lines are delivered and the rest say that they expired."""
    with fast_stack.client() as client:
        lines = _fast_and_slow(4000, slow=3)
        batch = submit(client, lines)
        until(client, batch, done=50)
        batch = until(client, batch)
        assert "expired" == batch.status
        found = assert_exactly_once(client, batch, lines)
        assert any(row["error"] is None for row in found.values())
        assert {"batch_expired"} == {row["error"]["code"] for row in found.values() if row["error"]}


@pytest.mark.parametrize("directive", ["crash", "hang", "nan"])
def test_one_bad_line_fails_alone(client: OpenAI, directive: str) -> None:
    """A line that kills the engine, never ends or answers garbage is one error row; its 199 neighbours are answered."""
    lines = [chat(f"line-{index}", f"[[{directive}]]" if index == 77 else "hello") for index in range(200)]
    batch = until(client, submit(client, lines))
    assert "completed" == batch.status
    found = assert_exactly_once(client, batch, lines)
    bad = {custom_id: row["error"]["code"] for custom_id, row in found.items() if row["error"]}
    assert {"line-77": "server_error"} == bad
