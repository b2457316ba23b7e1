import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from aiohttp import web

from gpu_job.engine import Engine, EngineFailed, EngineProcess, RemoteEngine, _reserved_port
from tests.gpu_job.disk import FullDisk
from tests.gpu_job.engines import echo, family_lives, stub, until

ROOT = Path(__file__).parents[2]


def command(*argv: str, folder: Path, start_timeout: float = 60) -> EngineProcess:
    """Make an engine process of any command line."""
    return EngineProcess(
        lambda _port: argv, env=dict(os.environ), log_path=folder / "logs" / "engine.log", start_timeout=start_timeout
    )


async def test_an_engine_that_started_answers_at_its_base_url(tmp_path: Path) -> None:
    """After `start` the engine lives, at a loopback address without a trailing slash."""
    engine: Engine = echo(tmp_path)
    await engine.start()

    assert await engine.alive()
    assert not engine.exited()
    assert engine.base_url.startswith("http://127.0.0.1:")
    assert not engine.base_url.endswith("/")
    await engine.stop()


async def test_an_engine_that_was_never_started_has_exited(tmp_path: Path) -> None:
    """Before `start` there is nothing that lives, nothing to wait for and nothing to end."""
    engine = echo(tmp_path)

    assert engine.exited()
    assert not await engine.alive()
    await engine.wait_exit()
    await engine.stop()
    await engine.kill()
    assert engine.generation == 0


async def test_a_restart_is_a_new_generation_and_ends_the_former(tmp_path: Path) -> None:
    """Starting again leaves one engine, with another generation."""
    engine = stub(tmp_path)
    await engine.start()
    first = (tmp_path / "pid").read_text()
    await engine.start()

    assert engine.generation == 2
    assert await engine.alive()
    assert first != (tmp_path / "pid").read_text()  # the second could only take the lock after the first had gone
    await engine.kill()


async def test_an_exit_with_code_0_before_it_was_ready_is_a_failure(tmp_path: Path) -> None:
    """An engine that ends before it answers failed, whatever its code; the error says what it said: its log goes with its host."""
    engine = command(sys.executable, "-c", "print('no room for the model')", folder=tmp_path)

    with pytest.raises(EngineFailed, match="code 0 before it answered /health") as failed:
        await engine.start()

    assert str(failed.value).endswith(f"it printed ({tmp_path / 'logs' / 'engine.log'}):\nno room for the model")
    assert engine.exited()


async def test_what_was_printed_before_this_start_is_not_told(tmp_path: Path) -> None:
    """A former life has seen prompts, and what it printed may hold them; of a long start the end is told."""
    log = tmp_path / "logs" / "engine.log"
    log.parent.mkdir()
    log.write_text("a secret prompt\n" * 1000)
    for script, said in (("", "it printed nothing"), ("print('x' * 10_000, 'why')", "x why")):
        with pytest.raises(EngineFailed) as failed:
            await command(sys.executable, "-c", script, folder=tmp_path).start()

        assert str(failed.value).endswith(said)
        assert "secret" not in str(failed.value)
        assert len(str(failed.value)) < 5000


async def test_what_the_engine_prints_goes_to_its_log_file(tmp_path: Path) -> None:
    """Both streams of every start are appended to the file that the error names."""
    engine = command(sys.executable, "-c", "import os; print('out'); os.write(2, b'err\\n')", folder=tmp_path)
    for _ in range(2):
        with pytest.raises(EngineFailed):
            await engine.start()

    printed = (tmp_path / "logs" / "engine.log").read_text().split()
    assert sorted(printed) == ["err", "err", "out", "out"]


async def test_a_program_that_is_not_there_is_a_failure_that_the_log_explains(tmp_path: Path) -> None:
    """A command that cannot be run ends with code 127 and says so in the log."""
    engine = command("/nowhere/engine", folder=tmp_path)

    with pytest.raises(EngineFailed, match="code 127"):
        await engine.start()

    expected = "cannot start /nowhere/engine: No such file or directory\n"
    assert expected == (tmp_path / "logs" / "engine.log").read_text()


def unloggable(folder: Path, *argv: str) -> EngineProcess:
    """Make an engine process, the echo engine by default, whose log has no place: there is a file where its folder should be."""
    (folder / "logs").write_text("")
    flags = argv or (sys.executable, "-m", "gpu_job.echo_engine", "--port")
    return EngineProcess(
        lambda port: [*flags, str(port)],
        env=dict(os.environ),
        log_path=folder / "logs" / "engine.log",
        start_timeout=60,
    )


