"""The contracts: each file is one frozen value, and this is their list."""

from shared.core.contract import Contract
from shared.core.contracts.openai import OPENAI

CONTRACTS: dict[str, Contract] = {contract.name: contract for contract in (OPENAI,)}
