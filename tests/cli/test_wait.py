from io import StringIO

import httpx
import pytest

from cli.client import Client, open_http
from cli.progress import Pace, describe, duration
from cli.screen import Screen
from cli.session import World
from cli.target import Target
from cli.watch import watch
from cli.wire import Batch, RequestCounts, Usage
from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import FakeSlackwater, answers, batch_object, breaks, counts, refusal

RUNNING = {"status": "in_progress"}
DONE = {"status": "completed", **counts(10, 10)}


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_wait_tells_each_step_and_ends_with_a_summary(server: FakeSlackwater, run: Run) -> None:
    """Without a terminal there is a line for each change, on stderr, and the summary on stdout."""
    waiting = {"slackwater": {"reason": "no_spot_capacity", "since": 1_780_000_000}}
    server.has_batch(
        batch_object("batch_1"),
        {},
        {},
        {**RUNNING, **waiting, **counts(10, 0)},
        {"slackwater": None, **counts(10, 4, 1)},
        {"status": "finalizing", **counts(10, 9, 1)},
        {"status": "completed"},
    )
    result = run("wait", "batch_1")

    assert 0 == result.exit_code
    assert [
        "validating",
        "in_progress (no_spot_capacity)  0/10 rows",
        "in_progress  5/10 rows, 1 failed, 4.4 rows/s, 0:00:01 left",
        "finalizing  10/10 rows, 1 failed",
        "completed  10/10 rows, 1 failed",
    ] == result.stderr.splitlines()
    assert ["batch\tbatch_1", "status\tcompleted"] == result.stdout.splitlines()[:2]
    assert "\x1b" not in result.output


@pytest.mark.parametrize("ending", ["failed", "expired", "cancelled"])
def test_any_end_but_completed_is_exit_code_1(server: FakeSlackwater, run: Run, ending: str) -> None:
    """A script can tell a completed batch by the exit code alone."""
    server.has_batch(batch_object("batch_1", status=ending))
    result = run("wait", "batch_1")

    assert 1 == result.exit_code
    assert f"status\t{ending}" in result.stdout.splitlines()


def test_looks_are_quick_at_first_and_then_every_five_seconds(server: FakeSlackwater, time: FakeTime, run: Run) -> None:
    """Short batches are answered soon, and long ones are not asked about too often."""
    server.has_batch(batch_object("batch_1"), *[{}] * 9, DONE)
    run("wait", "batch_1")

    assert [0.5, 0.75, 1.125, 1.6875, 2.53125, 3.796875, 5.0, 5.0, 5.0] == time.slept


def test_ctrl_c_leaves_the_batch_alone_and_says_how_to_look_again(
    server: FakeSlackwater, time: FakeTime, run: Run
) -> None:
    """Exit code 130, no cancel, and the command for later."""
    server.has_batch(batch_object("batch_1"))
    time.interrupt_at = 3
    result = run("wait", "batch_1")

    assert 130 == result.exit_code
    assert (
        "batch batch_1 goes on without this command; look again with: slackwater wait batch_1"
        == result.stderr.splitlines()[-1]
    )
    assert {"GET /v1/batches/batch_1"} == set(server.paths())


def test_trouble_on_the_way_is_told_and_waited_out(server: FakeSlackwater, time: FakeTime, run: Run) -> None:
    """A restart, a lost answer, a 500 and a 429 in the middle of a wait do not end it; Retry-After is honoured."""
    server.has_batch(batch_object("batch_1"), {}, DONE)
    server.faults = [
        lambda _request, serve: serve(),
        breaks(httpx.ConnectError),
        breaks(httpx.ReadTimeout),
        answers(httpx.Response(502, text="<html>Bad Gateway</html>")),
        answers(refusal(429, "rate_limit_exceeded", "Slow down.", retry_after="20")),
    ]
    result = run("wait", "batch_1")
    url = "http://127.0.0.1:8000/v1/batches/batch_1"

    assert 0 == result.exit_code
    assert [0.5, 0.5, 1.0, 2.0, 20.0] == time.slept
    assert [
        "validating",
        "cannot reach http://127.0.0.1:8000/v1 (broken); looking again in 0.5 s",
        "http://127.0.0.1:8000/v1 took too long to answer; looking again in 1 s",
        f"{url} gave an answer that is not Slackwater's (HTTP 502); looking again in 2 s",
        "Slow down. (rate_limit_exceeded, request req_fake); looking again in 20 s",
        "completed  10/10 rows",
    ] == result.stderr.splitlines()


