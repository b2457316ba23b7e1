"""Parameters of lists."""

from typing import NamedTuple

from shared.core.errors import Refused


class Limit(NamedTuple):
    """How long a page may be, and how long it is when the caller does not say."""

    most: int
    default: int

    def read(self, text: str | None) -> int:
        """Read the parameter `limit`. Refused `invalid_request`, `integer_below_min_value` or `integer_above_max_value`."""
        if text is None:
            return self.default
        try:
            value = int(text)
        except ValueError:
            raise Refused("invalid_request", "'limit' must be an integer.", param="limit") from None
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
