"""The contracts: each file here is one frozen value, `CONTRACT`, and this is their table. A new file is in it by being there."""

import re
from importlib import import_module
from pkgutil import iter_modules

from shared.core.contract import Contract


def _contracts() -> dict[str, Contract]:
    found = (import_module(f"{__name__}.{module.name}").CONTRACT for module in iter_modules(__path__))
    return {contract.name: contract for contract in found}


CONTRACTS: dict[str, Contract] = _contracts()

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def mounted(text: str) -> dict[str, Contract]:
    """Read which contracts a deployment offers and where, `openai=/v1,gridline=/gridline/openai/v1`: contracts by path prefix, the first one first.

    ValueError says what is wrong with it.
    """
    mounts: dict[str, Contract] = {}
    for mount in text.split(","):
        name, _, prefix = mount.strip().partition("=")
        if name not in CONTRACTS:
            raise ValueError(f"there is no contract {name!r} to mount; there are {', '.join(CONTRACTS)}")
        if _PREFIX.fullmatch(prefix) is None:
            raise ValueError(f"{name} cannot be mounted at {prefix!r}: a prefix looks like /v1 or /{name}/v1")
        if prefix in mounts or CONTRACTS[name] in mounts.values():
            raise ValueError(f"{mount.strip()!r} is mounted beside another of this contract, or at the same prefix")
        mounts[prefix] = CONTRACTS[name]
    return mounts
