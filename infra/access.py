"""What each entry point may touch: a line each here, and nothing of it anywhere else.

The names of object patterns come from `shared.core.paths`, those of tables from `shared.adapters.dynamodb.tables`. Which organization an object or item
belongs to is not IAM's to tell: one Lambda serves all of them, and the code puts the organization into every key.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from aws_cdk import Stack
from aws_cdk import aws_iam as iam

from infra.findings import acknowledge_pattern
from infra.names import Names
from infra.storage import Storage
from shared.adapters.dynamodb.tables import ACCOUNTS, BATCHES, DUE, FILES, MODELS, OPEN, QUEUE, SHARDS, Index, Table
from shared.core import paths
from shared.core.ids import BatchRef

CONTENT = paths.file("*", "*")
SCAN = paths.scan("*", "*")
WORK = paths.batch(BatchRef("*", "*", "*")) + "*"
"""Input and result files; scans; the plans, chunks and line errors of batches."""

MODEL = paths.model_file(f"{paths.MODELS}*", "*")
"""Adapters of models, which the deployment keeps in the bucket."""

PARTS = paths.upload_part("*", "*", "*")
PIECES = paths.pieces("*", "*")
LEGS = paths.leg("*", "*", 0).removesuffix("000000") + "*"
"""What is kept while a large file comes in: its parts, the list of what it is put together from, the legs of its scan."""

PAGES = paths.page(BatchRef("*", "*", "*"), "*")
"""Pages of results that are too large for an answer."""


class Access(NamedTuple):
    """What an entry point may touch.

    Attributes:
        reads: The tables that it reads.
        writes: The tables that it reads and writes.
        erases: The tables among them that it takes items out of.
        queries: The indexes that it looks into.
        gets: The objects that it reads, as patterns of keys.
        puts: The objects that it writes; where it does so in parts it also reads them, to see whether they are whole.
        deletes: The objects that it removes, and the uploads that it gives up.
        starts: Whether it starts executions.
        resumes: Whether it wakes a state that waits.
        hires: Whether it asks for workers.
        scans: Whether it asks for the scan of a large file.
        takes: Whether it reads from other buckets, where the deployment opens some.
        delivers: Whether it writes to them.

    """

    reads: tuple[Table, ...] = ()
    writes: tuple[Table, ...] = ()
    erases: tuple[Table, ...] = ()
    queries: tuple[Index, ...] = ()
    gets: tuple[str, ...] = ()
    puts: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()
    starts: bool = False
    resumes: bool = False
    hires: bool = False
    scans: bool = False
    takes: bool = False
    delivers: bool = False


API = Access(
    reads=(ACCOUNTS, SHARDS),
    writes=(FILES, BATCHES),
    erases=(FILES,),
    gets=(CONTENT, SCAN, WORK, PARTS),
    puts=(CONTENT, SCAN, PARTS, PIECES, PAGES),
    deletes=(CONTENT, SCAN, WORK, PARTS, PIECES, LEGS),
    starts=True,
    resumes=True,
    scans=True,
    takes=True,
)

SCANNING = Access(
    writes=(FILES,),
    gets=(CONTENT, SCAN, PARTS, PIECES, LEGS),
    puts=(CONTENT, SCAN, LEGS),
    deletes=(CONTENT, SCAN, PARTS, PIECES, LEGS),
    scans=True,
    takes=True,
)
"""What it takes to put a large file together and to scan it."""

STATES: Mapping[str, Access] = {
    "validate": SCANNING._replace(
        writes=(BATCHES, FILES), gets=(*SCANNING.gets, WORK), puts=(*SCANNING.puts, WORK), scans=False
    ),
    "admit": Access(writes=(BATCHES,)),
    "plan": Access(writes=(BATCHES, SHARDS), gets=(SCAN, CONTENT), puts=(WORK,), deletes=(WORK,)),
    "run": Access(reads=(SHARDS,), writes=(BATCHES, MODELS), queries=(QUEUE,), resumes=True, hires=True),
    "reconcile": Access(writes=(BATCHES, SHARDS, MODELS), queries=(QUEUE,), starts=True, hires=True),
    "drain": Access(writes=(BATCHES, SHARDS)),
    "close": Access(reads=(BATCHES,), writes=(SHARDS,)),
    "finalize": Access(
        reads=(SHARDS,), writes=(BATCHES, FILES), gets=(WORK, CONTENT), puts=(CONTENT,), deletes=(WORK,)
    ),
    "notify": Access(writes=(BATCHES,), gets=(CONTENT,), delivers=True),
    "fail": Access(writes=(BATCHES, FILES, SHARDS), deletes=(WORK,)),
}
"""The states of the machine, by the name of their module."""

REACTIONS: Mapping[str, Access] = {
    "sweep": Access(
        writes=(BATCHES, FILES),
        erases=(FILES,),
        queries=(OPEN, DUE),
        deletes=(CONTENT, SCAN, WORK, PARTS, PIECES, LEGS),
        starts=True,
        scans=True,
    ),
    "job_ended": Access(writes=(SHARDS, MODELS), queries=(QUEUE,), hires=True),
}
"""The Lambdas that EventBridge calls, by the name of their module."""

WORKER = Access(
    reads=(BATCHES,), writes=(SHARDS, MODELS), queries=(QUEUE,), gets=(CONTENT, WORK, MODEL), puts=(WORK,), resumes=True
)

READ_ITEMS = ("dynamodb:GetItem", "dynamodb:Query")
WRITE_ITEMS = ("dynamodb:PutItem", "dynamodb:UpdateItem")
ERASE_ITEMS = ("dynamodb:DeleteItem",)
QUERY = ("dynamodb:Query",)
GET = ("s3:GetObject",)
PUT = ("s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
DELETE = ("s3:DeleteObject", "s3:AbortMultipartUpload")
DECRYPT = ("kms:Decrypt", "kms:DescribeKey")
ENCRYPT = ("kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")


MANY_ORGANIZATIONS = "One Lambda, or worker, serves all organizations: the code puts theirs into every key, and IAM says which kind of object."
ANY_REVISION = "A job is submitted by the name of its definition, whichever revision of it is the latest."
ELSEWHERE = "Files come from below these places and results go there, under names that callers choose; the deployment lists the places."
NO_RESOURCE = "AWS Batch describes jobs under no resource but `*`; all it tells of a job is what its state is."


class _Grant(NamedTuple):
    """What a role may do to resources, and why these are patterns where they are."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    why: str = ""


