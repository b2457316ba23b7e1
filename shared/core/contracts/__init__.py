"""The contracts: each file here is one frozen value, `CONTRACT`, and this is their table. A new file is in it by being there."""

import re
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from shared.core.contract import HOUR, Contract


def _contracts() -> dict[str, Contract]:
    found = (import_module(f"{__name__}.{module.name}").CONTRACT for module in iter_modules(__path__))
    return {contract.name: contract for contract in found}


CONTRACTS: dict[str, Contract] = _contracts()

MOUNTS = "openai=/v1"
"""The contracts of a deployment that chooses none, and where they are."""
WINDOWS = "24h,72h"
"""The completion windows of a deployment that lists none."""
MOST_HOURS = 144
"""The longest window: objects outlive their records by a day more (`infra.storage`), so that a batch at its deadline still finds its input."""

_WINDOW = re.compile("([1-9][0-9]{0,3})h")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def mounted(text: str, windows: str = WINDOWS) -> dict[str, Contract]:
    """Read which contracts a deployment offers and where, `openai=/v1,gridline=/gridline/openai/v1`: contracts by path prefix, the first one first.

    `windows` are the completion windows of those that leave them to the deployment, `24h,72h`. ValueError says what is wrong with either.
    """
    lengths = _lengths(windows)
    mounts: dict[str, Contract] = {}
    for mount in text.split(","):
        name, _, prefix = mount.strip().partition("=")
        if name not in CONTRACTS:
            raise ValueError(f"there is no contract {name!r} to mount; there are {', '.join(CONTRACTS)}")
        if _PREFIX.fullmatch(prefix) is None:
            raise ValueError(f"{name} cannot be mounted at {prefix!r}: a prefix looks like /v1 or /{name}/v1")
        if prefix in mounts or name in {contract.name for contract in mounts.values()}:
            raise ValueError(f"{mount.strip()!r} is mounted beside another of this contract, or at the same prefix")
        contract = CONTRACTS[name]
        mounts[prefix] = replace(contract, windows=lengths) if contract.windows_listed else contract
    return mounts


def _lengths(windows: str) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for window in windows.split(","):
        found = _WINDOW.fullmatch(window.strip())
        if found is None or int(found[1]) > MOST_HOURS:
            raise ValueError(
                f"{window.strip()!r} is no completion window: one looks like 24h, and has {MOST_HOURS}h at most"
            )
        lengths[found[0]] = int(found[1]) * HOUR
    return lengths
