"""The keys of the bucket. Every one begins with the organization, but for those of models; nothing else builds a key."""

from shared.core.ids import BatchRef

MODELS = "models/"
"""What the sources of models in the bucket begin with: `models/{repository}/{revision}`. The deployment puts them there, not its callers."""


def model_file(source: str, name: str) -> str:
    """Name a file of a model whose source is in the bucket."""
    return f"{source.rstrip('/')}/{name}"


def file(org: str, file_id: str) -> str:
    """Name the bytes of a file, input or result."""
    return f"orgs/{org}/files/{file_id}"


def scan(org: str, file_id: str) -> str:
    """Name the scan of an input file (`shared.core.scan`)."""
    return f"orgs/{org}/scans/{file_id}"


def legs(org: str, file_id: str) -> str:
    """Name the prefix of the legs of a scan that is not finished."""
    return f"orgs/{org}/legs/{file_id}/"


def leg(org: str, file_id: str, number: int) -> str:
    """Name the index of one leg of a scan (`shared.services.scans`)."""
    return f"{legs(org, file_id)}{number:06d}"


def pieces(org: str, file_id: str) -> str:
    """Name the list of the pieces that a file is to be put together from (`shared.core.assembly`)."""
    return f"orgs/{org}/pieces/{file_id}"


def upload(org: str, upload_id: str) -> str:
    """Name the prefix of the parts of an upload."""
    return f"orgs/{org}/uploads/{upload_id}/"


def upload_part(org: str, upload_id: str, part_id: str) -> str:
    """Name the bytes of one part of an upload."""
    return f"{upload(org, upload_id)}{part_id}"


def batch(ref: BatchRef) -> str:
    """Name the prefix of everything that a batch keeps while it lives."""
    return f"orgs/{ref.org}/batches/{ref.id}/"


def errors(ref: BatchRef) -> str:
    """All line errors of a batch that failed validation, in line order, as JSONL."""
    return f"{batch(ref)}errors"


def plan(ref: BatchRef, shard: int) -> str:
    """Name the plan of one shard (`shared.core.plan`)."""
    return f"{plans(ref)}{shard:06d}"


def plans(ref: BatchRef) -> str:
    """Name the prefix of the batch's plans."""
    return f"{batch(ref)}plan/"


def chunks(ref: BatchRef) -> str:
    """Name the prefix of the batch's chunks."""
    return f"{batch(ref)}chunks/"


def page(ref: BatchRef, name: str) -> str:
    """Name a page of the batch's results that is too large for an answer: beside the chunks, and removed with them."""
    return f"{chunks(ref)}pages/{name}"


def chunk(ref: BatchRef, shard: int, epoch: int, seq: int, nonce: str) -> str:
    """One chunk object. The nonce keeps two writers of one epoch apart: nobody ever overwrites a chunk."""
    return f"{chunks(ref)}{shard:06d}/{epoch:06d}-{seq:06d}-{nonce}"
