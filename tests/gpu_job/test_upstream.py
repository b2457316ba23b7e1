import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Self

import pytest
from aiohttp import web

from gpu_job.engine import RemoteEngine
from gpu_job.upstream import EngineTimeout, EngineUnreachable, Reply, Upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """A server in a thread that treats its connections one after the other, each by the next step of a script.

    Being in a thread it acts while the client's event loop stands still: what it does then, the loop has not noticed.
    """

    def __init__(self, *script: Callable[["Server"], None]) -> None:
        self.received = b""
        self.done = [threading.Event() for _ in script]
        self.go = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, args=(script,))
        self._thread.start()

    @property
    def engine(self) -> RemoteEngine:
        """The server as an engine."""
        return RemoteEngine(f"http://127.0.0.1:{self._listener.getsockname()[1]}")

    def read(self) -> None:
        """Read one request that ends with `}`."""
        while not (chunk := self.connection.recv(65536)).endswith(b"}"):
            self.received += chunk
        self.received += chunk

    def _run(self, script: tuple[Callable[["Server"], None], ...]) -> None:
        for step, done in zip(script, self.done, strict=True):
            self.connection, _ = self._listener.accept()
            with self.connection:
                step(self)
            done.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()


def answer(server: Server) -> None:
    """Answer one request and close the connection when told to go on, as an idle server does."""
    server.read()
    server.connection.sendall(OK)
    server.go.wait()


def answer_at_once(server: Server) -> None:
    """Answer one request."""
    server.read()
    server.connection.sendall(OK)


def swallow(server: Server) -> None:
    """Read one request and go away."""
    server.read()


def answer_and_swallow(server: Server) -> None:
    """Answer one request, read a second on the same connection and go away."""
    server.read()
    server.connection.sendall(OK)
    server.read()


def half(server: Server) -> None:
    """Go away in the middle of an answer."""
    server.read()
    server.connection.sendall(OK[:-1])


def babble(server: Server) -> None:
    """Answer what is not HTTP."""
    server.read()
    server.connection.sendall(b"good morning\r\n\r\n")


