"""Where everything is kept: one key, one bucket, a table an aggregate. What they hold outlives the stack.

Prompts and answers are in the bucket only. Versioning is off: an object is written once and never overwritten, and a delete must delete, or prompts
that a caller removed would live on as old versions.
"""

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.findings import acknowledge
from shared.adapters.dynamodb.tables import PARTITION, SORT, TABLES, Index, Table
from shared.core.contract import DAY, LONGEST_LIFE

ABANDONED_DAYS = 7
"""Days after which the parts of an upload that nobody completed are removed."""
BACKSTOP_DAYS = 7
"""Days that an object may outlive its record: longer than any window, so that a batch at its deadline still finds its input."""


class Storage(Construct):
    """The key, the bucket and the tables.

    Attributes:
        key: Encrypts the bucket, the tables and the logs.
        bucket: Files, plans and chunks.
        tables: The tables of `shared.adapters.dynamodb.tables`.

    """

    def __init__(self, scope: Construct, construct_id: str, *, prefix: str) -> None:
        super().__init__(scope, construct_id)
        self.key = _key(self)
        self.bucket = _bucket(self, self.key)
        self.tables = {table: _table(self, table, prefix, self.key) for table in TABLES}


def _key(scope: Construct) -> kms.Key:
    key = kms.Key(scope, "Key", enable_key_rotation=True, removal_policy=RemovalPolicy.RETAIN)
    stack = Stack.of(scope)
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    logs = iam.ServicePrincipal(
        f"logs.{stack.region}.amazonaws.com",
        conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )
    key.grant_encrypt_decrypt(logs)
    return key


def _bucket(scope: Construct, key: kms.Key) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        "Bucket",
        encryption=s3.BucketEncryption.KMS,
        encryption_key=key,
        bucket_key_enabled=True,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="abandoned-uploads", abort_incomplete_multipart_upload_after=Duration.days(ABANDONED_DAYS)
            ),
            s3.LifecycleRule(id="backstop", expiration=Duration.days(LONGEST_LIFE // DAY + BACKSTOP_DAYS)),
        ],
        removal_policy=RemovalPolicy.RETAIN,
    )
    reason = (
        "Every object is written and read by the roles of this stack alone, and their calls are in CloudTrail's data events "
        "where the account records those; a log bucket would hold the same once more."
    )
    acknowledge(bucket, "AwsSolutions-S1", reason)
    return bucket


def _table(scope: Construct, table: Table, prefix: str, key: kms.Key) -> dynamodb.Table:
    made = dynamodb.Table(
        scope,
        table.name.capitalize(),
        table_name=table.named(prefix),
        partition_key=_string(PARTITION),
        sort_key=_string(SORT),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
        encryption_key=key,
        deletion_protection=True,
        removal_policy=RemovalPolicy.RETAIN,
    )
    for index in table.indexes:
        made.add_global_secondary_index(
            index_name=index.name,
            partition_key=_string(index.partition),
            sort_key=_string(index.sort),
            projection_type=_projection(index),
        )
    return made


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _projection(index: Index) -> dynamodb.ProjectionType:
    return dynamodb.ProjectionType[index.projection]
