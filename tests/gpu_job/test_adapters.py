"""Fine-tuned models, from a row to its line in a result file: the real dispatcher, and an echo engine that loads what it is not told to choke on."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import pytest

from gpu_job.adapters import FILES, AdapterFiles
from gpu_job.dispatch import Dispatcher
from gpu_job.engine import EngineProcess
from gpu_job.row import SERVED_NAME, Row, prepare
from gpu_job.upstream import Upstream
from shared.adapters.memory import MemoryBlobs
from shared.core import paths, request_line
from shared.core.errors import NotFound, Unavailable
from shared.core.models import Model
from shared.core.plan import PlanLine, ShardPlan
from shared.core.request_line import RequestLine
from tests import dispatching
from tests.gpu_job.disk import FullDisk
from tests.gpu_job.engines import echo

URL = "/v1/chat/completions"
BASE = Model(id="base", revision="base@1", source="", engine="echo", endpoints=(URL,), context=99, max_output=9)


def adapter(name: str, source: object) -> Model:
    """Give an adapter of the base."""
    return Model(
        id=name, revision=f"{name}@1", source=str(source), engine="echo", endpoints=(), context=0, max_output=0,
        base="base", rank=8,
    )  # fmt: skip


def on_disk(folder: Path, name: str, fault: str | None = None) -> Model:
    """Give an adapter that has a folder; `fault` says how the engine fails to load it."""
    folder = folder / name.replace(":", "-")
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 8, "fault": fault}))
    return adapter(name, folder)


def row(model: str, text: str = "hi", contract: str = "openai") -> Row:
    """Give a row for a model."""
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    request = request_line.parse(json.dumps({"custom_id": "a", "method": "POST", "url": URL, "body": body}).encode(), 1)
    assert isinstance(request, RequestLine)
    return prepare(ShardPlan("batch_1", "acme", contract, "key", URL, [PlanLine(1, 0, 9, "a")]), 0, request, BASE)


class Stand:
    """A dispatcher at a real echo engine."""

    def __init__(self, engine: EngineProcess, dispatcher: Dispatcher) -> None:
        self.engine = engine
        self._dispatcher = dispatcher

    async def answers(self, *rows: Row) -> list[dict[str, Any]]:
        """Give the lines of rows that are in the engine together."""
        finished = await asyncio.gather(*map(self._dispatcher.answer, rows))
        return [json.loads(one.data) for one in finished]


@asynccontextmanager
async def stand(
    folder: Path,
    *adapters: Model,
    blobs: MemoryBlobs | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[Stand]:
    """Give a dispatcher whose engine is ready."""
    engine = echo(folder, "--model", SERVED_NAME)
    async with Upstream(engine, max_in_flight=64) as upstream:
        known: Mapping[str, Model] = {one.id: one for one in adapters}
        made = dispatching.dispatcher(
            engine, upstream, adapters=known, blobs=blobs, folder=folder / "adapters", row_seconds=60, fetch_sleep=sleep
        )
        keeper = asyncio.create_task(made.keep_alive())
        await made.ready()
        yield Stand(engine, made)
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
    await engine.stop()


def models(lines: list[dict[str, Any]]) -> list[str]:
    """Give the models of answers, all of which are good."""
    assert [200] * len(lines) == [line["response"]["status_code"] for line in lines]
    return [line["response"]["body"]["model"] for line in lines]


async def test_a_base_and_eight_adapters_are_served_together(tmp_path: Path) -> None:
    """Each is loaded when its first row comes, and once; every row names the model that its caller named."""
    adapters = [on_disk(tmp_path, f"ft:base:{n}") for n in range(8)]
    names = ["base", *(one.id for one in adapters)] * 4
    async with stand(tmp_path, *adapters) as there:
        assert names == models(await there.answers(*map(row, names)))
        assert 1 == there.engine.generation


@pytest.mark.parametrize(("contract", "code"), [("openai", "model_not_found"), ("gridline", "invalid_request")])
async def test_an_adapter_that_cannot_be_loaded_is_an_error_of_its_own_rows(
    tmp_path: Path, contract: str, code: str
) -> None:
    """Damaged, without a folder, or not served any more: the others are answered, the engine lives, and no path of the machine is told."""
    good = on_disk(tmp_path, "ft:base:good")
    damaged, nowhere = on_disk(tmp_path, "ft:base:damaged", "other base"), adapter("ft:base:nowhere", tmp_path / "no")
    names = ["base", "ft:base:good", "ft:base:damaged", "ft:base:nowhere", "ft:base:unknown"] * 3
    async with stand(tmp_path, good, damaged, nowhere) as there:
        lines = await there.answers(*(row(name, contract=contract) for name in names))
        assert 1 == there.engine.generation
    told = dict(zip(names, lines, strict=True))
    assert ["base", "ft:base:good"] == models([told["base"], told["ft:base:good"]])
    for name in names[2:5]:
        line = told[name]
        error = line["error"] or line["response"]["body"]["error"]
        assert code == error["code"]
        assert name in error["message"]
        assert str(tmp_path) not in json.dumps(line)


async def test_an_engine_that_was_started_again_loads_its_adapters_again(tmp_path: Path) -> None:
    """What it had is gone with it."""
    async with stand(tmp_path, on_disk(tmp_path, "ft:base:one"), on_disk(tmp_path, "ft:base:two")) as there:
        assert ["ft:base:one"] == models(await there.answers(row("ft:base:one")))
        await there.answers(row("base", "[[crash]]"))
        assert there.engine.generation > 1
        rows = [row(name) for name in ("ft:base:one", "base", "ft:base:two")]
        assert ["ft:base:one", "base", "ft:base:two"] == models(await there.answers(*rows))


async def test_an_adapter_that_kills_the_engine_takes_only_its_own_rows_along(tmp_path: Path) -> None:
    """They are given up as rows are that kill it from inside; the others are answered by the next engine."""
    deadly, good = on_disk(tmp_path, "ft:base:deadly", "crash"), on_disk(tmp_path, "ft:base:good")
    async with stand(tmp_path, deadly, good) as there:
        lines = await there.answers(row("ft:base:deadly"), *(row(name) for name in ("base", "ft:base:good") * 3))
    assert "server_error" == lines[0]["error"]["code"]
    assert ["base", "ft:base:good"] * 3 == models(lines[1:])


async def test_an_adapter_that_the_engine_has_already_is_loaded(tmp_path: Path) -> None:
    """Nobody heard of its answer: the next one who asks is told that it is there, which is no error."""
    one = on_disk(tmp_path, "ft:base:one")
    async with stand(tmp_path, one) as there, Upstream(there.engine, max_in_flight=1) as upstream:
        body = json.dumps({"lora_name": one.id, "lora_path": one.source}).encode()
        assert 200 == (await upstream.post("/v1/load_lora_adapter", body, timeout=60)).status
        assert ["ft:base:one"] == models(await there.answers(row("ft:base:one")))


def in_bucket(*names: str) -> MemoryBlobs:
    """Give a bucket with these files of the adapter `models/acme/one/1`."""
    blobs = MemoryBlobs(RLock())
    for name in names:
        blobs.put(paths.model_file("models/acme/one/1", name), b'{"r": 8}')
    return blobs


IN_BUCKET = adapter("ft:base:one", "models/acme/one/1")


async def test_an_adapter_in_the_bucket_is_fetched_to_the_host(tmp_path: Path) -> None:
    """Its configuration and its weights, and nothing else that lies beside them."""
    async with stand(tmp_path, IN_BUCKET, blobs=in_bucket(*FILES, "adapter_model.bin", "README.md")) as there:
        assert ["ft:base:one"] == models(await there.answers(row("ft:base:one")))
    (folder,) = (tmp_path / "adapters").iterdir()
    assert sorted(FILES) == sorted(path.name for path in folder.iterdir())


async def test_an_adapter_that_is_not_whole_in_the_bucket_is_an_error_of_its_rows(tmp_path: Path) -> None:
    """And nothing of it is left on the host."""
    async with stand(tmp_path, IN_BUCKET, blobs=in_bucket(FILES[0])) as there:
        one, base = await there.answers(row("ft:base:one"), row("base"))
    assert "model_not_found" == one["response"]["body"]["error"]["code"]
    assert ["base"] == models([base])
    assert [] == list((tmp_path / "adapters").iterdir())


class Away(MemoryBlobs):
    """A bucket that is away for some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(RLock())
        self.calls = calls

    def stream(self, key: str, start: int = 0, end: int | None = None) -> Any:
        """As `Blobs.stream`."""
        self.calls -= 1
        if self.calls >= 0:
            raise Unavailable("the bucket is away")
        return super().stream(key, start, end)


