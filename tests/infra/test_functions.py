"""The Lambdas: what each is given, and how each is called."""

import json

import pytest

from infra.access import REACTIONS, STATES
from infra.api import LOGGED
from infra.bundle import PYTHON
from shared.settings import ApiSettings, TaskSettings
from tests.infra.template import BUCKET, Template

TASKS = [*STATES, *REACTIONS, "scan"]
CALLED_BY_EVENTS = [*REACTIONS, "scan"]
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:slackwater"
QUEUE = "arn:aws:batch:eu-west-1:123456789012:job-queue/slackwater"


def test_the_api_reads_back_what_the_stack_wrote(template: Template) -> None:
    """Its environment is its settings."""
    environment = template.function("functions.api.handler")["Environment"]["Variables"]
    expected = ApiSettings(
        bucket=BUCKET,
        table_prefix="slackwater",
        models_file="/var/task/models.json",
        region="eu-west-1",
        state_machine_arn=MACHINE,
        scan_function="slackwater-scan",
    )
    assert expected == ApiSettings.from_env(environment)


def test_what_was_chosen_for_the_api_reaches_it(chosen: Template) -> None:
    """Its contracts and where they are, their windows, and the limits of accounts; and their addresses are told."""
    settings = ApiSettings.from_env(chosen.function("functions.api.handler")["Environment"]["Variables"])
    assert ("gridline=/g/openai/v1,openai=/v1", "12h,48h", 1000, 7) == (
        settings.mounts,
        settings.windows,
        settings.account_bytes,
        settings.account_batches,
    )
    told = {name: json.dumps(output["Value"]) for name, output in chosen.outputs.items() if name.endswith("Url")}
    assert {"GridlineUrl", "OpenaiUrl"} == set(told)
    assert "/g/openai/v1" in told["GridlineUrl"]
    assert "/v1" in told["OpenaiUrl"]
    assert "/g/" not in told["OpenaiUrl"]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_reads_back_what_the_stack_wrote(template: Template, task: str) -> None:
    """Its environment is its settings."""
    environment = template.function(f"functions.tasks.{task}")["Environment"]["Variables"]
    expected = TaskSettings(
        bucket=BUCKET,
        table_prefix="slackwater",
        models_file="/var/task/models.json",
        region="eu-west-1",
        state_machine_arn=MACHINE,
        scan_function="slackwater-scan",
        job_queue=QUEUE,
        job_definition="slackwater",
    )
    assert expected == TaskSettings.from_env(environment)


def test_there_is_a_lambda_for_each_task_and_the_api(template: Template) -> None:
    """And for nothing else."""
    handlers = {properties["Handler"] for properties in template.of_type("AWS::Lambda::Function").values()}
    assert {"functions.api.handler.handler", *(f"functions.tasks.{task}.handler" for task in TASKS)} == handlers


def test_all_lambdas_run_on_what_their_dependencies_are_made_for(template: Template) -> None:
    """The wheels are for this Python on Graviton."""
    functions = template.of_type("AWS::Lambda::Function").values()
    assert {(f"python{PYTHON}", "arm64")} == {
        (properties["Runtime"], *properties["Architectures"]) for properties in functions
    }


def test_all_lambdas_are_traced(template: Template) -> None:
    """X-Ray follows a request, and an execution, through all of them."""
    functions = template.of_type("AWS::Lambda::Function").values()
    assert {"Active"} == {properties["TracingConfig"]["Mode"] for properties in functions}


@pytest.mark.parametrize("task", TASKS)
def test_what_goes_over_whole_files_or_all_shards_has_the_time_and_the_memory(template: Template, task: str) -> None:
    """Everything else is a few calls."""
    properties = template.function(f"functions.tasks.{task}")
    long = ("scan", "validate", "plan", "drain", "close", "fail", "finalize", "notify")
    expected = {"sweep": (300, 512)} | dict.fromkeys(long, (900, 1769))
    assert expected.get(task, (60, 512)) == (properties["Timeout"], properties["MemorySize"])


def test_the_api_starts_from_a_snapshot(template: Template) -> None:
    """Callers reach the alias of a published version: only those have one."""
    properties = template.function("functions.api.handler")
    (version,) = template.of_type("AWS::Lambda::Version")
    ((alias, live),) = template.of_type("AWS::Lambda::Alias").items()
    assert {"ApplyOn": "PublishedVersions"} == properties["SnapStart"]
    assert f"{version}.Version" == live["FunctionVersion"]
    assert alias == template.only("AWS::ApiGatewayV2::Integration")["IntegrationUri"]


def test_the_api_is_throttled(template: Template) -> None:
    """A runaway client meets a 429 before it meets the account's limits."""
    limits = template.only("AWS::ApiGatewayV2::Stage")["DefaultRouteSettings"]
    assert {"ThrottlingBurstLimit": 200, "ThrottlingRateLimit": 100} == limits


def test_browsers_of_other_origins_are_not_served(template: Template) -> None:
    """An API key does not belong into a page."""
    assert "CorsConfiguration" not in template.only("AWS::ApiGatewayV2::Api")


def test_the_access_log_holds_nothing_of_a_request_s_content(template: Template) -> None:
    """No header, in which the key is, no query, no body."""
    written = json.loads(template.only("AWS::ApiGatewayV2::Stage")["AccessLogSettings"]["Format"])
    assert {name: f"$context.{name}" for name in LOGGED} == written
    assert not [name for name in LOGGED if name.startswith(("authorizer", "querystring", "request.", "header"))]


def test_the_scan_has_the_name_by_which_it_is_asked(template: Template) -> None:
    """The API and the Lambda itself know it by its settings."""
    properties = template.function("functions.tasks.scan")
    asked = properties["Environment"]["Variables"]["SLACKWATER_SCAN_FUNCTION"]
    assert asked == properties["FunctionName"]


@pytest.mark.parametrize("task", CALLED_BY_EVENTS)
def test_an_event_that_fails_for_good_is_kept(template: Template, task: str) -> None:
    """A Lambda that nobody waits for gets what it failed on three times into a queue."""
    (queue,) = template.of_type("AWS::SQS::Queue")
    assert {"TargetArn": f"{queue}.Arn"} == template.function(f"functions.tasks.{task}")["DeadLetterConfig"]
