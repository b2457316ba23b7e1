"""The most that a line can use, from the scan alone: what a dry run tells, and what a hold has to cover.

A token stands for at least one byte of text, and a line's JSON has more bytes than its text and what a chat template adds to it. What is not text is
bounded by the model's context instead: it takes no longer prompt. Only where one line may hold several prompts the context bounds each of them, not the line.
"""

from functools import reduce
from operator import or_
from typing import NamedTuple

from shared.core import facts
from shared.core.contract import Contract
from shared.core.models import EMBEDDINGS, Model
from shared.core.records import Prices
from shared.core.scan import Entry

MEDIA = reduce(or_, facts.PARTS.values())
SEVERAL_PROMPTS = frozenset({"/v1/completions", EMBEDDINGS})
NOT_ALL_TEXT = frozenset({"/v1/responses"})
"""Endpoints whose parts the scan does not look into."""

NO_OUTPUT = frozenset({EMBEDDINGS})


class Tokens(NamedTuple):
    """Tokens in and out."""

    input: int = 0
    output: int = 0


class Cost(NamedTuple):
    """Pico-USD: tokens times micro-USD per million of them."""

    input: int
    output: int


def tokens(entry: Entry, base: Model, contract: Contract) -> Tokens:
    """Give the most that a line can use of a model, `base` being what serves it."""
    if entry.url in SEVERAL_PROMPTS:
        prompt = entry.size
    elif entry.url in NOT_ALL_TEXT or entry.facts & MEDIA:
        prompt = base.context
    else:
        prompt = min(entry.size, base.context)
    if entry.url in NO_OUTPUT:
        return Tokens(prompt)
    answer = min(entry.cap or contract.cap_default or base.max_output, base.max_output)
    return Tokens(prompt, answer * entry.n)


def cost(used: Tokens, model: Model, prices: Prices) -> Cost | None:
    """Give the most that these tokens cost; None where the model has no price: GPU time is paid for, or the registry names none."""
    if model.private or prices == Prices():
        return None
    return Cost(used.input * max(prices.input, prices.cached_input), used.output * prices.output)
