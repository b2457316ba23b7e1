"""What a create must satisfy beyond its form, and what it pins: the model as it is now, with its prices.

A contract that judges files at the create has it done here, from the scan's index, so that its caller learns of a bad line at once; the others pin
the model in validation.
"""

import msgspec

from shared.core import assignment
from shared.core.batch_request import S3_PREFIX, BatchRequest
from shared.core.contract import LONGEST_LIFE, Contract, Judged, MetadataRule
from shared.core.errors import Refused
from shared.core.judge import Judge
from shared.core.models import Model, Registry
from shared.core.prefixes import NOWHERE, Prefixes, result
from shared.core.records import Batch, File
from shared.core.window import Timing
from shared.ports import Blobs, Terms
from shared.services import inputs
from shared.services.callbacks import Callbacks

INPUT_PARAM = "input_file_id"


class Acceptance:
    """Accepts batches. `account_batches` is the most unfinished ones that an organization may have, under all contracts together."""

    def __init__(
        self,
        *,
        blobs: Blobs,
        registry: Registry,
        callbacks: Callbacks,
        timing: Timing,
        account_batches: int,
        prefixes: Prefixes = NOWHERE,
    ) -> None:
        self._blobs = blobs
        self._registry = registry
        self._callbacks = callbacks
        self._prefixes = prefixes
        self._timing = timing
        self._account_batches = account_batches

    def check(self, contract: Contract, request: BatchRequest, batch: Batch, file: File) -> Batch:
        """Give the batch of this file with what is pinned now. Refused as the contract has it, NotFound when the input went away."""
        self.check_request(request, batch)
        self.check_file(contract, request, file)
        if contract.judged is Judged.IN_VALIDATION:
            return batch
        judge = Judge(batch.endpoint, contract, self._registry, batch.org)
        for error in judge.errors(inputs.index(batch, self._blobs)):
            message = f"Line {error.line}: {error.message}."
            raise Refused(contract.refusal(error.code), message, param=INPUT_PARAM)
        return self.agree(contract, request, batch, judge)

    def check_request(self, request: BatchRequest, batch: Batch) -> None:
        """Check what can be told without the file. Refused."""
        if batch.expires_at <= batch.created_at:
            message = f"'metadata.{assignment.DEADLINE}' has passed."
            raise Refused("invalid_request", message, param=f"metadata.{assignment.DEADLINE}")
        if request.callback_url is not None:
            self._callbacks.check(request.callback_url)
        if request.output_s3_prefix is not None:
            self._prefixes.check(batch.org, result(request.output_s3_prefix, batch.id, "output"), S3_PREFIX)

    def check_file(self, contract: Contract, request: BatchRequest, file: File) -> None:
        """Check the form of a file that is scanned. Refused."""
        if file.sectioned and not contract.sectioned:
            message = (
                "The file is a sectioned one, which is not taken here. Write every request whole, on a line of its own."
            )
            raise Refused(contract.refusal("invalid_file_format"), message, param=INPUT_PARAM)
        if contract.metadata is MetadataRule.ASSIGNMENT and request.metadata:
            assignment.check_format(request.metadata, sectioned=file.sectioned)

    def agree(self, contract: Contract, request: BatchRequest, batch: Batch, judge: Judge) -> Batch:
        """Give the batch with its model as it is now, once its lines were judged and found good. Refused when that model or all of them together are not."""
        if contract.result_bytes is not None and judge.least_output > contract.result_bytes:
            message = f"The results cannot fit into {contract.result_bytes} bytes. Split the file into several batches."
            raise Refused("output_too_large", message, param=INPUT_PARAM)
        model = judge.model
        if model is None:
            raise AssertionError("a scanned file has at least one line")
        if contract.metadata is MetadataRule.ASSIGNMENT and request.metadata:
            assignment.check_rates(request.metadata, None if model.private else self._registry.base(model).prices)
        return pinned(batch, model, self._registry)

    def terms(self, contract: Contract, batch: Batch, file: File | None) -> Terms:
        """Give what the create asks of the organization, and how long its input stays."""
        until = None
        if contract.used_lifetime is not None and file is not None:
            window = contract.windows[batch.completion_window] + contract.used_lifetime
            until = batch.created_at + self._timing.seconds(window)
            until = max(file.expires_at or 0, min(until, file.created_at + self._timing.seconds(LONGEST_LIFE)))
        return Terms(self._account_batches, contract.open_batches, until)


def pinned(batch: Batch, model: Model, registry: Registry) -> Batch:
    """Give the batch with its model as it is now: what serves it, whose it is and what it costs."""
    base = registry.base(model)
    return msgspec.structs.replace(
        batch, model=model.id, revision=base.revision, private=model.private, prices=base.prices
    )
