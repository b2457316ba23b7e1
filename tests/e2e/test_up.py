"""Starting and stopping: `slackwater up` leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.stack import chat, free_port, processes_of, running, submit, until

pytestmark = pytest.mark.stack

SLACKWATER = Path(sys.executable).with_name("slackwater")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_up(tmp_path: Path, number: signal.Signals) -> None:
    """After Ctrl-C or SIGTERM, with a batch running, no process is left and the port is free."""
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


def test_a_port_in_use_is_told() -> None:
    """A taken port is one clear message and a non-zero exit."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run([SLACKWATER, "up", "--port", str(port)], capture_output=True, text=True, check=False)
    assert 1 == done.returncode
    assert f"port {port} is in use" in done.stdout


def test_a_batch_without_its_execution_is_found(tmp_path: Path) -> None:
    """A batch completes in a stack whose sweep runs often, and the sweep disturbs no running batch."""
    with running(tmp_path, "--sweep-seconds=0.2") as stack, stack.client() as client:
        batch = submit(client, [chat(f"line-{index}", "[[delay 0.5]]") for index in range(10)])
        assert "completed" == until(client, batch).status
