"""The local stack: `python -m local`, or `slackwater up`. It runs in the foreground until Ctrl-C or SIGTERM.

This process starts the others and ends them: the backend (moto, task states, and below it the workers) and the API. Each is on a leash
(`gpu_job.leash`): should this process be killed, they die with it.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http import HTTPStatus

import msgspec
from rich.console import Console
from rich.table import Table

from local.backend import KEYS, Ready
from local.models import NoModels, served, wanting
from local.options import DEFAULT_MOUNT, MOUNTS, Options, parse
from shared.core.models import Model
from shared.settings import ApiSettings

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 40.0
"""What the backend may take to end its workers, which commit what is finished first."""

EVERYWHERE = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "PYTHONSAFEPATH": "1",  # modules that lie in the folder where the stack is started are not its own
}
"""What every process of the stack has in its environment, and hands on."""


class StackFailed(Exception):  # noqa: N818 - it is named for what happened
    """A process of the stack did not start, or ended by itself."""


class Stack:
    """The processes of the local stack."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._logs = options.folder / "logs"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, told: threading.Event) -> None:
        """Start everything; returns when the API answers, or when told to stop. StackFailed."""
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StackFailed(f"cannot write in the state folder {self._options.folder}: {error.strerror}") from error
        backend = self._start("backend", "local.backend", self._options.to_args(), {})
        ready = self._read_ready(backend)
        settings = ApiSettings(
            **msgspec.structs.asdict(ready),
            time_scale=self._options.time_scale,
            mounts=",".join(f"{name}={prefix}" for name, prefix in MOUNTS.items()),
        )
        self._start("api", "functions.api.server", ["--port", str(self._options.port)], settings.to_env())
        deadline = time.monotonic() + START_SECONDS
        while not told.is_set() and not _answers(f"http://{HOST}:{self._options.port}/healthz"):
            self.check()
            if time.monotonic() > deadline:
                raise StackFailed(f"the API did not answer within {START_SECONDS:g} s; see {self._logs / 'api.log'}")
            time.sleep(0.05)

    def check(self) -> None:
        """StackFailed when one of the processes has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                log = self._logs / f"{name}.log"
                raise StackFailed(f"the {name} ended by itself (exit code {process.returncode}); see {log}")

    def stop(self) -> None:
        """End the API, then the backend with its workers; nothing is left."""
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.stdin is not None:
                    process.stdin.close()  # lets the leash go
                process.wait()

    def _start(self, name: str, module: str, args: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        place = self._logs / f"{name}.log"
        if place.exists():
            # Kept, and moved rather than emptied: another stack of this folder may still be writing it.
            place.replace(place.with_name(f"{name}.previous.log"))
        with place.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-m", "gpu_job.leash", sys.executable, "-m", module, *args],
                env={**os.environ, **EVERYWHERE, **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if name == "backend" else log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is this process's to act on
            )
        self._processes[name] = process
        return process

    def _read_ready(self, backend: subprocess.Popen[bytes]) -> Ready:
        if backend.stdout is None:
            raise AssertionError("the backend speaks through a pipe")
        line = backend.stdout.readline()
        if not line:
            backend.wait()
            self.check()
        return msgspec.json.decode(line, type=Ready)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own http url
            return bool(answer.status == HTTPStatus.OK)
    except (urllib.error.URLError, OSError):
        return False


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _welcome(console: Console, options: Options, here: list[Model], missing: list[Model]) -> None:
    table = Table(show_header=False, box=None)
    for name, prefix in MOUNTS.items():
        table.add_row("base URL" if name == DEFAULT_MOUNT else name, f"http://{HOST}:{options.port}{prefix}")
    table.add_row("keys", ", ".join(KEYS))
    table.add_row("models", ", ".join(model.id for model in here))
    for model in missing:
        table.add_row("", wanting(options, model))
    if options.time_scale != 1:
        table.add_row("time", f"windows and waits pass {options.time_scale:g} times faster")
    table.add_row("logs", str(options.folder / "logs"))
    console.print(table)
    console.print("Ready. Ctrl-C stops everything.")


def main() -> int:
    """Run the stack until told to stop; give the exit code."""
    console = Console(soft_wrap=True)
    options = parse(sys.argv[1:], "slackwater up")
    if not _port_is_free(options.port):
        console.print(
            f"port {options.port} is in use: stop what listens there, or choose another: slackwater up --port N"
        )
        return 1
    try:
        here, missing = served(options)
    except NoModels as error:
        console.print(str(error), markup=False)
        return 1
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the last when its terminal is closed
        signal.signal(number, lambda *_: told.set())
    stack = Stack(options)
    try:
        stack.start(told)
        if not told.is_set():
            _welcome(console, options, here, missing)
        while not told.wait(0.5):
            stack.check()
    except StackFailed as error:
        console.print(f"{error}")
        return 1
    finally:
        stack.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
