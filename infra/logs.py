"""The log groups: encrypted with the deployment's key, kept for a month. Prompts and answers are never in them."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct


def log_group(scope: Construct, construct_id: str, key: kms.IKey, *, name: str | None = None) -> logs.LogGroup:
    """Make a log group; it goes with the stack."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        encryption_key=key,
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=RemovalPolicy.DESTROY,
    )
