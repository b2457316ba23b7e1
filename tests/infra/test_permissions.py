"""What each role may do: what its work takes, and no more."""

import pytest

from infra.access import REACTIONS, STATES
from tests.infra.template import BUCKET, Template

WITHOUT_RESOURCES = {
    "batch:DescribeJobs",
    "ecr:GetAuthorizationToken",
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
}
"""The actions that AWS allows on `*` or not at all."""

READING = ("Get", "List", "Describe", "Query", "Decrypt")
TASKS = [*STATES, *REACTIONS, "scan"]


def test_nothing_is_allowed_on_everything(template: Template) -> None:
    """Except what AWS knows no resources for."""
    everywhere = {
        action
        for role in template.of_type("AWS::IAM::Role")
        for statement in template.statements(role)
        if "*" in statement["Resource"]
        for action in statement["Action"]
    }
    assert set() == everywhere - WITHOUT_RESOURCES


def test_no_role_is_allowed_actions_by_a_pattern(template: Template) -> None:
    """Each action is named."""
    actions = {
        action
        for role in template.of_type("AWS::IAM::Role")
        for statement in template.statements(role)
        for action in statement["Action"]
    }
    assert set() == {action for action in actions if "*" in action}


def test_only_hosts_have_a_policy_of_aws_s_own(template: Template) -> None:
    """The one that ECS's agent needs."""
    roles = template.of_type("AWS::IAM::Role").values()
    owned = {policy for role in roles for policy in role.get("ManagedPolicyArns", [])}
    assert {"arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"} == owned


def test_every_lambda_has_a_role_of_its_own(template: Template) -> None:
    """What one may do another may not."""
    roles = [properties["Role"] for properties in template.of_type("AWS::Lambda::Function").values()]
    assert len(roles) == len(set(roles))


def test_notify_writes_what_became_of_a_copy_and_no_object(template: Template) -> None:
    """On the batch; besides that, its own log and trace."""
    role = template.function("functions.tasks.notify")["Role"]
    actions = {action for statement in template.statements(role) for action in statement["Action"]}
    writing = {action for action in actions if not action.partition(":")[2].startswith(READING)}
    items = {action for action in writing if action.startswith(("dynamodb:", "kms:"))}
    own = {"logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTelemetryRecords", "xray:PutTraceSegments"}
    assert own == writing - items
    assert {"dynamodb:PutItem", "dynamodb:UpdateItem"} == {item for item in items if item.startswith("dynamodb:")}


@pytest.mark.parametrize("task", TASKS)
def test_no_task_reads_accounts(template: Template, task: str) -> None:
    """Keys are the API's alone."""
    role = template.function(f"functions.tasks.{task}")["Role"]
    resources = [resource for statement in template.statements(role) for resource in statement["Resource"]]
    assert [] == [resource for resource in resources if "accounts" in resource]


def test_the_key_is_used_through_the_stores_alone(template: Template) -> None:
    """A role cannot decrypt what it has not read through S3 or DynamoDB."""
    via = {"kms:ViaService": ["s3.eu-west-1.amazonaws.com", "dynamodb.eu-west-1.amazonaws.com"]}
    conditions = [
        statement["Condition"]
        for role in template.of_type("AWS::IAM::Role")
        for statement in template.statements(role)
        if any(action.startswith("kms:") for action in statement["Action"])
    ]
    assert [{"StringEquals": via}] * len(conditions) == conditions


def test_a_worker_cannot_read_other_organizations_keys_nor_write_files(template: Template) -> None:
    """It reads inputs and plans and writes chunks; results are Finalize's."""
    role = template.only("AWS::Batch::JobDefinition")["ContainerProperties"]["JobRoleArn"]
    written = {
        resource
        for statement in template.statements(role)
        if "s3:PutObject" in statement["Action"]
        for resource in statement["Resource"]
    }
    assert {f"arn:aws:s3:::{BUCKET}/orgs/*/batches/*/*"} == written


def test_who_only_reads_a_table_cannot_write_it(template: Template) -> None:
    """Close looks a batch up and fences its shards: it can change these and nothing of that."""
    role = template.function("functions.tasks.close")["Role"]
    written = {
        resource.rpartition("/")[2]
        for statement in template.statements(role)
        for action in statement["Action"]
        if action in {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
        for resource in statement["Resource"]
    }
    assert {"slackwater-shards"} == written