def grant(role: iam.Role, access: Access, storage: Storage, names: Names) -> None:
    """Allow the role what the access says."""
    for actions, resources, why in _grants(access, storage, names):
        role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources)))
        for pattern in resources:
            if "*" in pattern:
                acknowledge_pattern(role, pattern, why)
    role.add_to_policy(_key_use(access, storage))


def _grants(access: Access, storage: Storage, names: Names) -> Iterator[_Grant]:
    for tables, on_items in (
        (access.reads, READ_ITEMS),
        (access.writes, (*READ_ITEMS, *WRITE_ITEMS)),
        (access.erases, ERASE_ITEMS),
    ):
        yield from (_Grant(on_items, (storage.tables[table].table_arn,)) for table in tables)
    for table, made in storage.tables.items():
        wanted = (index for index in table.indexes if index in access.queries)
        yield from (_Grant(QUERY, (f"{made.table_arn}/index/{index.name}",)) for index in wanted)
    bucket = storage.bucket
    if access.gets or access.deletes:
        # Without it S3 says 403 of a missing object, where the code must see that it is missing.
        yield _Grant(("s3:ListBucket",), (bucket.bucket_arn,))
    for on_objects, patterns in ((GET, access.gets), (PUT, access.puts), (DELETE, access.deletes)):
        yield from (_Grant(on_objects, (bucket.arn_for_objects(pattern),), MANY_ORGANIZATIONS) for pattern in patterns)
    if access.starts:
        yield _Grant(("states:StartExecution",), (names.machine_arn,))
    if access.resumes:
        yield _Grant(("states:SendTaskSuccess",), (names.machine_arn,))
    yield from _elsewhere(access, names)
    if access.scans:
        yield _Grant(("lambda:InvokeFunction",), (names.scan_function_arn,))
    if access.hires:
        yield _Grant(("batch:SubmitJob",), (names.queue_arn,))
        yield _Grant(("batch:SubmitJob",), names.definition_arns, ANY_REVISION)
        yield _Grant(("batch:DescribeJobs",), ("*",), NO_RESOURCE)


def _elsewhere(access: Access, names: Names) -> Iterator[_Grant]:
    for wanted, actions in ((access.takes, GET), (access.delivers, PUT)):
        if wanted and names.elsewhere_arns:
            yield _Grant(actions, names.elsewhere_arns, ELSEWHERE)


def _key_use(access: Access, storage: Storage) -> iam.PolicyStatement:
    """Allow the use of the key, through S3 and DynamoDB alone."""
    actions = (*DECRYPT, *ENCRYPT) if access.writes or access.puts else DECRYPT
    services = [f"{service}.{Stack.of(storage).region}.amazonaws.com" for service in ("s3", "dynamodb")]
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[storage.key.key_arn],
        conditions={"StringEquals": {"kms:ViaService": services}},
    )