def test_a_server_that_stays_away_ends_the_wait_after_ten_minutes(
    server: FakeSlackwater, time: FakeTime, run: Run
) -> None:
    """The wait gives up in the end, and says that the batch does not."""
    server.has_batch(batch_object("batch_1"))
    server.faults = [lambda _request, serve: serve(), *[breaks(httpx.ConnectError)] * 100]
    result = run("wait", "batch_1")

    assert 1 == result.exit_code
    assert 570 < sum(time.slept) <= 601
    assert [
        "batch batch_1 goes on without this command; look again with: slackwater wait batch_1",
        "error: cannot reach http://127.0.0.1:8000/v1 (broken): is `slackwater up` running there?",
    ] == result.stderr.splitlines()[-2:]


def test_a_batch_that_is_not_there_is_told_at_once(time: FakeTime, run: Run) -> None:
    """A wrong id is an error and nothing to wait for."""
    result = run("wait", "batch_1")

    assert (1, "error: There is no such object. (not_found, request req_fake)\n") == (result.exit_code, result.stderr)
    assert [] == time.slept


def test_an_unknown_status_is_waited_through(server: FakeSlackwater, run: Run) -> None:
    """A status of a newer server is shown as it is."""
    server.has_batch(batch_object("batch_1", status="tidying"), {}, DONE)
    result = run("wait", "batch_1")

    assert 0 == result.exit_code
    assert "tidying" == result.stderr.splitlines()[0]


def test_a_terminal_gets_a_bar_and_its_cursor_back(server: FakeSlackwater, world: World, time: FakeTime) -> None:
    """The bar is drawn in place on stderr; Ctrl-C ends it in order."""
    server.has_batch(batch_object("batch_1"), {**RUNNING, **counts(10, 4)})
    terminal = Terminal()
    time.interrupt_at = 2
    target = Target.of("http://127.0.0.1:8000/v1", None)
    with open_http(target, server) as http:
        client = Client(http, target, sleep=world.sleep, clock=world.clock)
        with pytest.raises(KeyboardInterrupt):
            watch(client, "batch_1", Screen(StringIO(), terminal), sleep=world.sleep, clock=world.clock)
    drawn = terminal.getvalue()

    assert "in_progress  4/10 rows" in drawn
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")
    assert drawn.endswith("look again with: slackwater wait batch_1\n")


def test_a_narrow_terminal_cuts_nothing(
    server: FakeSlackwater, world: World, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speed, time left and time gone are all seen in 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    why = {"slackwater": {"reason": "waiting_for_gpu", "since": 1_780_000_000}}
    server.has_batch(batch_object("batch_1"), *[RUNNING | why | counts(10**6, done, 9) for done in (400_000, 500_000)])
    terminal = Terminal()
    time.interrupt_at = 3
    target = Target.of("http://127.0.0.1:8000/v1", None)
    with open_http(target, server) as http:
        client = Client(http, target, sleep=world.sleep, clock=world.clock)
        with pytest.raises(KeyboardInterrupt):
            watch(client, "batch_1", Screen(StringIO(), terminal), sleep=world.sleep, clock=world.clock)
    drawn = terminal.getvalue()

    assert "rows/s" in drawn
    assert "left" in drawn
    assert "…" not in drawn


def test_pace_is_that_of_the_last_minute() -> None:
    """What was long ago says nothing about the time that is left."""
    pace = Pace()
    for at, rows in [(0.0, 0), (100.0, 10), (160.0, 610), (220.0, 1210)]:
        pace.see(_running(rows, total=2410, tokens=rows * 100), at)

    assert 10.0 == pace.rows_per_second
    assert 1000.0 == pace.tokens_per_second
    assert 120.0 == pace.seconds_left


def test_time_before_running_does_not_slow_the_pace() -> None:
    """Hours in the queue are no hours of work."""
    pace = Pace()
    pace.see(Batch(id="batch_1", status="validating", created_at=0), 0.0)
    pace.see(_running(0, total=10), 3600.0)
    pace.see(_running(5, total=10), 3610.0)

    assert 0.5 == pace.rows_per_second


def test_a_pace_that_is_not_known_is_not_said() -> None:
    """After one look, without usage, or while nothing moves there is no speed and no time left."""
    pace = Pace()
    pace.see(_running(3, total=10), 5.0)
    first = describe(_running(3, total=10), pace)
    pace.see(_running(3, total=10), 15.0)

    assert "in_progress  3/10 rows" == first == describe(_running(3, total=10), pace)
    assert (None, None) == (pace.tokens_per_second, pace.seconds_left)


def test_durations_are_hours_minutes_seconds() -> None:
    """Seconds are rounded before they are split."""
    assert ["0:00:00", "0:01:00", "27:46:40"] == [duration(0.2), duration(59.9), duration(100_000)]


def _running(rows: int, *, total: int, tokens: int | None = None) -> Batch:
    usage = None if tokens is None else Usage(total_tokens=tokens)
    return Batch(
        id="batch_1",
        status="in_progress",
        created_at=0,
        request_counts=RequestCounts(total=total, completed=rows),
        usage=usage,
    )
