"""The engine as the worker sees it: something at a base URL that can be started, asked whether it lives, and ended.

Its laws:

- Any exit is a crash, code 0 included: vLLM's server exits 0 after its core died. `stop` and `kill` are how it ends well.
- One engine at most: `start` first ends what a former start left.
- A new start is a new `generation` at a new port. A request that failed while the generation stayed the same failed
  with a living engine; one whose generation is gone died with it.
- The child dies with the worker (`gpu_job.leash`), and what it prints goes to a file, never through the worker: it may
  hold prompts. What it prints before it is ready cannot, as it has seen none: when it fails to start, that is told.

    EngineFailed    it exited, or did not answer, before it was ready; or the host has no process for it; or it does not end, though it is killed
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Protocol

import aiohttp

_HEALTH_TIMEOUT = 5.0  # seconds; a server with a full queue answers late, a dead one never
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_QUOTED_BYTES = 4000

_log = logging.getLogger("slackwater.worker")


class EngineFailed(Exception):  # noqa: N818 - it is named for what happened
    """The engine could not be started, or not be ended.

    Where it did not start, the message ends with what it printed since this start, before it saw any request, or says why that is lost.
    """


class Engine(Protocol):
    """An OpenAI-compatible server and its life. One task starts and ends it; any may ask."""

    @property
    def base_url(self) -> str:
        """Where it is served, without a trailing slash and without `/v1`; changes with `generation`."""

    @property
    def generation(self) -> int:
        """How many times it was started: 0 before the first."""

    async def start(self) -> None:
        """Start it and return when it answers; EngineFailed when it exits first or is not ready in time."""

    async def alive(self) -> bool:
        """Whether it runs and answers its health check within seconds. After a kill it may say no before it exited."""

    def exited(self) -> bool:
        """Whether no engine runs: it ended, or was never started."""

    async def wait_exit(self) -> None:
        """Return when no engine runs."""

    async def stop(self) -> None:
        """End it: asked first, killed after a grace; nothing of it is left, or EngineFailed. No error when it already ended."""

    async def kill(self) -> None:
        """End it at once; nothing of it is left, or EngineFailed: it hangs in its host or GPU. No error when it already ended."""


class EngineProcess:
    """An engine that is a child process on a loopback port of its own.

    Args:
        command: The port to serve on -> the command line.
        env: The child's whole environment.
        log_path: The file that its output is appended to; the folder is made.
        start_timeout: Seconds until it must answer its health check.
        health_path: The path that answers 200 when it is ready.
        grace: Seconds that `stop` leaves it between SIGTERM and SIGKILL.
        kill_timeout: Seconds within which it is gone when it was killed. One whose GPU hangs never is.

    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        *,
        env: Mapping[str, str],
        log_path: Path,
        start_timeout: float,
        health_path: str = "/health",
        grace: float = 10.0,
        kill_timeout: float = 60.0,
    ) -> None:
        self._command = command
        self._env = env
        self._log_path = log_path
        self._start_timeout = start_timeout
        self._health_path = health_path
        self._grace = grace
        self._kill_timeout = kill_timeout
        self._process: asyncio.subprocess.Process | None = None
        self._printed_before = 0  # bytes of the log that earlier starts have written
        self._unlogged: OSError | None = None  # why this start has no log
        self.base_url = ""
        self.generation = 0

    async def start(self) -> None:
        """As `Engine.start`. Failed or cancelled, it leaves no process behind."""
        await self.kill()
        try:
            with _reserved_port() as port:
                await self._start_at(port)
        except OSError as error:  # no socket, no memory, too many processes
            raise EngineFailed(f"the host has no process for the engine: {error}") from error

    async def _start_at(self, port: int) -> None:
        process = await self._spawn(port)
        self._process = process
        self.base_url = f"http://127.0.0.1:{port}"
        self.generation += 1
        try:
            await self._until_ready(process)
        except BaseException:
            await self.kill()
            raise

    async def alive(self) -> bool:
        """As `Engine.alive`."""
        return not self.exited() and await _answers(self.base_url + self._health_path)

    def exited(self) -> bool:
        """As `Engine.exited`."""
        return self._process is None or self._process.returncode is not None

    async def wait_exit(self) -> None:
        """As `Engine.wait_exit`."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        """As `Engine.stop`: SIGTERM, `grace` seconds, SIGKILL to its process group."""
        if self._process is None or self.exited():
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(self._grace):
                await self._process.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """As `Engine.kill`: letting the leash go kills its process group."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(self._kill_timeout):
                await self._process.wait()
        except TimeoutError:
            raise EngineFailed(
                f"the engine was killed and is still there after {self._kill_timeout:g} s: its GPU or its host hangs"
            ) from None

    async def _spawn(self, port: int) -> asyncio.subprocess.Process:
        with self._open_log() as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gpu_job.leash",
                *self._command(port),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env=self._env,
                start_new_session=True,  # Ctrl-C at a terminal is the worker's to act on
            )

    @contextlib.contextmanager
    def _open_log(self) -> Iterator[BinaryIO | int]:
        """Give what it prints to. No row waits for a log: where the disk has no place for one, the engine runs without."""
        self._unlogged = None
        try:
            log = _appending(self._log_path)
        except OSError as error:
            self._unlogged = error
            _log.warning("what the engine prints is lost: its log cannot be opened (%s)", error)
            yield DEVNULL
            return
        with log:
            self._printed_before = log.tell()
            yield log

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        pause = _FIRST_PAUSE
        ended = asyncio.create_task(process.wait())
        try:
            async with asyncio.timeout(self._start_timeout):
                while not await _answers(self.base_url + self._health_path):
                    await asyncio.wait([ended], timeout=pause)
                    if ended.done():
                        raise EngineFailed(
                            f"the engine ended with code {ended.result()} before it answered {self._health_path}; "
                            f"{self._printed()}"
                        )
                    pause = min(2 * pause, _LONGEST_PAUSE)
        except TimeoutError:
            raise EngineFailed(
                f"the engine did not answer {self._health_path} within {self._start_timeout:g} s: a large model may need a "
                f"longer start timeout; {self._printed()}"
            ) from None
        finally:
            ended.cancel()

    def _printed(self) -> str:
        """Give the end of what this start printed. Only before it was ready: afterwards it may hold prompts."""
        if self._unlogged is not None:  # what is in the file, if there is one, is of former starts
            return f"what it printed is lost, since its log could not be opened: {self._unlogged}"
        try:
            with self._log_path.open("rb+", buffering=0) as log:
                length = log.seek(0, os.SEEK_END)
                log.seek(max(self._printed_before, length - _QUOTED_BYTES))
                said = (log.read(_QUOTED_BYTES) or b"").decode(errors="replace").strip()
                if not said:
                    log.write(b"\n")  # which tells whether it could have printed anything
        except OSError as error:
            return f"what it printed is lost, since {self._log_path} takes no more: {error}"
        return f"it printed ({self._log_path}):\n{said}" if said else "it printed nothing"


