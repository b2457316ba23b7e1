"""What cdk-nag would report and we mean: each finding is acknowledged where it is caused, with its reason.

cdk-nag names the tokens in a pattern by what they refer to, `<AWS::Region>` or `<Bucket.Arn>`; here is the same once more, as 3.0 has no other way.
"""

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(scope: IConstruct, finding: str, reason: str) -> None:
    """Say why a finding of this construct, `AwsSolutions-X1` or `AwsSolutions-X1[detail]`, is as it should be."""
    Validations.of(scope).acknowledge(Acknowledgment(id=finding, reason=reason))


def acknowledge_pattern(scope: IConstruct, arn: str, reason: str) -> None:
    """Say why a role's policy names this pattern, where one resource would not do."""
    acknowledge(scope, f"AwsSolutions-IAM5[Resource::{_written(Stack.of(scope).resolve(arn))}]", reason)


def _written(resolved: Any) -> str:  # noqa: ANN401 - whatever CloudFormation's functions are in JSON
    match resolved:
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(map(_written, parts))
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case _:
            return str(resolved)
