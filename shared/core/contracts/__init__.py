"""The contracts: each file here is one frozen value, `CONTRACT`, and this is their table. A new file is in it by being there."""

from importlib import import_module
from pkgutil import iter_modules

from shared.core.contract import Contract


def _contracts() -> dict[str, Contract]:
    found = (import_module(f"{__name__}.{module.name}").CONTRACT for module in iter_modules(__path__))
    return {contract.name: contract for contract in found}


CONTRACTS: dict[str, Contract] = _contracts()
