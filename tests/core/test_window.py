"""Windows and waits, and how fast they pass."""

import pytest
from msgspec.structs import replace

from shared.core.contracts import CONTRACTS
from shared.core.records import Batch, Status
from shared.core.window import FORECAST_TICK, TICK, Timing, is_overdue

BATCH = Batch(
    id="batch_1",
    org="acme",
    contract="openai",
    endpoint="/v1/chat/completions",
    input_file_id="file-1",
    completion_window="24h",
    created_at=0,
    expires_at=86_400,
    status=Status.IN_PROGRESS,
)
FORECAST = replace(BATCH, contract="token360")


@pytest.mark.parametrize(("scale", "seconds"), [(1, 86_400), (60, 1440), (86_400, 1), (10**9, 1)])
def test_a_window_passes_as_much_faster_as_the_deployment_says(scale: float, seconds: int) -> None:
    """A day is divided by the scale, and is never less than a second."""
    assert seconds == Timing(scale).seconds(86_400)


@pytest.mark.parametrize(
    ("now", "seconds"),
    [(0, TICK), (86_400 - TICK, TICK), (86_399.5, 1), (86_390, 11), (86_400, 1), (90_000, 1)],
)
def test_a_state_that_waits_looks_again_just_after_the_deadline(now: float, seconds: int) -> None:
    """It sleeps for a tick, less when the deadline is nearer, and at least a second."""
    assert seconds == Timing().tick(now, BATCH)


def test_a_forecast_stops_nothing_and_wakes_nobody() -> None:
    """Where the deadline is only displayed, the wait is long and the batch is never overdue."""
    assert FORECAST_TICK == Timing().tick(86_399, FORECAST)
    assert not is_overdue(FORECAST, 10**9)


@pytest.mark.parametrize(("now", "overdue"), [(86_399.9, False), (86_400, True), (90_000, True)])
def test_a_deadline_has_passed_from_its_very_second_on(now: float, *, overdue: bool) -> None:
    """A batch is overdue at its deadline, not before."""
    assert overdue == is_overdue(BATCH, now)


def test_a_batch_expires_at_the_end_of_its_window() -> None:
    """Each window that a contract lists is counted from the creation."""
    for contract in CONTRACTS.values():
        for window, length in contract.windows.items():
            assert 1_000 + length == Timing().expires_at(contract, window, None, 1_000)


def test_the_windows_of_a_fast_deployment_are_as_short_as_its_waits() -> None:
    """A day at 3600 times the speed is 24 seconds."""
    assert 1_024 == Timing(3600).expires_at(CONTRACTS["openai"], "24h", None, 1_000)