async def test_an_engine_whose_log_cannot_be_opened_runs_without_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No row waits for a log; the worker's own says that it is lost, and why."""
    engine = unloggable(tmp_path)
    await engine.start()
    assert await engine.alive()
    await engine.stop()
    assert "its log cannot be opened" in caplog.text
    assert str(tmp_path / "logs") in caplog.text


async def test_an_engine_that_fails_without_a_log_says_why_there_is_none(tmp_path: Path) -> None:
    """What it would have said may be the reason itself: the disk is full."""
    with pytest.raises(EngineFailed, match=r"code 3 .*lost, since its log could not be opened: "):
        await unloggable(tmp_path, sys.executable, "-c", "import sys; print('why'); sys.exit(3)").start()


async def test_an_engine_whose_log_is_on_a_full_disk_runs_all_the_same(tmp_path: Path) -> None:
    """It prints to nobody."""
    with FullDisk():
        engine = echo(tmp_path)
        await engine.start()
        assert await engine.alive()
        await engine.stop()


async def test_an_engine_that_fails_on_a_full_disk_says_that_its_log_took_nothing(tmp_path: Path) -> None:
    """Not that it had nothing to say."""
    with FullDisk(), pytest.raises(EngineFailed, match=r"lost, since .*engine\.log takes no more: .*File too large"):
        await command(sys.executable, "-c", "print('no room for the cache')", folder=tmp_path).start()


async def test_a_host_that_has_no_process_for_an_engine_is_a_failure_of_its_start(tmp_path: Path) -> None:
    """The worker ends as with any engine that does not start, and not by a mistake of ours."""
    with pytest.raises(EngineFailed, match=r"the host has no process for the engine: .*Argument list too long"):
        await command(sys.executable, "-c", "x" * 1_000_000, folder=tmp_path).start()


async def test_an_engine_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    """After the start timeout nothing of the engine is left, and the error says what to do."""
    engine = stub(tmp_path, "mute", start_timeout=1)

    with pytest.raises(EngineFailed, match=r"within 1 s.*may need a longer start timeout"):
        await engine.start()

    assert engine.exited()
    assert not family_lives(tmp_path)


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    """A worker told to stop while its engine loads leaves nothing behind."""
    engine = stub(tmp_path, "mute")
    starting = asyncio.create_task(engine.start())
    await until(lambda: asyncio.sleep(0, (tmp_path / "lock").exists()))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    assert engine.exited()
    assert not family_lives(tmp_path)


async def test_a_crash_wakes_the_waiter_and_takes_the_engines_children_along(tmp_path: Path) -> None:
    """When the server is killed, `wait_exit` returns and the process that holds the model does not outlive it."""
    engine = stub(tmp_path)
    await engine.start()
    waiting = asyncio.create_task(engine.wait_exit())
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    await waiting

    assert engine.exited()
    assert not await engine.alive()
    assert not family_lives(tmp_path)


async def test_stop_asks_first(tmp_path: Path) -> None:
    """The engine gets SIGTERM and may end in its own way; then its children are ended too."""
    engine = stub(tmp_path, "polite")
    await engine.start()
    await engine.stop()

    assert (tmp_path / "goodbye").exists()
    assert engine.exited()
    assert not family_lives(tmp_path)


async def test_stop_kills_an_engine_that_does_not_listen(tmp_path: Path) -> None:
    """An engine that ignores SIGTERM is killed after the grace."""
    engine = stub(tmp_path, "deaf", grace=0.1)
    await engine.start()
    await engine.stop()

    assert engine.exited()
    assert not family_lives(tmp_path)


async def test_kill_ends_an_engine_that_does_not_listen(tmp_path: Path) -> None:
    """`kill` leaves nothing of the engine, whatever it does with signals."""
    engine = stub(tmp_path, "deaf")
    await engine.start()
    await engine.kill()

    assert engine.exited()
    assert not family_lives(tmp_path)