class Waits:
    """Waits that take no time. What they would have taken is summed up; after so many `seconds` something happens."""

    def __init__(self, seconds: float = 0, then: Callable[[], object] = lambda: None) -> None:
        self.waited = 0.0
        self._seconds = seconds
        self._then = then

    async def __call__(self, seconds: float) -> None:
        """Wait."""
        self.waited += seconds
        if self.waited >= self._seconds:
            self._then()
        await asyncio.sleep(0)


@pytest.mark.parametrize(("calls", "status"), [(2, 200), (7, 200), (100, 503)])
async def test_a_bucket_that_is_away_is_waited_for(tmp_path: Path, calls: int, status: int) -> None:
    """For minutes, once; what then comes of it is an error of the server."""
    blobs, waits = Away(calls), Waits()
    blobs._objects = in_bucket(*FILES)._objects
    async with stand(tmp_path, IN_BUCKET, blobs=blobs, sleep=waits) as there:
        (line,) = await there.answers(row("ft:base:one"))
        assert status == line["response"]["status_code"]
        assert ["base"] == models(await there.answers(row("base")))
        if status != 200:
            assert "server_error" == line["response"]["body"]["error"]["code"]
            assert 120 < waits.waited < 600
            waits.waited, left = 0, blobs.calls
            await there.answers(row("ft:base:one"))
            assert (0, left - 1) == (waits.waited, blobs.calls)


