"""Replacing moto's attributes, and putting them back.

Law: nothing of moto is changed but through `replace`, so that a stopped server leaves the process as it found it. The
attribute must be defined by the very owner named: a moto that moved it fails here, at the start, and not in a test.
"""

# ruff: noqa: ANN401 - any object of moto's may be replaced

from contextlib import ExitStack
from typing import Any

import moto

PINNED = "5.2.5"
"""The only moto release these replacements were written for and tried with."""


def require_pinned_moto() -> None:
    """Raise `RuntimeError` unless the installed moto is the pinned one: the replacements reach inside it."""
    if moto.__version__ != PINNED:
        raise RuntimeError(
            f"the local AWS needs moto {PINNED} and found {moto.__version__}: run `pip install 'moto=={PINNED}'`"
        )


def replace(undo: ExitStack, owner: Any, name: str, value: object) -> Any:
    """Set `owner.name` to `value` until `undo` closes, and return what stood there.

    Raises `KeyError` when `owner` itself (not a base class) has no such attribute.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)
    undo.callback(setattr, owner, name, before)
    return before
