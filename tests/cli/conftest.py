"""A server, a clock that only sleeping moves, and a way to run `slackwater` against them."""

from collections.abc import Callable, Sequence

import pytest
from typer.testing import CliRunner, Result

from cli.main import app
from cli.session import World
from tests.cli.fake_slackwater import FakeSlackwater

NO_VARIABLES = {"SLACKWATER_BASE_URL": None, "SLACKWATER_API_KEY": None}

Run = Callable[..., Result]


class FakeTime:
    """A clock that sleeping moves; `interrupt_at` is the number of the sleep in which Ctrl-C is pressed."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.interrupt_at: int | None = None

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.slept.append(seconds)
        if len(self.slept) == self.interrupt_at:
            raise KeyboardInterrupt
        self.now += seconds

    def clock(self) -> float:
        """Tell the time."""
        return self.now


class FakePrograms:
    """Remembers what was started."""

    def __init__(self) -> None:
        self.started: list[list[str]] = []

    def become(self, command: Sequence[str]) -> None:
        """Run a program."""
        self.started.append(list(command))


@pytest.fixture
def server() -> FakeSlackwater:
    """Give a server without files and batches."""
    return FakeSlackwater()


@pytest.fixture
def time() -> FakeTime:
    """Give a clock."""
    return FakeTime()


@pytest.fixture
def programs() -> FakePrograms:
    """Give a place where programs run."""
    return FakePrograms()


@pytest.fixture
def world(server: FakeSlackwater, time: FakeTime, programs: FakePrograms) -> World:
    """Give a world that is made of fakes."""
    keys = iter(range(1, 1000))
    return World(
        transport=lambda: server,
        sleep=time.sleep,
        clock=time.clock,
        new_key=lambda: f"key-{next(keys)}",
        become=programs.become,
    )


@pytest.fixture
def run(world: World) -> Run:
    """Run `slackwater` with words, and variables as keywords; nothing but an exit ends it."""

    def run_slackwater(*words: str, **variables: str) -> Result:
        env = {**NO_VARIABLES, **variables}
        return CliRunner().invoke(app, words, obj=world, env=env, catch_exceptions=False)

    return run_slackwater
