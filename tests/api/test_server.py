"""The API as a server: it starts, answers, and stops when it is told to."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from shared.settings import ApiSettings

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "functions.api.server", "--port", "0"]
SETTINGS = ApiSettings(
    bucket="none",
    table_prefix="none",
    models_file=str(ROOT / "local" / "models.json"),
    region="eu-west-1",
    state_machine_arn="none",
    scan_function="none",
    endpoint_url="http://127.0.0.1:9",
)


def start(env: dict[str, str]) -> subprocess.Popen[str]:
    """Start a server in this environment."""
    env = {"PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"} | env
    return subprocess.Popen(COMMAND, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.timeout(60)
def test_a_server_answers_until_it_is_told_to_stop() -> None:
    """Health needs nothing behind it; SIGTERM ends the process."""
    with start(SETTINGS.to_env()) as server:
        assert server.stderr is not None
        said = ""
        while "running on" not in said:
            said = server.stderr.readline()
            assert said, "the server ended before it ran"
        port = re.search(r"127\.0\.0\.1:(\d+)", said)
        assert port

        health = httpx2.get(f"http://127.0.0.1:{port[1]}/v1/healthz")
        stranger = httpx2.get(f"http://127.0.0.1:{port[1]}/v1/files")
        server.send_signal(signal.SIGTERM)
        rest = server.stderr.read()

    assert {"status": "ok"} == health.json()
    assert 401 == stranger.status_code
    assert "GET /v1/files -> 401" in rest


@pytest.mark.timeout(60)
def test_a_server_without_settings_says_which_one_is_missing() -> None:
    """Exit code 2 and one line."""
    with start({}) as server:
        assert server.stderr is not None
        said = server.stderr.read()

    assert 2 == server.returncode
    assert said.startswith("error: the environment is not complete")
    assert "SLACKWATER_BUCKET" in said
    assert 1 == said.count("\n")
