"""A process that checks texts against JSON schemas, and nothing else: a line in, a line out.

    python -m gpu_job.schema_process SECONDS       started by `gpu_job.structured`, ends with its standard input

A schema can be written so that checking it takes for ever: by patterns that go back and forth, by references that multiply. Nothing inside of Python can
stop those, so the kernel does: a task that takes too much of the processor's time ends the process, which is all that the other side has to see. That clock
stands still while others have the processor, so a busy machine refuses nobody. References lead nowhere but into the schema itself and into the drafts
of JSON Schema.
"""

import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from jsonschema_specifications import REGISTRY
from referencing.exceptions import Unresolvable

MEMORY_BYTES = 2 << 30
FRAMES = 10_000
"""How deep Python may go: a level of an answer takes some ten frames."""

PATH_CHARS = 120

WITH_PATTERNS = ("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties")

Check = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class Task(msgspec.Struct, array_like=True):
    """A schema, and texts that are JSON."""

    schema: msgspec.Raw
    texts: list[str]


class Verdict(msgspec.Struct, array_like=True):
    """What is wrong with the first text that is not as the schema has it; or why the schema cannot be used."""

    flaw: str | None = None
    unusable: str | None = None


def verdict(task: Task) -> Verdict:
    """Check the texts."""
    try:
        validator = _validator(bytes(task.schema))
        for text in task.texts:
            for error in validator.iter_errors(msgspec.json.decode(text)):
                return Verdict(flaw=f"`{_place(error)}` breaks the rule `{error.validator}`")
    except SchemaError as error:
        return Verdict(unusable=f"`{_place(error)}` of its schema breaks the rules of JSON Schema")
    except Unresolvable:
        return Verdict(unusable="its schema refers to what is not in it")
    except RecursionError:
        return Verdict(unusable="its schema refers to itself without end, or is too deep")
    except Exception as error:  # noqa: BLE001 - whatever a stranger's schema does to the library, it is no reason to end
        return Verdict(unusable=f"its schema breaks the rules of JSON Schema ({type(error).__name__})")
    return Verdict()


def _place(error: ValidationError | SchemaError) -> str:
    """Give the path of what is wrong, in short: its names are the caller's, and as long as a line may be."""
    path = error.json_path
    return path if len(path) <= PATH_CHARS else path[: PATH_CHARS - 1] + "…"


@lru_cache(maxsize=256)
def _validator(text: bytes) -> Validator:
    schema = msgspec.json.decode(text)
    kind: Any = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema, format_checker=FormatChecker(()))  # of the formats, that of patterns would be Python's
    rules = {name: _lenient(check) for name, check in kind.VALIDATORS.items() if name in WITH_PATTERNS}
    made: Validator = extend(kind, rules)(schema, registry=REGISTRY)  # type: ignore[no-untyped-call]
    return made


def _lenient(check: Check) -> Check:
    """Pass over a pattern that is none to Python: JavaScript's, which schemas mean, know some more."""

    def run(validator: object, value: object, instance: object, schema: object) -> Iterator[Any]:
        try:
            yield from check(validator, value, instance, schema) or ()
        except re.error:
            return

    return run


def main() -> None:
    """Check what comes, until nothing comes any more; SECONDS of the processor's time is what each task may take."""
    seconds = float(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.setrecursionlimit(FRAMES)
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # nobody handles its signal, so it ends the process
        said = msgspec.json.encode(verdict(msgspec.json.decode(line, type=Task)))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.buffer.write(said + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
