"""What the events of the API expect to be deployed: tables, bucket, state machine, a key, and something of everything."""

from hashlib import sha256
from pathlib import Path
from typing import Final

import boto3
from msgspec.structs import replace

from functions.api.handler import INLINE_BYTES
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.keys import DynamoKeys
from shared.adapters.dynamodb.tables import TABLES, creation
from shared.adapters.dynamodb.uploads import DynamoUploads
from shared.core import paths, result_line
from shared.core.records import ApiKey, Batch, Counts, File, Status, Upload
from shared.core.request_line import Limits
from shared.core.scan import Scanner
from shared.settings import ApiSettings
from tests.api.world import lines

ROOT = Path(__file__).parents[2]
REGION: Final = "eu-west-1"
FILE = "file-01KAP9JW00000000000000000F"
SPARE = "file-01KAP9JW00000000000000000G"
LARGE = "file-01KAP9JW00000000000000000H"
UPLOAD = "upload_01KAP9JW00000000000000000T"
PART = "part_01KAP9JW000000000000000001"
BATCH = "batch_01KAP9JW00000000000000000B"
DONE = "batch_01KAP9JW00000000000000000D"
ARN = f"arn:aws:states:{REGION}:123456789012:stateMachine:lifecycle"
PASS = '{"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": true}}}'


def deploy(settings: ApiSettings) -> None:
    """Make what the events expect."""
    session = boto3.Session("testing", "testing", region_name=REGION)
    s3, client = session.client("s3"), session.client("dynamodb")
    s3.create_bucket(Bucket=settings.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    role = "arn:aws:iam::123456789012:role/lifecycle"
    session.client("stepfunctions").create_state_machine(name="lifecycle", definition=PASS, roleArn=role)
    for table in TABLES:
        client.create_table(**creation(table, settings.table_prefix))
    dynamo = Dynamo(client, sleep=lambda _: None, random=lambda: 0.0)
    digest = sha256(b"sk-local").hexdigest()
    DynamoKeys(dynamo, settings.table_prefix).put(ApiKey(org="org-local", hash=digest, scopes=("batch:write",)))
    for file_id in (FILE, SPARE):
        s3.put_object(Bucket=settings.bucket, Key=paths.file("org-local", file_id), Body=lines(2))
        file = File(
            id=file_id,
            org="org-local",
            contract="openai",
            bytes=len(lines(2)),
            filename="requests.jsonl",
            purpose="batch",
            created_at=1_700_000_000,
            requests=2,
        )
        DynamoFiles(dynamo, settings.table_prefix).put(file)
    s3.put_object(Bucket=settings.bucket, Key=paths.file("org-local", LARGE), Body=b"x" * (INLINE_BYTES + 1))
    DynamoFiles(dynamo, settings.table_prefix).put(replace(file, id=LARGE, bytes=INLINE_BYTES + 1))
    upload = Upload(
        id=UPLOAD,
        org="org-local",
        contract="openai",
        bytes=len(lines(2)),
        filename="requests.jsonl",
        purpose="batch",
        created_at=1_700_000_000,
        expires_at=4_000_000_000,
    )
    DynamoUploads(dynamo, settings.table_prefix).put(upload)
    s3.put_object(Bucket=settings.bucket, Key=paths.upload_part("org-local", UPLOAD, PART), Body=lines(2))
    scanner = Scanner(Limits())
    index = b"".join([*scanner.feed(lines(2)), *scanner.finish()])
    s3.put_object(Bucket=settings.bucket, Key=paths.scan("org-local", FILE), Body=index)
    batches = DynamoBatches(dynamo, settings.table_prefix)
    batch = Batch(
        id=BATCH,
        org="org-local",
        contract="openai",
        endpoint="/v1/chat/completions",
        input_file_id=FILE,
        completion_window="24h",
        created_at=1_700_000_000,
        expires_at=1_700_086_400,
        status=Status.VALIDATING,
    )
    batches.create(batch, None)
    done = replace(batch, id=DONE)
    batches.create(done, None)
    rows = {
        "file-output": result_line.answered(DONE, 1, "0", {}),
        "file-error": result_line.given_up(DONE, 2, "1", "server_error", "The engine died."),
    }
    files = [
        File(
            id=name,
            org="org-local",
            contract="openai",
            bytes=len(row),
            filename=f"{name}.jsonl",
            purpose="batch_output",
            created_at=1_700_000_000,
        )
        for name, row in rows.items()
    ]
    for name, row in rows.items():
        s3.put_object(Bucket=settings.bucket, Key=paths.file("org-local", name), Body=row)
    ended = {"status": Status.COMPLETED, "output_file_id": "file-output", "error_file_id": "file-error"}
    batches.finish(
        done.ref, lambda batch: replace(batch, counts=Counts(total=2, completed=1, failed=1), **ended), files
    )
