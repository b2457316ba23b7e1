"""The state machine as it is deployed, and what makes Lambdas run beside it."""

import json
import re

from infra.access import REACTIONS, STATES
from infra.lifecycle import ASL
from shared.adapters.errors import Busy
from shared.core.errors import Unavailable
from tests.infra.template import Template

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:slackwater"
QUEUE = "arn:aws:batch:eu-west-1:123456789012:job-queue/slackwater"


def arns(template: Template, tasks: object) -> dict[str, str]:
    """Give the ARN of the Lambda of each task."""
    handlers = {
        properties["Handler"]: f"{name}.Arn" for name, properties in template.of_type("AWS::Lambda::Function").items()
    }
    assert isinstance(tasks, dict)
    return {task: handlers[f"functions.tasks.{task}.handler"] for task in tasks}


def test_what_is_deployed_is_the_file_byte_for_byte(template: Template) -> None:
    """It is the file that runs in tests and on the local stack."""
    (machine,) = (each for each in template.resources.values() if each["Type"] == "AWS::StepFunctions::StateMachine")
    assert ASL.read_text() == machine["Properties"]["DefinitionString"]


def test_each_state_calls_its_lambda(template: Template) -> None:
    """Every name in the file is filled in, with the Lambda of that state."""
    names = {f"{task.capitalize()}Function": arn for task, arn in arns(template, STATES).items()}
    assert names == template.only("AWS::StepFunctions::StateMachine")["DefinitionSubstitutions"]
    assert set(names) == set(re.findall(r"\$\{(\w+)\}", ASL.read_text()))


def test_each_state_of_the_file_that_is_a_task_has_its_module() -> None:
    """And no module is without a state."""
    states = json.loads(ASL.read_bytes())["States"]
    assert set(STATES) == {name.lower() for name, state in states.items() if state["Type"] == "Task"}


def test_whatever_is_unavailable_is_waited_for() -> None:
    """Step Functions knows an error by the name of its class alone: each kind of Unavailable has to be named, wherever one is."""
    assert [Busy] == [kind for kind in Unavailable.__subclasses__() if kind.__module__.startswith("shared.")]
    names = {"Unavailable", "Busy"}
    states = json.loads(ASL.read_bytes())["States"].values()
    rules = [set(rule["ErrorEquals"]) for state in states for rule in state.get("Retry", ())]
    assert [] == [rule for rule in rules if names & rule and not names <= rule]


def test_the_machine_may_invoke_exactly_its_lambdas(template: Template) -> None:
    """Not those that EventBridge calls, nor any other of the account."""
    role = template.only("AWS::StepFunctions::StateMachine")["RoleArn"]
    invoked = [
        arn
        for statement in template.statements(role)
        if "lambda:InvokeFunction" in statement["Action"]
        for arn in statement["Resource"]
    ]
    assert sorted(arns(template, STATES).values()) == sorted(invoked)


def test_the_machine_logs_errors_and_nothing_of_an_execution_s_data(template: Template) -> None:
    """Its executions are long: a Standard one, traced."""
    properties = template.only("AWS::StepFunctions::StateMachine")
    logging = properties["LoggingConfiguration"]
    assert ("ERROR", False) == (logging["Level"], logging["IncludeExecutionData"])
    assert ("STANDARD", {"Enabled": True}) == (properties["StateMachineType"], properties["TracingConfiguration"])
    assert "slackwater" == properties["StateMachineName"]


def test_events_reach_the_lambda_that_acts_on_them(template: Template) -> None:
    """The sweep at intervals and at once when an execution did not end well; and the end of a worker's job."""
    rules = {
        (rule.get("ScheduleExpression"), json.dumps(rule.get("EventPattern"), sort_keys=True)): [
            target["Arn"] for target in rule["Targets"]
        ]
        for rule in template.of_type("AWS::Events::Rule").values()
    }
    reaction = arns(template, REACTIONS)
    failed = {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {"stateMachineArn": [MACHINE], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
    }
    ended = {
        "source": ["aws.batch"],
        "detail-type": ["Batch Job State Change"],
        "detail": {"jobQueue": [QUEUE], "status": ["SUCCEEDED", "FAILED"]},
    }
    assert {
        ("rate(5 minutes)", "null"): [reaction["sweep"]],
        (None, json.dumps(failed, sort_keys=True)): [reaction["sweep"]],
        (None, json.dumps(ended, sort_keys=True)): [reaction["job_ended"]],
    } == rules


def test_an_event_that_cannot_be_delivered_is_kept(template: Template) -> None:
    """Each rule has the queue behind its target, encrypted."""
    ((name, queue),) = template.of_type("AWS::SQS::Queue").items()
    kept = {
        target["DeadLetterConfig"]["Arn"]
        for rule in template.of_type("AWS::Events::Rule").values()
        for target in rule["Targets"]
    }
    assert ({f"{name}.Arn"}, True) == (kept, queue["SqsManagedSseEnabled"])
