"""What the batch objects of some contracts show besides the common fields; a contract names what it wants (`Contract.extras`)."""

from collections.abc import Callable
from typing import Any

from shared.core.contract import Contract
from shared.core.lifecycle import is_terminal
from shared.core.records import Batch, Prices, Status

UNIT = "microusd_per_million_tokens"


def of(batch: Batch, contract: Contract) -> dict[str, Any]:
    """Give the fields that the contract wants; a retry says of which batch."""
    shown: dict[str, Any] = {} if batch.retry_of is None else {"retry_of": batch.retry_of}
    for name in contract.extras:
        shown |= _EXTRAS[name](batch)
    return shown


def pricing(prices: Prices) -> dict[str, str]:
    """Show prices: integers, as decimal strings."""
    return {
        "unit": UNIT,
        "input": str(prices.input),
        "cached_input": str(prices.cached_input),
        "output": str(prices.output),
    }


def _slackwater(batch: Batch) -> dict[str, Any]:
    return {"slackwater": None if is_terminal(batch) else _waiting(batch)}


def _waiting(batch: Batch) -> dict[str, Any]:
    if batch.status is Status.IN_PROGRESS:
        answered = batch.counts.completed + batch.counts.failed
        return {"reason": "running" if answered else "waiting_for_gpu", "since": batch.in_progress_at}
    since = {Status.FINALIZING: batch.finalizing_at, Status.CANCELLING: batch.cancelling_at}
    return {"reason": batch.status, "since": since.get(batch.status, batch.created_at)}


def _s3(batch: Batch) -> dict[str, Any]:
    if batch.output_s3_prefix is None:
        return {}
    return {"output_s3_prefix": batch.output_s3_prefix, "output_s3_status": batch.output_s3_status or "pending"}


def _gridline(_: Batch) -> dict[str, Any]:
    return {"gridline": {"reason": None}}


def _pricing(batch: Batch) -> dict[str, Any]:
    return {
        "model_config_id": batch.revision,
        "billing": "gpu_time" if batch.private else "catalog",
        "pricing": None if batch.private else pricing(batch.prices),
    }


def _execution(batch: Batch) -> dict[str, Any]:
    return {
        "execution_preference": batch.execution_preference,
        "execution": batch.execution,
        "fallback_from_provider": batch.fallback_from_provider,
        "client_model": batch.model,
    }


def schemas(contract: Contract) -> dict[str, Any]:
    """Give the fields that the contract wants as the OpenAPI document tells them."""
    fields = {field: schema for name in contract.extras for field, schema in _SCHEMAS[name].items()}
    return {"retry_of": _TEXT, **fields}


_EXTRAS: dict[str, Callable[[Batch], dict[str, Any]]] = {
    "slackwater": _slackwater,
    "s3": _s3,
    "gridline": _gridline,
    "pricing": _pricing,
    "execution": _execution,
}
_TEXT = {"type": "string"}
_WAITING = {
    "type": ["object", "null"],
    "required": ["reason", "since"],
    "properties": {"reason": _TEXT, "since": {"type": ["integer", "null"]}},
}
_PRICES = {
    "type": ["object", "null"],
    "required": ["unit", "input", "cached_input", "output"],
    "properties": {"unit": {"const": UNIT}, "input": _TEXT, "cached_input": _TEXT, "output": _TEXT},
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "slackwater": {"slackwater": _WAITING},
    "s3": {"output_s3_prefix": _TEXT, "output_s3_status": {"enum": ["pending", "copied", "failed"]}},
    "gridline": {
        "gridline": {
            "type": "object",
            "required": ["reason"],
            "properties": {"reason": {"type": ["string", "null"]}},
        }
    },
    "pricing": {
        "model_config_id": {"type": ["string", "null"]},
        "billing": {"enum": ["gpu_time", "catalog"]},
        "pricing": _PRICES,
    },
    "execution": {
        "execution_preference": _TEXT,
        "execution": _TEXT,
        "fallback_from_provider": {"type": "boolean"},
        "client_model": {"type": ["string", "null"]},
    },
}
