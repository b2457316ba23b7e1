"""The service on moto as the events expect it: their files, their batches, and a worker that is played by hand.

Events name what they are about, so all ids are fixed. A batch comes to where an event finds it by the events before it.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import boto3
from moto.batch.models import batch_backends

from gpu_job.chunks import Committer
from gpu_job.row import Finished
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.tables import TABLES, creation
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.adapters.ids import new_id, now
from shared.adapters.s3 import S3Blobs
from shared.core import paths
from shared.core.ids import BatchRef, Space
from shared.core.records import Batch, Counts, File, Pending, Shard, Status, Workers
from shared.services.roster import Roster
from shared.settings import TaskSettings

if TYPE_CHECKING:
    from mypy_boto3_batch import BatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_stepfunctions import SFNClient

ROOT = Path(__file__).parents[2]
ACCOUNT = "123456789012"
REGION: Final = "eu-west-1"
NAME: Final = "slackwater"
SPACE = Space("org-local", "openai")
REVISION = "echo@1"
WORKER = "worker_01KAP9JW00000000000000000W"

PLAIN, BAD, BUSY = (BatchRef(*SPACE, f"batch_01KAP9JW00000000000000000{end}") for end in "BCD")
"""Batches of a good file, of one whose lines name a model that nobody has, and of one that somebody scans just now."""
LOOSE = "file-01KAP9JW00000000000000000H"
"""A file without a batch that is still to be scanned."""
LINES = 3
WAIT = """{"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 900, "End": true}}}"""

SETTINGS = TaskSettings(
    bucket=NAME,
    table_prefix=NAME,
    models_file=str(ROOT / "local" / "models.json"),
    region=REGION,
    state_machine_arn=f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{NAME}",
    job_queue=NAME,
    job_definition=NAME,
    scan_function=f"{NAME}-scan",
)


def event(name: str) -> dict[str, Any]:
    """Read an event."""
    data: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_bytes())
    return data


class Aws(NamedTuple):
    """Clients of moto."""

    s3: "S3Client"
    dynamodb: "DynamoDBClient"
    iam: Any
    stepfunctions: "SFNClient"
    batch: "BatchClient"


def connected() -> Aws:
    """Make the clients."""
    session = boto3.Session("testing", "testing", region_name=REGION)
    return Aws(
        session.client("s3"),
        session.client("dynamodb"),
        session.client("iam"),
        session.client("stepfunctions"),
        session.client("batch"),
    )


class Deployment:
    """The service, deployed to an empty moto."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._deploy()
        dynamo = Dynamo(aws.dynamodb, sleep=lambda _: None, random=lambda: 0.0)
        self._blobs = S3Blobs(aws.s3, NAME)
        self._log = DynamoChunkLog(dynamo, NAME)
        self.files = DynamoFiles(dynamo, NAME)
        self.batches = DynamoBatches(dynamo, NAME)
        self.shards = DynamoShards(dynamo, NAME)
        self._workers = DynamoWorkers(dynamo, NAME)
        self._fill()

    def run(self, *names: str) -> Any:
        """Let events arrive, one after the other; give the last one's answer."""
        answer = None
        for name in names:
            answer = import_module(f"functions.tasks.{name.split('.')[0]}").handler(event(name))
            for job in batch_backends[ACCOUNT][REGION]._jobs.values():
                job.status = "RUNNING"  # moto's jobs end before they begin
        return answer

    def batch(self, ref: BatchRef = PLAIN) -> Batch:
        """Give a batch's record."""
        return self.batches.get(ref)

    def executions(self) -> set[str]:
        """Give the names of the executions that run."""
        found = self._aws.stepfunctions.list_executions(stateMachineArn=SETTINGS.state_machine_arn)["executions"]
        return {execution["name"] for execution in found if execution["status"] == "RUNNING"}

    def end_executions(self) -> None:
        """End all executions, whatever their batches are at."""
        for name in self.executions():
            arn = SETTINGS.state_machine_arn.replace("stateMachine", "execution")
            self._aws.stepfunctions.stop_execution(executionArn=f"{arn}:{name}")

    def jobs(self) -> set[str]:
        """Give the names of the jobs that run."""
        found = self._aws.batch.list_jobs(jobQueue=NAME, jobStatus="RUNNING")["jobSummaryList"]
        return {job["jobName"] for job in found}

    def workers(self) -> Workers:
        """Give the workers that are counted."""
        return self._workers.get(REVISION)

    def lease(self) -> Shard:
        """Let the worker come, and lease the one shard of the plain batch."""
        Roster(workers=self._workers, clock=now).enter(REVISION, WORKER, "a job")
        (shard,) = self.shards.of(PLAIN)
        return self.shards.lease(shard, WORKER, now() + 60)

    def answer(self) -> None:
        """Let the worker answer all of the plain batch."""
        rows = [Finished(position=position, ok=True, data=b"{}\n") for position in range(LINES)]
        Committer(blobs=self._blobs, log=self._log, new_id=new_id).commit(self.lease(), 0, rows)

    def rows(self, file_id: str | None) -> int:
        """Count the rows of a result file."""
        return 0 if file_id is None else self._blobs.get(paths.file(SPACE.org, file_id)).count(b"\n")

    def _deploy(self) -> None:
        s3, dynamodb, iam, stepfunctions, batch = self._aws
        s3.create_bucket(Bucket=NAME, CreateBucketConfiguration={"LocationConstraint": REGION})
        for table in TABLES:
            dynamodb.create_table(**creation(table, NAME))
        role = iam.create_role(RoleName="any", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        stepfunctions.create_state_machine(name=NAME, definition=WAIT, roleArn=role)
        place = batch.create_compute_environment(computeEnvironmentName=NAME, type="UNMANAGED", serviceRole=role)
        order: Any = [{"order": 1, "computeEnvironment": place["computeEnvironmentArn"]}]
        batch.create_job_queue(jobQueueName=NAME, state="ENABLED", priority=1, computeEnvironmentOrder=order)
        container: Any = {"image": "worker", "vcpus": 1, "memory": 128}
        definition = f"{NAME}-echo"
        batch.register_job_definition(jobDefinitionName=definition, type="container", containerProperties=container)

    def _fill(self) -> None:
        for ref, model, touched in ((PLAIN, "echo", 0), (BAD, "nobody", 0), (BUSY, "echo", int(now()))):
            file_id = f"file-{ref.id.removeprefix('batch_')}"
            self._put_file(file_id, model, touched)
            self.batches.create(_batch(ref, file_id), None)
        self._put_file(LOOSE, "echo", 0)

    def _put_file(self, file_id: str, model: str, touched: int) -> None:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
        line = {"method": "POST", "url": "/v1/chat/completions", "body": body}
        data = b"".join(json.dumps({"custom_id": f"row-{n}", **line}).encode() + b"\n" for n in range(LINES))
        self._blobs.put(paths.file(SPACE.org, file_id), data)
        self.files.put(
            File(
                id=file_id,
                org=SPACE.org,
                contract=SPACE.contract,
                bytes=len(data),
                filename="requests.jsonl",
                purpose="batch",
                created_at=int(now()),
                status="uploaded",
                pending=Pending(touched=touched),
            )
        )


def _batch(ref: BatchRef, file_id: str) -> Batch:
    at = int(now())
    return Batch(
        id=ref.id,
        org=ref.org,
        contract=ref.contract,
        endpoint="/v1/chat/completions",
        input_file_id=file_id,
        completion_window="24h",
        created_at=at,
        expires_at=at + 86400,
        status=Status.VALIDATING,
        counts=Counts(),
    )
