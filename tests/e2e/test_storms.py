"""Storms over real processes: workers and engines are killed, stopped and frozen at random while batches run. A storm is its seed.

    SLACKWATER_STORMS=20 .venv/bin/python -m pytest tests/e2e/test_storms.py      more of them

The seed decides the lines and what is done to whom and after which pause; what the machine makes of it differs a little from run to run.
"""

import os
import random
import signal
import threading
import time
from contextlib import suppress
from typing import Any, Self

import pytest
from openai import ConflictError, OpenAI

from tests.e2e.stack import LocalStack, assert_exactly_once, chat, submit, until

pytestmark = pytest.mark.stack

SEEDS = range(int(os.environ.get("SLACKWATER_STORMS", "3")))
LINES = 400
TROUBLE = ("[[status 500]]", "[[nan]]", "[[crash]]")
FROZEN = 10.0
"""Seconds: longer than a lease of this stack lasts, so that who wakes up is a zombie."""


def _lines(dice: random.Random, batch: int) -> list[dict[str, Any]]:
    lines = []
    for index in range(LINES):
        what = dice.choices(["", *TROUBLE], weights=[1000, 2, 2, 1])[0]
        text = what or f"hello {batch}-{index} [[delay {dice.uniform(0, 2):.3f}]]"
        lines.append(chat(f"{batch}-{index}", text))
    return lines


class Storm:
    """What is done to the processes of a stack, until it is calm."""

    def __init__(self, stack: LocalStack, dice: random.Random) -> None:
        self._stack = stack
        self._dice = dice
        self._calm = threading.Event()
        self.met = 0  # acts that met somebody
        self._thread = threading.Thread(target=self._rage)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._calm.set()
        self._thread.join()

    def _rage(self) -> None:
        acts = [self._kill, self._end, self._freeze, self._kill_engine, self._freeze_engine]
        for _ in range(self._dice.randint(2, 5)):
            if self._calm.wait(self._dice.uniform(0.1, 1.5)):
                return
            act, choice = self._dice.choice(acts), self._dice.random()
            there = self._stack.echo_engines if act in acts[3:] else self._stack.workers
            while not (found := sorted(there())):  # they come and go
                if self._calm.wait(0.05):
                    return
            with suppress(ProcessLookupError):
                act(found[int(choice * len(found))])
                self.met += 1

    def _kill(self, worker: int) -> None:
        os.kill(worker, signal.SIGKILL)

    def _end(self, worker: int) -> None:
        os.kill(worker, signal.SIGTERM)

    def _freeze(self, worker: int) -> None:
        os.kill(worker, signal.SIGSTOP)
        try:
            self._calm.wait(FROZEN)
        finally:
            os.kill(worker, signal.SIGCONT)

    def _kill_engine(self, engine: int) -> None:
        os.kill(engine, signal.SIGKILL)

    def _freeze_engine(self, engine: int) -> None:
        os.kill(engine, signal.SIGSTOP)  # nobody wakes it: it has to be found out


def assert_answered(line: dict[str, Any], row: dict[str, Any]) -> None:
    """Check that a row is the answer to its own line, and an error only where the line asks for trouble."""
    text = line["body"]["messages"][-1]["content"]
    if text in TROUBLE:
        assert row["response"] is None or row["response"]["status_code"] != 200
    else:
        assert 200 == row["response"]["status_code"]
        assert line["custom_id"] in row["response"]["body"]["choices"][0]["message"]["content"].split()


@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_storm_every_line_has_its_one_row(stack: LocalStack, client: OpenAI, seed: int) -> None:
    """Two batches, one of which may be cancelled in the middle."""
    dice = random.Random(seed)
    files = [_lines(dice, number) for number in range(2)]
    cancels = dice.random() < 0.4
    after = dice.randrange(LINES)
    with Storm(stack, dice) as storm:
        batches = [submit(client, lines) for lines in files]
        if cancels:
            until(client, batches[1], done=after)
            with suppress(ConflictError):  # it has ended already
                client.batches.cancel(batches[1].id)
        batches = [until(client, batch) for batch in batches]
    assert "completed" == batches[0].status
    assert batches[1].status in ({"cancelled", "completed"} if cancels else {"completed"})
    assert storm.met
    for batch, lines in zip(batches, files, strict=True):
        found = assert_exactly_once(client, batch, lines)
        if batch.status == "completed":
            for line in lines:
                assert_answered(line, found[line["custom_id"]])
    _until_calm(stack)


def _until_calm(stack: LocalStack) -> None:
    """Leave nobody frozen or dying to the next storm."""
    time.sleep(0.5)
    for worker in stack.workers():
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
