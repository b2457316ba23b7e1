"""What a dry run answers. Every key is always there; null where there is nothing."""

from typing import Literal, Self

from pydantic import BaseModel

from functions.api.wire import Errors
from shared.core.bounds import Cost
from shared.services.dry_run import Verdict


class TokenBounds(BaseModel):
    """The most tokens that the good lines can use."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class CostBounds(BaseModel):
    """The most that this costs: integers, as decimal strings."""

    unit: Literal["picousd"] = "picousd"
    input: str
    output: str
    total: str

    @classmethod
    def of(cls, cost: Cost) -> Self:
        """Show a cost."""
        return cls(input=str(cost.input), output=str(cost.output), total=str(cost.input + cost.output))


class ValidationObject(BaseModel):
    """The verdict; `errors` are those that the batch would show, `cost` is null where there is no price."""

    object: Literal["batch.validation"] = "batch.validation"
    valid: bool
    input_file_id: str
    endpoint: str
    completion_window: str
    model: str | None
    requests: int
    errors: Errors | None
    usage_bounds: TokenBounds
    cost_bounds: CostBounds | None

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """Show a verdict."""
        batch, used = verdict.batch, verdict.tokens
        return cls(
            valid=not verdict.errors_total,
            input_file_id=batch.input_file_id,
            endpoint=batch.endpoint,
            completion_window=batch.completion_window,
            model=batch.model,
            requests=verdict.requests,
            errors=Errors.of(verdict.errors, verdict.errors_total),
            usage_bounds=TokenBounds(
                input_tokens=used.input, output_tokens=used.output, total_tokens=used.input + used.output
            ),
            cost_bounds=None if verdict.cost is None else CostBounds.of(verdict.cost),
        )
