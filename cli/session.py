"""One run of a network command: the world it touches, the screen it writes on, and how its errors end."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import typer

from cli.client import Client, open_http
from cli.errors import CliError
from cli.screen import Screen
from cli.target import Target


@dataclass(frozen=True)
class World:
    """Everything outside the process that a command touches, so that a test can put another in its place."""

    transport: Callable[[], httpx.BaseTransport | None]
    """Makes what carries the requests; None is the real network."""
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    """Seconds of a clock that never goes back."""
    new_key: Callable[[], str]
    """Makes idempotency keys."""
    become: Callable[[Sequence[str]], None]
    """Runs a program in the place of this one: its signals, its output and its exit code are the command's."""


@dataclass(frozen=True)
class Session:
    """What a network command works with."""

    world: World
    client: Client
    screen: Screen


@contextmanager
def session(world: World, base_url: str, api_key: str | None) -> Iterator[Session]:
    """Open a session; a CliError inside becomes one line on stderr and exit code 1, a bad target a usage error."""
    try:
        target = Target.of(base_url, api_key)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    screen = Screen(sys.stdout, sys.stderr)
    with open_http(target, world.transport()) as http:
        try:
            yield Session(world, Client(http, target, sleep=world.sleep, clock=world.clock), screen)
        except CliError as error:
            screen.error(str(error))
            raise typer.Exit(1) from error
