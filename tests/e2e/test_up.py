"""Starting and stopping: `slackwater up` leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from local.options import Options
from tests.e2e.stack import chat, free_port, processes_of, running, submit, until

pytestmark = pytest.mark.stack

SLACKWATER = Path(sys.executable).with_name("slackwater")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_up(tmp_path: Path, number: signal.Signals) -> None:
    """After Ctrl-C, SIGTERM or the end of the terminal, with a batch running, no process is left and the port is free."""
    port = free_port()
    process = subprocess.Popen(
        [SLACKWATER, "up", "--port", str(port), "--state", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Ready" in line:
            break
    headers = {"Authorization": "Bearer sk-local"}
    assert httpx.get(f"http://127.0.0.1:{port}/v1/models", headers=headers).is_success
    process.send_signal(number)
    assert 0 == process.wait()
    process.stdout.close()
    assert [] == processes_of(tmp_path)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that just closed are no listener
        probe.bind(("127.0.0.1", port))


def test_nothing_is_left_after_the_stack_is_killed(tmp_path: Path) -> None:
    """Even SIGKILL, which leaves no time to clean up, takes workers and engines with it."""
    with running(tmp_path) as stack:
        with stack.client() as client:
            submit(client, [chat("long", "[[delay 60]]")])
            while not stack.engine_starts():
                time.sleep(0.1)
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait()
        deadline = time.monotonic() + 30
        while processes_of(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [] == processes_of(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_the_demonstration_is_stopped(number: signal.Signals) -> None:
    """However it ends, the stack that it has started ends with it; also where a script runs it in the background, whose shell has SIGINT ignored."""
    port = free_port()
    script = (
        "import sys, time; from rich.console import Console; from local.demo import _stack\n"
        f"with _stack({port}, Console(file=sys.stderr)):\n    print('up', flush=True); time.sleep(600)"
    )
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as demonstration:
        assert demonstration.stdout is not None
        assert b"up\n" == demonstration.stdout.readline()
        demonstration.send_signal(number)
        demonstration.wait()
    deadline = time.monotonic() + 30
    while _serves(port) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _serves(port)


def _serves(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_folder_in_which_it_is_started_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files there that are called like modules are not what it runs: neither the stack, nor its workers, nor their engines."""
    strange = tmp_path / "strange"
    strange.mkdir()
    for name in ("gpu_job", "functions", "local", "shared", "signal", "contextlib", "argparse"):
        (strange / f"{name}.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(strange)
    with running(tmp_path / "state") as stack, stack.client() as client:
        assert "completed" == until(client, submit(client, [chat("line", "hello")])).status


def test_a_port_in_use_is_told() -> None:
    """A taken port is one clear message and a non-zero exit."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([SLACKWATER, "up", "--port", str(port)], capture_output=True, text=True, check=False)
    assert 1 == done.returncode
    assert f"port {port} is in use" in done.stdout


def test_models_of_ones_own_are_served_or_what_is_wrong_with_their_file_is_told(tmp_path: Path) -> None:
    """From the command line as it is documented; a file that is none ends the start before anything runs."""
    file = tmp_path / "mine.json"
    (echo,) = (model for model in json.loads(Path(Options().models).read_bytes()) if model["id"] == "echo")
    file.write_text(json.dumps([echo | {"id": "mine", "revision": "mine@1"}]))
    command = [SLACKWATER, "up", "--port", str(free_port()), "--state", str(tmp_path), "--models", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        told = "".join(iter(up.stdout.readline, "Ready. Ctrl-C stops everything.\n"))
        up.terminate()
    assert ["models", "mine"] in [line.split() for line in told.splitlines()]
    file.write_text("{}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 1 == done.returncode
    assert f"{file} is no models file" in done.stdout


def test_a_batch_without_its_execution_is_found(tmp_path: Path) -> None:
    """A batch completes in a stack whose sweep runs often, and the sweep disturbs no running batch."""
    with running(tmp_path, "--sweep-seconds=0.2") as stack, stack.client() as client:
        batch = submit(client, [chat(f"line-{index}", "[[delay 0.5]]") for index in range(10)])
        assert "completed" == until(client, batch).status
