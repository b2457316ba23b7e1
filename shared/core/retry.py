"""A retry: a new batch of the lines of an ended one that failed or were never answered.

It runs under the terms of the batch that it retries, of which a caller may change two. How many lines it has follows from the counts of that one; which ones
they are is read from its error file when they are judged and planned (`shared.core.selection`), so that asking for a retry takes no longer for a million lines
than for one. Both files, the input and the error file, are held by the new batch until it has ended: neither can expire or be deleted under it.

A batch that ended before anything ran has no error file. Where that was for want of something else than a good file, all of its lines are run.
"""

from collections.abc import Mapping
from typing import Any

from shared.core import batch_request, lifecycle
from shared.core.batch_request import BatchRequest
from shared.core.contract import Contract
from shared.core.errors import Refused
from shared.core.records import Batch

CHANGEABLE = ("completion_window", "metadata")
"""What the body of a retry may have."""

NOT_THE_FILES_FAULT = frozenset({"server_error", "insufficient_quota", "capacity_unavailable"})
"""The errors of batches that failed before they ran, though their files are good."""


def check(batch: Batch) -> None:
    """Refused `batch_not_ended`, `nothing_to_retry`, or `batch_not_retryable` for a batch whose file was refused."""
    if not lifecycle.is_terminal(batch):
        message = f"The batch is {batch.status}. It can be retried when it has ended; cancel it if it is not to go on."
        raise Refused("batch_not_ended", message)
    if any(error.code not in NOT_THE_FILES_FAULT for error in batch.errors):
        message = (
            "The file of the batch was refused, so that nothing ran, and it would be again. "
            "Correct what 'errors' says, upload the file and create a new batch."
        )
        raise Refused("batch_not_retryable", message)
    if (batch.output_file_id or batch.error_file_id) and not left(batch):
        raise Refused("nothing_to_retry", "Every line of the batch was answered well: there is nothing to retry.")


def left(batch: Batch) -> int:
    """Give how many lines of a batch that ran have no good answer."""
    return batch.counts.total - batch.counts.completed


def request(batch: Batch, body: Mapping[str, Any], contract: Contract) -> BatchRequest:
    """Give what a retry asks for: what the batch asked for, with the changes of a decoded body. Refused as `batch_request.read`."""
    for name in body:
        if name not in CHANGEABLE:
            message = f"Unknown field: {name!r}. A retry takes {' and '.join(CHANGEABLE)}; all else is as it was."
            raise Refused("unknown_parameter", message, param=name)
    lifetime = batch.output_lifetime
    options = {
        "callback_url": batch.callback_url,
        "execution": batch.execution_preference,
        "output_expires_after": None if lifetime is None else {"anchor": "created_at", "seconds": lifetime},
        "output_s3_prefix": batch.output_s3_prefix,
    }
    asked = {
        "input_file_id": batch.input_file_id,
        "endpoint": batch.endpoint,
        "completion_window": batch.completion_window,
        "metadata": batch.metadata,
        **{name: value for name, value in options.items() if name in contract.options},
        **{name: value for name, value in body.items() if value is not None},
    }
    return batch_request.read(asked, contract)
