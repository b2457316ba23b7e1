"""The lifecycle: the state machine as the ASL file says it, a Lambda a state, and what is called when an execution or a job ends.

The text of `lifecycle.asl.json` stands in the template as it is, so that what is deployed is what runs in tests; `${ValidateFunction}` and the like are
filled in by CloudFormation.
"""

from pathlib import Path

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.access import REACTIONS, SCANNING, STATES, Access
from infra.findings import acknowledge, acknowledge_pattern
from infra.function import MODELS_FILE, Shared, Size, function
from infra.logs import log_group
from shared.settings import TaskSettings

ASL = Path(__file__).parent / "lifecycle.asl.json"

SHORT = Size(seconds=60, memory=512)
LONG = Size(seconds=900, memory=1769)
SWEEP_MINUTES = 5
SIZES = {
    "scan": LONG,
    "validate": LONG,
    "plan": LONG,
    "drain": LONG,
    "close": LONG,
    "fail": LONG,
    "finalize": LONG,
    "notify": LONG,
    "sweep": Size(seconds=60 * SWEEP_MINUTES, memory=512),
}
"""What reads or writes whole files, what writes all shards of a batch, and what goes over all batches; everything else is a few calls."""

UNDELIVERED_DAYS = 14


class Lifecycle(Construct):
    """The state machine with its Lambdas, and the reactions to events."""

    def __init__(self, scope: Construct, construct_id: str, shared: Shared, *, region: str, max_workers: int) -> None:
        super().__init__(scope, construct_id)
        self._shared = shared
        self._settings = TaskSettings(
            bucket=shared.storage.bucket.bucket_name,
            table_prefix=shared.names.prefix,
            models_file=MODELS_FILE,
            region=region,
            state_machine_arn=shared.names.machine_arn,
            job_queue=shared.names.queue_arn,
            job_definition=shared.names.prefix,
            scan_function=shared.names.scan_function,
            max_workers=max_workers,
        )
        self._machine({state: self._task(state, access) for state, access in STATES.items()})
        self._reactions()

    def _task(
        self, task: str, access: Access, dead_letters: sqs.IQueue | None = None, name: str | None = None
    ) -> lambda_.Function:
        return function(
            self,
            _camel(task),
            self._shared,
            handler=f"functions.tasks.{task}.handler",
            size=SIZES.get(task, SHORT),
            access=access,
            environment=self._settings.to_env(),
            dead_letters=dead_letters,
            name=name,
        )

    def _machine(self, tasks: dict[str, lambda_.Function]) -> None:
        names = self._shared.names
        role = iam.Role(self, "MachineRole", assumed_by=iam.ServicePrincipal("states.amazonaws.com"))
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[task.function_arn for task in tasks.values()]
            )
        )
        logs = log_group(
            self, "MachineLogs", self._shared.storage.key, name=f"/aws/vendedlogs/{names.prefix}/lifecycle"
        )
        machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=names.prefix,
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(ASL.read_text()),
            definition_substitutions={f"{_camel(state)}Function": task.function_arn for state, task in tasks.items()},
            role=role,
            logs=sfn.LogOptions(destination=logs, level=sfn.LogLevel.ERROR, include_execution_data=False),
            tracing_enabled=True,
        )
        only_errors = (
            "Errors alone are logged: every event of every execution is in its own history, and batches are many."
        )
        acknowledge(machine, "AwsSolutions-SF1", only_errors)
        no_resource = (
            "Step Functions sets up the delivery of its log, and hands traces to X-Ray, under no resource but `*`."
        )
        acknowledge_pattern(role, "*", no_resource)

    def _reactions(self) -> None:
        names = self._shared.names
        undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(UNDELIVERED_DAYS),
        )
        tasks = {task: self._task(task, access, undelivered) for task, access in REACTIONS.items()}
        self._task("scan", SCANNING, undelivered, names.scan_function)
        sweep, job_ended = (
            targets.LambdaFunction(tasks[task], dead_letter_queue=undelivered) for task in ("sweep", "job_ended")
        )
        events.Rule(
            self,
            "Regularly",
            schedule=events.Schedule.rate(Duration.minutes(SWEEP_MINUTES)),
            targets=[sweep],
        )
        events.Rule(
            self,
            "WhenExecutionFails",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={"stateMachineArn": [names.machine_arn], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
            ),
            targets=[sweep],
        )
        events.Rule(
            self,
            "WhenJobEnds",
            event_pattern=events.EventPattern(
                source=["aws.batch"],
                detail_type=["Batch Job State Change"],
                detail={"jobQueue": [names.queue_arn], "status": ["SUCCEEDED", "FAILED"]},
            ),
            targets=[job_ended],
        )


def _camel(task: str) -> str:
    return "".join(part.capitalize() for part in task.split("_"))
