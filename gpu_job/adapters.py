"""Fine-tuned models: LoRA adapters that an engine serves beside their base, each loaded when its first row comes.

Rules:

- An engine knows of no adapter when it starts: one that is broken is an error of its own rows, and keeps nobody else from being served.
- What was loaded is gone with the engine: its successor loads an adapter again when a row for it comes.
- An engine that dies of an adapter is a death of every row that waited for it, as if they had been inside.
- A bucket that is away, or a disk that has no room, is waited for: neither is a row's fault. Only after minutes are its rows answered 503, and each
  further one tries once.
"""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import msgspec

from gpu_job.upstream import Reply, Way
from shared.core import paths
from shared.core.errors import NotFound, Unavailable
from shared.core.models import ADAPTER, Model
from shared.ports import Blobs

LOAD = "/v1/load_lora_adapter"
LOAD_SECONDS = 600.0
PAUSES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 30.0, 60.0, 60.0, 60.0)
"""Seconds between tries to have an adapter's files on the host: in all, more than an outage or a clean-up takes."""
LONGEST_FETCH = 3600.0
"""Seconds after which what was fetched in part is nobody's any more."""
FILES = ("adapter_config.json", "adapter_model.safetensors")
"""All that is taken of an adapter: weights that could hold code (pickles) are not."""

_log = logging.getLogger("slackwater.worker")


class AdapterFiles:
    """The folders of adapters. One in the bucket (its source begins with `models/`) is fetched to the host once, and stays there for other workers.

    Args:
        blobs: The bucket.
        folder: Where on the host the fetched ones are.

    """

    def __init__(self, blobs: Blobs, folder: Path) -> None:
        self._blobs = blobs
        self._folder = folder

    def folder(self, adapter: Model) -> Path:
        """Give the folder of an adapter; blocking. NotFound when the bucket does not have it; Unavailable, also when the host cannot keep it."""
        if not adapter.source.startswith(paths.MODELS):
            return Path(adapter.source)
        folder = self._folder / quote(adapter.revision, safe="")
        try:
            if not folder.exists():
                self._fetch(adapter.source, folder)
        except OSError as error:
            raise Unavailable(f"it cannot be kept in {self._folder} ({error}): make room there") from error
        return folder

    def _fetch(self, source: str, folder: Path) -> None:
        draft = self._folder / f"{uuid4()}.draft"
        draft.mkdir(parents=True)
        try:
            self._tidy(draft)
            for name in FILES:
                with (draft / name).open("wb") as file:
                    file.writelines(self._blobs.stream(paths.model_file(source, name)))
            self._publish(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _tidy(self, draft: Path) -> None:
        """Remove what workers left behind that were killed while they fetched."""
        before = draft.stat().st_mtime - LONGEST_FETCH
        for other in self._folder.glob("*.draft"):
            with suppress(FileNotFoundError):  # its worker lives, and is through
                if other.stat().st_mtime < before:
                    shutil.rmtree(other, ignore_errors=True)

    def _publish(self, draft: Path, folder: Path) -> None:
        try:
            draft.rename(folder)
        except OSError:  # another worker of the host was faster
            if not folder.exists():
                raise


class Adapters:
    """The adapters of one base, in one engine.

    Args:
        known: The base's adapters, by public name.
        files: Where their files are.
        upstream: The way into the engine.
        sleep: Waits so many seconds.

    """

    def __init__(
        self,
        known: Mapping[str, Model],
        *,
        files: AdapterFiles,
        upstream: Way,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._known = known
        self._files = files
        self._upstream = upstream
        self._sleep = sleep
        self._waited_for: set[str] = set()  # adapters that were waited for in vain
        self._generation = 0
        self._loads: dict[str, asyncio.Task[Reply | None]] = {}

    async def refusal(self, name: str, generation: int) -> Reply | None:
        """Have the model of a row loaded in the engine of that generation; what the row is answered if it cannot be. EngineUnreachable, EngineTimeout."""
        if not name.startswith(ADAPTER):
            return None
        if generation != self._generation:
            self._generation, self._loads = generation, {}
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = asyncio.create_task(self._load(name))
            load.add_done_callback(lambda done: self._through(name, done))
        return await asyncio.shield(load)  # a row that is forgotten leaves the others waiting for it

    def _through(self, name: str, load: "asyncio.Task[Reply | None]") -> None:
        """Keep what is final; anything else is tried again by the next row."""
        final = not load.cancelled() and load.exception() is None and not _is_passing(load.result())
        if not final and self._loads.get(name) is load:
            del self._loads[name]

    async def _load(self, name: str) -> Reply | None:
        adapter = self._known.get(name)
        if adapter is None:
            return _refusal(HTTPStatus.NOT_FOUND, f"The model `{name}` is not served any more.")
        try:
            folder = await self._folder(adapter)
        except NotFound as error:
            _log.error("the adapter %s has no files: %s", adapter.revision, error)
            return _unloadable(name)
        except Unavailable:
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"The files of the model `{name}` could not be fetched.")
        request = msgspec.json.encode({"lora_name": name, "lora_path": str(folder)})
        reply = await self._upstream.post(LOAD, request, timeout=LOAD_SECONDS)
        if reply.status == HTTPStatus.OK or _is_there(reply):
            return None
        # It answers 500 to what is wrong with the adapter, too. Its words are for the operator: they tell paths of this machine.
        _log.error("the adapter %s could not be loaded: %s", adapter.revision, reply.body.decode(errors="replace"))
        return _unloadable(name)

    async def _folder(self, adapter: Model) -> Path:
        pauses = () if adapter.revision in self._waited_for else PAUSES
        for pause in (*pauses, None):
            try:
                folder = await asyncio.to_thread(self._files.folder, adapter)
            except Unavailable as error:
                _log.warning("the adapter %s could not be fetched: %s", adapter.revision, error)
                if pause is None:
                    self._waited_for.add(adapter.revision)
                    raise
                await self._sleep(pause)
            else:
                self._waited_for.discard(adapter.revision)
                return folder
        raise AssertionError("the last try raises")


def _is_there(reply: Reply) -> bool:
    """Whether the engine has the adapter already: nobody heard of its answer then. It has no other reason to find fault with the request itself."""
    try:
        said = msgspec.json.decode(reply.body)["error"]["type"]
    except (msgspec.DecodeError, LookupError, TypeError):
        return False
    return reply.status == HTTPStatus.BAD_REQUEST and said == "InvalidUserInput"


def _is_passing(refusal: Reply | None) -> bool:
    return refusal is not None and refusal.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _unloadable(name: str) -> Reply:
    message = f"The model `{name}` could not be loaded: its adapter is damaged, or none of its base."
    return _refusal(HTTPStatus.NOT_FOUND, message)


def _refusal(status: HTTPStatus, message: str) -> Reply:
    return Reply(status, msgspec.json.encode({"error": {"message": message, "param": "model"}}))
