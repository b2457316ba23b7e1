"""What a batch makes of a scan: the errors that depend on the batch, merged with those that stand on their own, in line order.

Rules, the first that is broken names the line's error: it must be a line that can run; its url is the batch's endpoint; its custom_id and its body keep
to the contract; its model is the model of the first line, or as far as the contract allows another adapter of the same base; that model is served here, to
this organization, at that endpoint; the adapters keep to the base's limits; the answer it asks for is no longer than the base's context; the file has no more
lines than the contract allows.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shared.core import facts
from shared.core.contract import Contract
from shared.core.facts import Fact
from shared.core.models import EMBEDDINGS, Model, Registry
from shared.core.outlines import Section
from shared.core.request_line import LineError, short
from shared.core.scan import Entry, Item

CHAT = "/v1/chat/completions"
MESSAGES = "body.messages"
MISMATCH = "url_mismatch"

ROW_BYTES = 100
CHOICE_BYTES = 60
"""Less than any answered row has beside its custom_id, and less than any of its choices has."""


class Broken(NamedTuple):
    """A rule that a line breaks: code, message and param of its error."""

    code: str
    message: str
    param: str | None = None


class Judge:
    """Reads the index of one file once, for one batch.

    Afterwards `total`, `model` (of the first line; None where that is not served) and `least_output` (bytes that the output file has at
    least, if every line is answered) say what it saw. Args: `endpoint` is the batch's; without one, the first line's.
    """

    def __init__(self, endpoint: str | None, contract: Contract, registry: Registry, org: str) -> None:
        self._endpoint = endpoint
        self._contract = contract
        self._registry = registry
        self._org = org
        self._models = registry.seen_by(org)
        self._first: str | None = None
        self._adapters: dict[str, Model] = {}
        self.total = 0
        self.model: Model | None = None
        self.least_output = 0

    def errors(self, index: Iterable[Item]) -> Iterator[LineError]:
        """Yield every error of the file, in line order. An index may come in pieces, a call each."""
        for item in index:
            if isinstance(item, Section):
                continue
            self.total += 1
            if self._endpoint is None and item.url in self._contract.endpoints:
                self._endpoint = item.url
            error = self._error(item)
            if error is not None:
                yield error

    def _error(self, item: Entry | LineError) -> LineError | None:
        if isinstance(item, LineError) and item.code != MISMATCH and item.url in {None, self._endpoint}:
            return item
        broken = self._url(item.url)
        if broken is None and isinstance(item, Entry):
            self.least_output += ROW_BYTES + CHOICE_BYTES * item.n + len(item.custom_id)
            broken = self._body(item) or self._model(item) or self._size()
        return broken and LineError(item.line, broken.code, short(broken.message), broken.param)

    def _url(self, url: str | None) -> Broken | None:
        if url is not None and url == self._endpoint:
            return None
        wanted = self._endpoint or " or ".join(self._contract.endpoints)
        return Broken(MISMATCH, f"`url` must be the batch's endpoint, {wanted}", "url")

    def _body(self, entry: Entry) -> Broken | None:
        rules = self._contract
        most = rules.custom_id_bytes
        if most is not None and len(entry.custom_id.encode()) > most:
            return Broken("invalid_request", f"`custom_id` is longer than {most} bytes of UTF-8", "custom_id")
        if entry.url != EMBEDDINGS:
            if rules.cap_required and not entry.cap:
                message = "`body` must have `max_tokens` or `max_completion_tokens`"
                return Broken("missing_required_parameter", message, "body.max_tokens")
            if rules.cap_most is not None and entry.cap > rules.cap_most:
                return Broken("invalid_request", f"`max_tokens` may be {rules.cap_most} at most", "body.max_tokens")
        return self._parameters(entry)

    def _parameters(self, entry: Entry) -> Broken | None:
        rules = self._contract
        refused = Fact(entry.facts) & rules.refused
        if refused:
            param = next(param for fact, param in facts.PARAMS.items() if fact in refused)
            what = "image, audio, video and file parts" if param == MESSAGES else f"`{param}`"
            return Broken("invalid_request", f"{what} cannot be used in batches here", param)
        if rules.n_most is not None and entry.n > rules.n_most:
            return Broken("invalid_request", f"`body.n` may be {rules.n_most} at most", "body.n")
        if rules.logprobs_most is not None and entry.logprobs > rules.logprobs_most:
            name = "body.top_logprobs" if entry.url == CHAT else "body.logprobs"
            return Broken("invalid_request", f"`{name}` may be {rules.logprobs_most} at most", name)
        return None

    def _model(self, entry: Entry) -> Broken | None:
        model = self._models.get(entry.model)
        base = model and self._registry.base(model)
        name = entry.model if base is None or self._contract.adapters == 0 else base.id
        if self._first is None:
            self._first, self.model = name, model
        if name != self._first:
            return Broken("mismatched_model", "a batch has one model; this line names another", "body.model")
        if model is None or base is None or not base.active or self._endpoint not in base.endpoints:
            return self._missing(entry.model)
        if model.base is not None and model.id not in self._adapters:
            self._adapters[model.id] = model
            if (crowded := self._crowded(base)) is not None:
                return crowded
        if entry.cap > base.context:
            message = f"`body` asks for {entry.cap} output tokens; prompt and answer have {base.context} together here"
            return Broken("context_length_exceeded", message, "body.max_tokens")
        return None

    def _missing(self, name: str) -> Broken:
        if name.startswith("ft:"):
            why = "does not exist, is not yours, or is no longer active"
        else:
            why = f"is not served here at {self._endpoint}; GET /models lists what is"
        code = self._contract.inactive_model if self._rests(name) else "model_not_found"
        return Broken(code, f"the model `{name}` {why}", "body.model")

    def _rests(self, name: str) -> bool:
        """Whether there is such a model for the organization, and it is not active."""
        model = self._registry.get(name)
        return model is not None and model.org in {None, self._org} and not model.active

    def _crowded(self, base: Model) -> Broken | None:
        """Say which limit the adapters of the batch are over, if they are over one."""
        count = len(self._adapters)
        if self._contract.adapters and count > self._contract.adapters:
            message = f"the batch names more than {self._contract.adapters} fine-tuned models"
            return Broken("model_not_found", message, "body.model")
        rank = max(adapter.rank for adapter in self._adapters.values())
        limits = base.adapter_limits
        if limits and not any(count <= limit.count and rank <= limit.rank for limit in limits):
            served = " or ".join(f"{limit.count} of rank {limit.rank} or lower" for limit in limits)
            message = f"`{base.id}` serves {served} in a batch; this one has {count}, up to rank {rank}"
            return Broken("model_not_found", message, "body.model")
        size = sum(adapter.adapter_bytes for adapter in self._adapters.values())
        if base.adapters_bytes is not None and size > base.adapters_bytes:
            message = f"the fine-tuned models of the batch have {size} bytes; `{base.id}` takes {base.adapters_bytes}"
            return Broken("model_not_found", message, "body.model")
        return None

    def _size(self) -> Broken | None:
        most = self._contract.file_requests
        if self.model is not None and self.model.private and self._contract.private_requests is not None:
            most = self._contract.private_requests
        if self.total == most + 1:
            return Broken("too_many_requests_in_file", f"the file has more than {most} requests; split it")
        return None