class RemoteEngine:
    """An engine that somebody else runs, at any OpenAI-compatible base URL (with or without `/v1` at its end).

    It has no process: it never exits, and `stop` and `kill` leave it running.
    """

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/").removesuffix("/v1")
        self.generation = 0

    async def start(self) -> None:
        """As `Engine.start`: look once whether it answers."""
        if not await self.alive():
            raise EngineFailed(
                f"nothing answers at {self.base_url}, neither /health nor /v1/models: check that the server runs and "
                "that this is its address"
            )
        self.generation += 1

    async def alive(self) -> bool:
        """As `Engine.alive`: `/health` or, for servers without one, `/v1/models` answers 200."""
        return await _answers(self.base_url + "/health") or await _answers(self.base_url + "/v1/models")

    def exited(self) -> bool:
        """Never: there is no process to end."""
        return False

    async def wait_exit(self) -> None:
        """Wait until cancelled: there is no process to end."""
        await asyncio.get_running_loop().create_future()

    async def stop(self) -> None:
        """Leave it running."""

    async def kill(self) -> None:
        """Leave it running."""


async def _answers(url: str) -> bool:
    """Whether a GET of that url answers 200 in time."""
    timeout = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
            return response.status == HTTPStatus.OK
    except (aiohttp.ClientError, TimeoutError):
        return False


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """Hold a free loopback port until the engine serves there.

    Linux lets the engine bind the port beside our socket (both set SO_REUSEADDR, ours never listens) and gives it to
    nobody who asks for any free port: two workers that start at once never meet. Elsewhere the engine could not bind
    beside it, and the port is only likely to stay free.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()
        yield port


def _appending(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("ab")
