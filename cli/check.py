"""A dry run of a file on this machine: uploaded, judged, and deleted again."""

from decimal import Decimal
from pathlib import Path

from cli.client import Client
from cli.errors import RefusedError
from cli.screen import Screen
from cli.show import Pairs
from cli.upload import upload
from cli.wire import Verdict

REFUSED_FILES = frozenset({400, 413, 422})
"""The statuses of an upload that is refused for what is in the file, its name or its size."""

PICO = {"picousd": Decimal("1e-12")}
"""What a unit of cost is in USD."""


def check(client: Client, screen: Screen, path: Path, *, endpoint: str, window: str) -> Verdict | RefusedError:
    """Ask what would become of a batch of this file, or why it cannot be uploaded; nothing of it stays on the server.

    Raises CliError for what is not the file's fault.
    """
    try:
        file = upload(client, screen, path)
    except RefusedError as error:
        if error.status not in REFUSED_FILES:
            raise
        return error
    try:
        return client.validate({"input_file_id": file.id, "endpoint": endpoint, "completion_window": window})
    finally:
        try:
            client.delete_file(file.id)
        except RefusedError as error:
            screen.note(f"{file.id} stays on the server until it expires: {error.what}")


def verdict(path: Path, found: Verdict | RefusedError) -> Pairs:
    """Give what is known of a file, and the first errors of its lines."""
    if isinstance(found, RefusedError):
        return [("file", str(path)), ("valid", "no"), ("error", found.what)]
    errors = found.errors.data if found.errors else []
    total = found.errors.total if found.errors and found.errors.total is not None else len(errors)
    most = found.usage_bounds
    pairs = [
        ("file", str(path)),
        ("valid", "yes" if found.valid else "no"),
        ("requests", str(found.requests)),
        ("model", found.model or "-"),
        ("tokens", f"at most {most.input_tokens} in, {most.output_tokens} out"),
        ("cost", _cost(found)),
        *[
            (f"line {error.line}" if error.line is not None else "error", f"{error.code}: {error.message}")
            for error in errors
        ],
    ]
    if total > len(errors):
        pairs.append(("more", f"{total - len(errors)} more errors"))
    return pairs


def _cost(found: Verdict) -> str:
    cost = found.cost_bounds
    if cost is None or cost.unit not in PICO:
        return "-"
    return f"at most {Decimal(cost.total) * PICO[cost.unit]:f} USD"