@contextlib.contextmanager
def free_port() -> Iterator[int]:
    """Hold a port at which nothing listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@contextlib.asynccontextmanager
async def serving(path: str, handler: Callable[[web.Request], object]) -> AsyncIterator[RemoteEngine]:
    """Serve one path as an engine."""
    app = web.Application()
    app.router.add_route("*", path, handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield RemoteEngine(f"http://{host}:{port}")
    await runner.cleanup()


async def test_any_status_is_a_reply() -> None:
    """Status and body come back as they are, a redirect and bytes that are not JSON included."""

    async def handle(request: web.Request) -> web.Response:
        assert request.headers["Content-Type"] == "application/json"
        return web.Response(status=302, headers={"Location": "/elsewhere"}, body=b"\xff" + await request.read())

    async with serving("/v1/x", handle) as engine, Upstream(engine, max_in_flight=1) as upstream:
        assert await upstream.post("/v1/x", b"{}", timeout=60) == Reply(302, b"\xff{}")


async def test_a_row_on_a_connection_that_was_closed_meanwhile_is_sent_again() -> None:
    """A kept-alive connection that the engine closed an instant before is no failure: nothing was sent on it."""
    with Server(answer, answer_at_once) as server:
        async with Upstream(server.engine, max_in_flight=1) as upstream:
            await upstream.post("/v1/x", b'{"row": 1}', timeout=60)
            server.go.set()
            server.done[0].wait()  # the loop stands still: it cannot know that the connection is closed
            reply = await upstream.post("/v1/x", b'{"row": 2}', timeout=60)

    assert reply == Reply(200, b"{}")
    assert server.received.count(b'{"row": 2}') == 1


async def test_a_row_that_the_engine_may_have_seen_is_not_sent_again() -> None:
    """A reused connection that broke after the row was written may have carried it: once is all."""
    with Server(answer_and_swallow) as server:
        async with Upstream(server.engine, max_in_flight=1) as upstream:
            await upstream.post("/v1/x", b'{"row": 1}', timeout=60)
            with pytest.raises(EngineUnreachable) as gone:
                await upstream.post("/v1/x", b'{"row": 2}', timeout=60)

    assert gone.value.sent
    assert server.received.count(b'{"row": 2}') == 1


@pytest.mark.parametrize("step", [swallow, half, babble])
async def test_an_answer_that_does_not_come_whole_is_unreachable_and_sent(step: Callable[[Server], None]) -> None:
    """No answer, half an answer or none that is HTTP: the engine may have seen the row."""
    with Server(step) as server:
        async with Upstream(server.engine, max_in_flight=1) as upstream:
            with pytest.raises(EngineUnreachable) as gone:
                await upstream.post("/v1/x", b'{"secret": 1}', timeout=60)

    assert gone.value.sent
    assert "secret" not in str(gone.value)


async def test_a_refused_connection_is_unreachable_and_not_sent() -> None:
    """Where nothing listens, the row was certainly not seen."""
    with free_port() as port:
        async with Upstream(RemoteEngine(f"http://127.0.0.1:{port}"), max_in_flight=1) as upstream:
            with pytest.raises(EngineUnreachable) as refused:
                await upstream.post("/v1/x", b"{}", timeout=60)

    assert not refused.value.sent


async def test_a_row_has_its_own_limit() -> None:
    """A row without an answer in its time is a timeout, and the engine sees its client go away."""
    gone = asyncio.Event()

    async def handle(_request: web.Request) -> web.Response:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            gone.set()
        raise AssertionError

    app = web.Application()
    app.router.add_post("/v1/x", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with Upstream(RemoteEngine(f"http://{host}:{port}"), max_in_flight=1) as upstream:
        with pytest.raises(EngineTimeout, match=r"within 0\.1 s"):
            await upstream.post("/v1/x", b"{}", timeout=0.1)
        await gone.wait()
    await runner.cleanup()


async def test_no_more_rows_than_allowed_are_in_flight() -> None:
    """A further row waits for a connection; reading the metrics does not."""
    here, most = 0, 0
    full, release = asyncio.Event(), asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        nonlocal here, most
        if request.path == "/metrics":
            return web.Response(text="vllm:num_requests_running 2\n")
        here += 1
        most = max(most, here)
        if here == 2:
            full.set()
        await release.wait()
        here -= 1
        return web.Response(body=b"{}")

    async with serving("/{path:.*}", handle) as engine, Upstream(engine, max_in_flight=2) as upstream:
        rows = [asyncio.create_task(upstream.post("/v1/x", b"{}", timeout=60)) for _ in range(5)]
        await full.wait()
        assert await upstream.metrics() == {"vllm:num_requests_running": 2}
        release.set()
        await asyncio.gather(*rows)

    assert most == 2


async def test_metrics_are_summed_over_labels() -> None:
    """Comments and histogram buckets are passed over; a metric of several label sets is their sum."""

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(
            text="# HELP vllm:num_requests_running Number of requests.\n"
            "# TYPE vllm:num_requests_running gauge\n"
            'vllm:num_requests_running{engine="0",model_name="a b}"} 2.0\n'
            'vllm:num_requests_running{engine="1",model_name="a b}"} 3.0\n'
            'vllm:ttft_seconds_bucket{le="+Inf"} 4.0\n'
            "vllm:ttft_seconds_sum 1.5e-05\n"
            "process_start_time_seconds 1.7e+09 1700000000000\n"
            "no sample at all\n"
        )

    async with serving("/metrics", handle) as engine, Upstream(engine, max_in_flight=1) as upstream:
        expected = {
            "vllm:num_requests_running": 5.0,
            "vllm:ttft_seconds_sum": 1.5e-05,
            "process_start_time_seconds": 1.7e9,
        }
        assert expected == await upstream.metrics()


async def test_an_engine_without_metrics_has_none() -> None:
    """A server that knows no /metrics path gives an empty answer, a dead one an error."""

    async def handle(_request: web.Request) -> web.Response:
        return web.Response()

    async with serving("/health", handle) as engine, Upstream(engine, max_in_flight=1) as upstream:
        assert await upstream.metrics() == {}
    with free_port() as port:
        async with Upstream(RemoteEngine(f"http://127.0.0.1:{port}"), max_in_flight=1) as upstream:
            with pytest.raises(EngineUnreachable):
                await upstream.metrics()
