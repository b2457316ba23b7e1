"""What a batch makes of a scan: the errors that depend on the batch, merged with those that stand on their own, in line order.

Rules, the first that is broken names the line's error: it must be a line that can run; its url is the batch's endpoint; its model is the model of
the first line; that model is served here, at that endpoint; the file has no more lines than the contract allows.
"""

from collections.abc import Iterable, Iterator, Mapping

from shared.core.contract import Contract
from shared.core.models import Model
from shared.core.request_line import LineError, short
from shared.core.scan import Entry


class Judge:
    """Reads the index of one file once, for one batch; afterwards `total` and `model` say what it saw."""

    def __init__(self, endpoint: str, contract: Contract, models: Mapping[str, Model]) -> None:
        self._endpoint = endpoint
        self._contract = contract
        self._models = models
        self.total = 0
        self.model: str | None = None

    def errors(self, index: Iterable[Entry | LineError]) -> Iterator[LineError]:
        """Yield every error of the file, in line order."""
        for item in index:
            self.total += 1
            error = self._error(item)
            if error is not None:
                yield error

    def _error(self, item: Entry | LineError) -> LineError | None:
        if isinstance(item, LineError):
            return self._mismatch(item.line) if item.url not in {None, self._endpoint} else item
        if item.url != self._endpoint:
            return self._mismatch(item.line)
        if self.model is None:
            self.model = item.model
        if item.model != self.model:
            message = "the line names another model than the lines before it; a batch has one model"
            return LineError(item.line, "mismatched_model", message, "body.model")
        model = self._models.get(item.model)
        if model is None or self._endpoint not in model.endpoints:
            message = short(
                f"the model `{item.model}` is not served here at {self._endpoint}; GET /models lists what is"
            )
            return LineError(item.line, "model_not_found", message, "body.model")
        if self.total == self._contract.file_requests + 1:
            message = f"the file has more than {self._contract.file_requests} requests; split it"
            return LineError(item.line, "too_many_requests_in_file", message)
        return None

    def _mismatch(self, line: int) -> LineError:
        return LineError(line, "url_mismatch", f"`url` must be the batch's endpoint, {self._endpoint}", "url")
