"""One Lambda: its role, its log group, and the settings it reads.

None has reserved concurrency: it is taken from what the account's other functions share, and nothing here needs a limit of its own, as the fleet and the
tables scale with what is asked of them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.access import Access, grant
from infra.findings import acknowledge, acknowledge_pattern
from infra.logs import log_group
from infra.names import Names
from infra.storage import Storage

ARCHITECTURE = lambda_.Architecture.ARM_64
RUNTIME = lambda_.Runtime.PYTHON_3_13
"""`infra.bundle` fetches wheels for these two."""

MODELS_FILE = "/var/task/models.json"

LOCKED_FOR = "AWS supports Python 3.13 into 2029, and the dependencies are locked for it; both move together."
PUBLISHED = "Whoever wants a snapshot calls an alias of the published version."
TRACES = "X-Ray takes traces under no resource but `*`."


class Size(NamedTuple):
    """How long a Lambda may run, in seconds, and its memory in MiB. 1,769 MiB is one whole CPU."""

    seconds: int
    memory: int


class Shared(NamedTuple):
    """What all Lambdas of the stack have in common."""

    code: lambda_.Code
    storage: Storage
    names: Names


def function(
    scope: Construct,
    construct_id: str,
    shared: Shared,
    *,
    handler: str,
    size: Size,
    access: Access,
    environment: Mapping[str, str],
    dead_letters: sqs.IQueue | None = None,
    snap_start: bool = False,
    name: str | None = None,
) -> lambda_.Function:
    """Make a Lambda that may touch what `access` says. With `dead_letters`, an event that it failed on three times goes there.

    `name` is for one that others call by a name that is written down; else CloudFormation names it.
    """
    logs = log_group(scope, f"{construct_id}Logs", shared.storage.key)
    role = iam.Role(scope, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    logs.grant_write(role)
    grant(role, access, shared.storage, shared.names)
    acknowledge_pattern(role, "*", TRACES)
    made = lambda_.Function(
        scope,
        construct_id,
        function_name=name,
        runtime=RUNTIME,
        architecture=ARCHITECTURE,
        code=shared.code,
        handler=handler,
        role=role,
        timeout=Duration.seconds(size.seconds),
        memory_size=size.memory,
        environment=dict(environment),
        log_group=logs,
        tracing=lambda_.Tracing.ACTIVE,
        snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
        dead_letter_queue=dead_letters,
    )
    acknowledge(made, "AwsSolutions-L1", LOCKED_FOR)
    acknowledge(made, "@aws-cdk/aws-lambda:snapStartRequirePublish", PUBLISHED)
    return made