async def test_a_disk_without_room_for_an_adapter_is_waited_for(tmp_path: Path) -> None:
    """It is no fault of the row, which is answered when there is room."""
    with FullDisk() as disk:
        waits = Waits(60, disk.tidy)
        async with stand(tmp_path, IN_BUCKET, blobs=in_bucket(*FILES), sleep=waits) as there:
            assert ["ft:base:one", "base"] == models(await there.answers(row("ft:base:one"), row("base")))
    assert waits.waited >= 60


async def test_a_disk_that_stays_full_costs_the_rows_of_its_adapters_and_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are errors of the server, which a retry runs again; the operator is told where to make room."""
    with FullDisk():
        async with stand(tmp_path, IN_BUCKET, blobs=in_bucket(*FILES), sleep=Waits()) as there:
            one, base = await there.answers(row("ft:base:one"), row("base"))
    assert (503, "server_error") == (one["response"]["status_code"], one["response"]["body"]["error"]["code"])
    assert ["base"] == models([base])
    assert f"cannot be kept in {tmp_path / 'adapters'}" in caplog.text
    assert [] == list((tmp_path / "adapters").iterdir())


def test_an_adapter_that_is_on_the_host_is_not_fetched_again(tmp_path: Path) -> None:
    """Another worker of the host finds what the first one has fetched, under the adapter's revision."""
    found = [AdapterFiles(blobs, tmp_path).folder(IN_BUCKET) for blobs in (in_bucket(*FILES), in_bucket())]
    assert found[0] == found[1]
    with pytest.raises(NotFound):
        AdapterFiles(in_bucket(), tmp_path).folder(adapter("ft:base:two", "models/acme/one/1"))


def test_what_a_worker_left_that_was_killed_while_it_fetched_is_removed(tmp_path: Path) -> None:
    """By the next one that fetches: it would fill the disk. What another is fetching now stays."""
    left, fetching = tmp_path / "left.draft", tmp_path / "fetching.draft"
    for draft in (left, fetching):
        draft.mkdir()
        (draft / FILES[1]).write_bytes(b"half of it")
    os.utime(left, (0, 0))
    folder = AdapterFiles(in_bucket(*FILES), tmp_path).folder(IN_BUCKET)
    assert {folder, fetching} == set(tmp_path.iterdir())


def test_two_workers_that_fetch_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """The second one to finish takes what the first one has put there."""

    class Meanwhile(MemoryBlobs):
        then: Callable[[], object] = staticmethod(lambda: None)

        def stream(self, key: str, start: int = 0, end: int | None = None) -> Any:
            then, self.then = self.then, lambda: None  # type: ignore[method-assign]
            then()
            return super().stream(key, start, end)

    blobs = Meanwhile(RLock())
    blobs._objects = in_bucket(*FILES)._objects
    blobs.then = lambda: AdapterFiles(in_bucket(*FILES), tmp_path).folder(IN_BUCKET)  # type: ignore[method-assign]
    folder = AdapterFiles(blobs, tmp_path).folder(IN_BUCKET)
    assert [folder] == list(tmp_path.iterdir())
