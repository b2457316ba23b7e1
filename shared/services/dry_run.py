"""A dry run: what would become of a create, told without one. Everything that a create and Validate look at is looked at, by the same code; nothing is kept.

What is refused as a whole is refused as the create would refuse it. What is wrong with lines is told of all of them, whenever the contract judges them.
Limits that depend on the moment (unfinished batches) are not looked at, and no idempotency key is needed or used.
"""

from typing import NamedTuple

import msgspec

from shared.core import batch_request, bounds
from shared.core.bounds import Cost, Tokens
from shared.core.contract import Contract
from shared.core.errors import Refused
from shared.core.ids import Space
from shared.core.judge import Judge
from shared.core.models import Registry
from shared.core.records import Batch, BatchError
from shared.core.request_line import LineError
from shared.core.scan import Entry
from shared.ports import Blobs
from shared.services import inputs
from shared.services.acceptance import Acceptance
from shared.services.batches import Batches
from shared.services.progress import ERRORS


class Verdict(NamedTuple):
    """What a dry run found.

    Attributes:
        batch: The batch that a create would make; its model is None where the first line names none that is served.
        requests: How many request lines the file has, good and bad.
        errors: The first of what is wrong, in line order; `errors_total` says how much there is.
        tokens: The most that the good lines can use; `cost` the most that this costs, None where there is no price.

    """

    batch: Batch
    requests: int
    errors: tuple[BatchError, ...]
    errors_total: int
    tokens: Tokens
    cost: Cost | None


class DryRun:
    """Judges files for batches that nobody has created."""

    def __init__(self, *, batches: Batches, acceptance: Acceptance, blobs: Blobs, registry: Registry) -> None:
        self._batches = batches
        self._acceptance = acceptance
        self._blobs = blobs
        self._registry = registry

    def run(self, space: Space, contract: Contract, body: dict[str, object]) -> Verdict:
        """Judge the decoded body of a create and the file that it names.

        NotFound and Refused as of a create, without the codes of keys and limits; Refused `file_not_ready` while the file is still to be scanned.
        """
        request = batch_request.read(body, contract)
        batch, file = self._batches.draft(space, contract, request)
        self._acceptance.check_request(request, batch)
        if file.pending is not None:
            message = "The file is still being scanned. Try again when its status is 'processed'."
            raise Refused("file_not_ready", message, param="input_file_id")
        if file.refusal is not None:
            return Verdict(batch, 0, (file.refusal,), 1, Tokens(), None)
        self._acceptance.check_file(contract, request, file)
        judge = Judge(batch.endpoint, contract, self._registry, batch.org)
        errors, total, used = self._judge(judge, batch, contract)
        if not total:
            batch = self._acceptance.agree(contract, request, batch, judge)
        model, cost = judge.model, None
        if model is not None:
            batch = msgspec.structs.replace(batch, model=model.id)
            cost = bounds.cost(used, model, self._registry.base(model).prices)
        return Verdict(batch, judge.total, errors, total, used, cost)

    def _judge(self, judge: Judge, batch: Batch, contract: Contract) -> tuple[tuple[BatchError, ...], int, Tokens]:
        errors: list[BatchError] = []
        total = taken = given = 0
        for item in inputs.index(batch, self._blobs):
            error = next(judge.errors((item,)), None)
            if error is not None:
                total += 1
                if total <= ERRORS:
                    errors.append(_told(error))
            elif isinstance(item, Entry) and judge.model is not None:
                most = bounds.tokens(item, self._registry.base(judge.model), contract)
                taken, given = taken + most.input, given + most.output
        return tuple(errors), total, Tokens(taken, given)


def _told(error: LineError) -> BatchError:
    return BatchError(code=error.code, message=error.message, param=error.param, line=error.line)
