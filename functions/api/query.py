"""Parameters of lists."""

import re
from typing import NamedTuple

from pydantic import WithJsonSchema

from shared.core.errors import Refused

_INTEGER = re.compile("([+-]?)0*([0-9]+)")
DIGITS = 18
"""More than any number has that is taken; Python reads none of thousands of digits."""

ORDER = WithJsonSchema({"type": "string", "enum": ["asc", "desc"], "default": "desc"})


class Limit(NamedTuple):
    """How long a page may be, and how long it is when the caller does not say."""

    most: int
    default: int

    @property
    def schema(self) -> WithJsonSchema:
        """The parameter, as the OpenAPI document tells it."""
        return WithJsonSchema({"type": "integer", "minimum": 1, "maximum": self.most, "default": self.default})

    def read(self, text: str | None) -> int:
        """Read the parameter `limit`. Refused `invalid_request`, `integer_below_min_value` or `integer_above_max_value`."""
        if text is None:
            return self.default
        found = _INTEGER.fullmatch(text)
        if found is None:
            raise Refused("invalid_request", "'limit' must be an integer.", param="limit")
        value = int(found[1] + found[2][:DIGITS])  # which side it is out of range on, the first digits tell
        if value < 1:
            raise Refused("integer_below_min_value", "'limit' must be at least 1.", param="limit")
        if value > self.most:
            raise Refused("integer_above_max_value", f"'limit' must be at most {self.most}.", param="limit")
        return value


def newest_first(order: str | None) -> bool:
    """Read the parameter `order`. Refused `invalid_request`."""
    if order not in {None, "asc", "desc"}:
        raise Refused("invalid_request", "'order' must be asc or desc.", param="order")
    return order != "asc"
