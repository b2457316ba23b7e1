"""The script on a host that tells workers of a Spot loss, run with commands that only pretend."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.host import NOTICE
from tests.infra.template import Template

CURL = """\
#!/bin/sh
case "$*" in
    *api/token*) echo a-token ;;
    *instance-action*) echo "asked $*" >> "$CALLS"; test -e "$NOTICE_GIVEN" || exit 22 ;;
esac
"""
DOCKER = """\
#!/bin/sh
echo "docker $*" >> "$CALLS"
case "$1" in ps) echo worker-a; echo worker-b ;; esac
"""
SLEEP = """\
#!/bin/sh
: > "$NOTICE_GIVEN"
"""


@pytest.fixture
def calls(tmp_path: Path) -> list[str]:
    """Run the script on a host that gets its notice during the first pause; give what it called."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in {"curl": CURL, "docker": DOCKER, "sleep": SLEEP}.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    path = f"{commands}{os.pathsep}{os.defpath}"
    record = tmp_path / "calls"
    environment = {"PATH": path, "CALLS": str(record), "NOTICE_GIVEN": str(tmp_path / "given")}
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, str(NOTICE)], env=environment, check=True, timeout=60)
    return record.read_text().splitlines()


def test_workers_are_told_once_their_host_has_its_notice(calls: list[str]) -> None:
    """Before, nothing is sent; then every container of a task gets a SIGTERM, and no SIGKILL after it."""
    listed = "docker ps --quiet --filter label=com.amazonaws.ecs.task-arn"
    assert [listed, "docker kill --signal TERM worker-a worker-b"] == calls[2:]
    assert [True, True] == [call.startswith("asked") for call in calls[:2]]


def test_the_metadata_is_asked_with_a_token(calls: list[str]) -> None:
    """The hosts answer to nothing else."""
    assert "X-aws-ec2-metadata-token: a-token" in calls[0]


def test_hosts_run_it_and_take_no_jobs_once_they_drain(template: Template) -> None:
    """It stands in what a host does first, in the form that AWS Batch adds its own part to."""
    data = template.only("AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    text = data["UserData"]
    assert text.startswith("Content-Type: multipart/mixed")
    assert NOTICE.read_text() in text
    assert "echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >> /etc/ecs/ecs.config" in text
    assert "systemd-run --unit=spot-notice /usr/local/bin/spot-notice" in text