async def test_an_engine_that_does_not_end_is_not_waited_for(tmp_path: Path) -> None:
    """Processes whose GPU hangs stay, killed or not; whoever ends one is told."""
    engine = stub(tmp_path, "clinging", kill_timeout=0.5, grace=0.1)
    await engine.start()
    for end in (engine.kill, engine.stop):
        with pytest.raises(EngineFailed, match="still there"):
            await end()
    assert not engine.exited()
    assert engine._process is not None
    os.kill(engine._process.pid, signal.SIGCONT)
    await engine.wait_exit()
    assert not family_lives(tmp_path)


async def test_an_engine_dies_with_a_worker_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL to the worker, which it cannot act on, ends its engine and the engine's children."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import asyncio, sys, pathlib\n"
        "from tests.gpu_job.engines import stub\n"
        "async def work():\n"
        "    engine = stub(pathlib.Path(sys.argv[1]), 'deaf')\n"
        "    await engine.start()\n"
        "    print('ready', flush=True)\n"
        "    await engine.wait_exit()\n"
        "asyncio.run(work())\n",
        str(tmp_path),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    assert family_lives(tmp_path)

    worker.kill()

    assert await worker.wait() == -signal.SIGKILL
    await until(lambda: asyncio.sleep(0, not family_lives(tmp_path)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a parent-death signal")
async def test_the_server_dies_with_the_process_that_holds_its_leash(tmp_path: Path) -> None:
    """Even when the leash process itself is killed, no server keeps running unseen."""
    engine = echo(tmp_path)
    await engine.start()
    assert engine._process is not None
    engine._process.kill()
    await engine.wait_exit()

    async def refuses() -> bool:
        return not await RemoteEngine(engine.base_url).alive()

    await until(refuses)


async def test_the_engine_gets_the_environment_it_was_given_and_no_other(tmp_path: Path) -> None:
    """The child's environment is `env`, whole: what the worker knows besides does not reach the engine."""
    engine = EngineProcess(
        lambda _port: [sys.executable, "-c", "import os; print(os.environ['FLAG'], 'HOME' in os.environ)"],
        env={"FLAG": "on"},
        log_path=tmp_path / "engine.log",
        start_timeout=60,
    )
    with pytest.raises(EngineFailed):
        await engine.start()

    assert (tmp_path / "engine.log").read_text() == "on False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held for somebody else")
def test_ports_that_are_held_are_given_to_nobody_else() -> None:
    """Engines that start at once never meet on a port, and each can bind the port that was held for it."""
    with ExitStack() as held:
        ports = [held.enter_context(_reserved_port()) for _ in range(200)]
        assert len(set(ports)) == len(ports)
        for port in ports:
            server = held.enter_context(socket.socket())
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port))
            server.listen()


async def test_a_port_is_not_leaked_by_its_engine(tmp_path: Path) -> None:
    """When the engine has gone, its port is as free as before it came."""
    engine = echo(tmp_path)
    await engine.start()
    port = int(engine.base_url.rpartition(":")[2])
    await engine.kill()

    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
async def test_a_remote_engine_is_one_that_answers(tmp_path: Path, suffix: str) -> None:
    """Any running server is an engine, given by its base URL with or without `/v1`."""
    server = echo(tmp_path)
    await server.start()
    engine: Engine = RemoteEngine(server.base_url + suffix)
    await engine.start()

    assert server.base_url == engine.base_url
    assert engine.generation == 1
    await engine.stop()
    await engine.kill()
    assert await engine.alive()
    assert not engine.exited()
    await server.stop()
    assert not await engine.alive()


async def test_a_remote_engine_that_has_no_health_check_lists_its_models() -> None:
    """A server that only knows the OpenAI paths is alive when `/v1/models` answers."""
    app = web.Application()

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": []})

    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    engine = RemoteEngine(f"http://{host}:{port}")
    await engine.start()

    assert await engine.alive()
    await runner.cleanup()


async def test_a_remote_engine_that_does_not_answer_is_a_failure() -> None:
    """Starting an engine at an address where nothing serves says so, with the address."""
    with _reserved_port() as port, pytest.raises(EngineFailed, match=f"nothing answers at http://127.0.0.1:{port}"):
        await RemoteEngine(f"http://127.0.0.1:{port}").start()


async def test_a_remote_engine_never_exits() -> None:
    """Waiting for its exit waits until it is given up."""
    waiting = asyncio.create_task(RemoteEngine("http://127.0.0.1:9").wait_exit())
    await asyncio.sleep(0)

    assert not waiting.done()
    waiting.cancel()
