"""What AWS would say of a call: the IAM actions and resources of each operation that the code uses, and whether a role's policies allow them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tests.infra.template import ACCOUNT, REGION

Params = Mapping[str, Any]


class Need(NamedTuple):
    """An action on a resource that a call takes."""

    action: str
    resource: str


def _table(params: Params) -> str:
    name = params["TableName"]
    return name if name.startswith("arn:") else f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def _query(params: Params) -> Iterator[Need]:
    index = f"/index/{params['IndexName']}" if "IndexName" in params else ""
    yield Need("dynamodb:Query", _table(params) + index)


def _transaction(params: Params) -> Iterator[Need]:
    for write in params["TransactItems"]:
        for kind, request in write.items():
            action = "ConditionCheckItem" if kind == "ConditionCheck" else f"{kind}Item"
            yield Need(f"dynamodb:{action}", _table(request))


def _object(params: Params) -> str:
    return f"arn:aws:s3:::{params['Bucket']}/{params['Key']}"


def _copied_part(params: Params) -> Iterator[Need]:
    yield Need("s3:PutObject", _object(params))
    yield Need("s3:GetObject", _object(params["CopySource"]))


def _deleted(params: Params) -> Iterator[Need]:
    for each in params["Delete"]["Objects"]:
        yield Need("s3:DeleteObject", f"arn:aws:s3:::{params['Bucket']}/{each['Key']}")


def _submitted(params: Params) -> Iterator[Need]:
    yield Need("batch:SubmitJob", params["jobQueue"])
    definition = params["jobDefinition"]
    yield Need("batch:SubmitJob", f"arn:aws:batch:{REGION}:{ACCOUNT}:job-definition/{definition}")


def _item(action: str) -> Callable[[Params], Iterator[Need]]:
    return lambda params: iter([Need(f"dynamodb:{action}", _table(params))])


def _on_object(action: str) -> Callable[[Params], Iterator[Need]]:
    return lambda params: iter([Need(f"s3:{action}", _object(params))])


def _fixed(action: str, field: str) -> Callable[[Params], Iterator[Need]]:
    return lambda params: iter([Need(action, params[field])])


MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:slackwater"

NEEDS: dict[str, Callable[[Params], Iterator[Need]]] = {
    "batch.DescribeJobs": lambda _: iter([Need("batch:DescribeJobs", "*")]),
    "batch.SubmitJob": _submitted,
    "dynamodb.DeleteItem": _item("DeleteItem"),
    "dynamodb.GetItem": _item("GetItem"),
    "dynamodb.PutItem": _item("PutItem"),
    "dynamodb.Query": _query,
    "dynamodb.TransactWriteItems": _transaction,
    "dynamodb.UpdateItem": _item("UpdateItem"),
    "lambda.Invoke": lambda params: iter(
        [Need("lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{params['FunctionName']}")]
    ),
    "s3.AbortMultipartUpload": _on_object("AbortMultipartUpload"),
    "s3.CompleteMultipartUpload": _on_object("PutObject"),
    "s3.CreateMultipartUpload": _on_object("PutObject"),
    "s3.DeleteObjects": _deleted,
    "s3.GetObject": _on_object("GetObject"),
    "s3.HeadObject": _on_object("GetObject"),
    "s3.ListObjectsV2": lambda params: iter([Need("s3:ListBucket", f"arn:aws:s3:::{params['Bucket']}")]),
    "s3.ListParts": _on_object("ListMultipartUploadParts"),
    "s3.PutObject": _on_object("PutObject"),
    "s3.UploadPart": _on_object("PutObject"),
    "s3.UploadPartCopy": _copied_part,
    "sfn.DescribeExecution": _fixed("states:DescribeExecution", "executionArn"),
    "sfn.SendTaskSuccess": lambda _: iter([Need("states:SendTaskSuccess", MACHINE)]),
    "sfn.StartExecution": _fixed("states:StartExecution", "stateMachineArn"),
}
"""By botocore's name of the operation. What is not here must be added before it may be called."""


def allows(statements: Sequence[Mapping[str, Any]], need: Need) -> bool:
    """Whether a role with these statements may do it. Conditions are taken as met."""
    return any(
        statement["Effect"] == "Allow"
        and need.action in statement["Action"]
        and any(fnmatchcase(need.resource, pattern) for pattern in statement["Resource"])
        for statement in statements
    )
