"""What the local stack can be told on its command line; its processes hand it on to each other the same way."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent

LAST_PORT = 65535
DEFAULT_MOUNT = "openai"
MOUNTS = {
    DEFAULT_MOUNT: "/v1",
    "boardwalk": "/boardwalk/v1",
    "gridline": "/gridline/openai/v1",
    "token360": "/token360/v1",
}
"""The contracts of the local stack, and where each is."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options.

    Attributes:
        port: The port of the API.
        time_scale: How many times faster windows and waits pass.
        state: The folder of models, logs and objects.
        models: The models file, as `shared.core.models` has it; sources are folders below `models` of the state folder, or absolute.
        max_workers: The most workers of one model.
        shard_lines: The most lines of a shard.
        lease_seconds: How long a lease lasts that nobody renews.
        heartbeat_seconds: How often leases are renewed.
        idle_seconds: How long a worker without work waits for some.
        row_seconds: The longest that one request may take.
        stall_seconds: The longest that an engine may compute nothing while requests are inside.
        chunk_seconds: How long finished rows wait for more, before they are committed.
        sweep_seconds: How often batches without an execution are looked for.

    """

    port: int = 8000
    time_scale: float = 1.0
    state: str = str(ROOT / ".slackwater")
    models: str = str(ROOT / "local" / "models.json")
    max_workers: int = 1
    shard_lines: int = 500
    lease_seconds: float = 60.0
    heartbeat_seconds: float = 5.0
    idle_seconds: float = 600.0
    row_seconds: float = 900.0
    stall_seconds: float = 300.0
    chunk_seconds: float = 5.0
    sweep_seconds: float = 15.0

    @property
    def folder(self) -> Path:
        """The state folder, absolute."""
        return Path(self.state).absolute()

    def to_args(self) -> list[str]:
        """Give the arguments that `parse` reads these options from."""
        return [f"--{name.replace('_', '-')}={value}" for name, value in msgspec.structs.asdict(self).items()]


def parse(args: Sequence[str], program: str) -> Options:
    """Read the options; wrong ones end the program with a usage message and exit code 2."""
    parser = argparse.ArgumentParser(prog=program, description="The whole of Slackwater on one machine.")
    for field in msgspec.structs.fields(Options):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=field.type, default=field.default)
    options = Options(**vars(parser.parse_args(args)))
    for name, value in msgspec.structs.asdict(options).items():
        if isinstance(value, int | float) and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0")
    if options.port > LAST_PORT:
        parser.error(f"--port is {LAST_PORT} at most")
    return options
