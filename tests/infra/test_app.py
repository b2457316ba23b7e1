"""The application: what it writes, what it says, and what it refuses."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra import bundle
from infra.options import Options
from shared.core.models import Registry
from tests.infra.conftest import ROOT, Synthesis
from tests.infra.template import Template


def test_the_template_is_made_offline_without_a_node_on_the_path(synthesis: Synthesis) -> None:
    """Node comes with the packages, and nothing is looked up."""
    assert (0, "template only: dependencies are not bundled; use `cdk deploy`\n") == (synthesis.code, synthesis.said)


def test_cdk_nag_has_nothing_to_say(synthesis: Synthesis) -> None:
    """What it found is acknowledged, each with a reason."""
    assert [] == json.loads((synthesis.folder / "validation-report.json").read_bytes())["pluginReports"]


def test_cdk_warns_of_nothing(synthesis: Synthesis) -> None:
    """What it would say of SnapStart is looked after."""
    metadata = json.loads((synthesis.folder / "slackwater.metadata.json").read_bytes())
    said = [
        entry["data"]
        for entries in metadata.values()
        for entry in entries
        if entry["type"].endswith((":warning", ":error"))
    ]
    assert [] == said


def test_every_finding_that_is_acknowledged_has_its_reason(synthesis: Synthesis) -> None:
    """Of ours, a sentence; and one that says something of its own."""
    metadata = json.loads((synthesis.folder / "slackwater.metadata.json").read_bytes())
    reasons = {
        (finding, reason)
        for entries in metadata.values()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for finding, reason in entry["data"].items()
        if "AwsSolutions" in finding
    }
    assert reasons
    assert set() == {(finding, reason) for finding, reason in reasons if len(reason) < 40 or not reason.endswith(".")}


def test_a_finding_of_cdk_nag_stops_the_synthesis(tmp_path: Path) -> None:
    """The plugin is there: a bucket that anybody may read in clear fails."""
    program = (
        "import os\n"
        "from infra import app\n"
        "app.choose_node(os.environ)\n"
        "made = app.checked_app(os.environ)\n"
        "from aws_cdk import Stack, aws_s3\n"
        "aws_s3.Bucket(Stack(made, 'Careless'), 'Bucket')\n"
        "made.synth()\n"
    )
    environment = {"CDK_OUTDIR": str(tmp_path / "out"), "HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (1, True) == (done.returncode, "AwsSolutions::AwsSolutions-S10" in done.stdout + done.stderr)


def test_cfn_lint_has_nothing_to_say(synthesis: Synthesis) -> None:
    """Except W3005: CDK makes a Lambda wait for its role by name where a reference does so already."""
    lint = Path(sys.executable).parent / "cfn-lint"
    command = [str(lint), "--ignore-checks", "W3005", "--", str(synthesis.folder / "slackwater.template.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stdout)


def test_the_template_fits_every_account_and_region(template: Template) -> None:
    """No account, region or zone is written down."""
    regions = r"\b(?:us|eu|ap|sa|ca|me|af|il|mx)-(?:north|south|east|west|central|northeast|southeast)-\d[a-f]?\b"
    assert [] == re.findall(rf"\b\d{{12}}\b|{regions}", template.text)


def test_a_name_that_cannot_begin_other_names_is_refused() -> None:
    """The message says which choice it was."""
    with pytest.raises(ValueError, match=r"\$\.name"):
        Options.from_context({"slackwater:name": "My Stack"})


def test_a_choice_that_does_not_exist_is_refused() -> None:
    """A misspelt one would otherwise be left at its default."""
    with pytest.raises(ValueError, match="egres"):
        Options.from_context({"slackwater:egres": "nat"})


def test_mounts_that_cannot_be_are_refused() -> None:
    """Before anything is deployed; the message says what there is."""
    with pytest.raises(ValueError, match="there is no contract 'opneai' to mount; there are boardwalk"):
        Options.from_context({"slackwater:mounts": "opneai=/v1"})


def test_windows_that_cannot_be_are_refused() -> None:
    """Likewise."""
    with pytest.raises(ValueError, match="'1d' is no completion window"):
        Options.from_context({"slackwater:windows": "24h,1d"})


def test_choices_of_others_are_none_of_ours() -> None:
    """CDK's own flags stand in the same context."""
    assert Options() == Options.from_context({"@aws-cdk/aws-iam:minimizePolicies": True})


def test_cdk_s_own_command_bundles() -> None:
    """What it deploys must have its dependencies."""
    configuration = json.loads((ROOT / "cdk.json").read_bytes())
    assert Options(bundle=True) == Options.from_context(configuration["context"])
    assert ".venv/bin/python -m infra.app" == configuration["app"]


def test_lambdas_run_our_packages_and_the_models_file(synthesis: Synthesis) -> None:
    """And nothing of the workers, the command line or this stack."""
    assets = json.loads((synthesis.folder / "slackwater.assets.json").read_bytes())["files"].values()
    (code,) = (asset["source"]["path"] for asset in assets if asset["source"]["packaging"] == "zip")
    assert {"functions", "shared", "models.json"} == {path.name for path in (synthesis.folder / code).iterdir()}


def test_the_models_that_are_deployed_can_be_read() -> None:
    """Each is served by an engine that the fleet has, at a revision whose weights are named."""
    registry = Registry.from_json(bundle.MODELS.read_bytes())
    engines = {model.engine for model in registry.values()}
    pinned = [model.revision.split("@")[1] in model.engine_args for model in registry.values()]
    assert ({"vllm"}, [True] * len(registry)) == (engines, pinned)


def test_every_dependency_of_a_lambda_is_locked_with_hashes() -> None:
    """A requirement without one would be installed unchecked."""
    lines = bundle.LOCK.read_text().split("\n")
    requirements = [number for number, line in enumerate(lines) if re.match(r"[a-z]", line)]
    assert [True] * len(requirements) == ["--hash=sha256:" in lines[number + 1] for number in requirements]
