"""What a batch looks like in words: pairs for one batch, rows for many, a summary at its end. Times are UTC."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cli.progress import duration
from cli.wire import Batch

LIST_COLUMNS = ("id", "status", "created", "rows", "failed", "model")
ERRORS_SHOWN = 20

Pairs = list[tuple[str, str]]


def list_row(batch: Batch) -> Sequence[str]:
    """Give a batch's row of the list, as LIST_COLUMNS."""
    counts = batch.counts
    return (
        batch.id,
        batch.status,
        moment(batch.created_at),
        f"{counts.completed + counts.failed}/{counts.total}",
        str(counts.failed),
        batch.model or "-",
    )


def details(batch: Batch) -> Pairs:
    """Give everything that is known about a batch, without what is not."""
    counts = batch.counts
    pairs = [
        ("id", batch.id),
        ("status", batch.status),
        ("reason", batch.reason),
        ("model", batch.model),
        ("endpoint", batch.endpoint),
        ("window", batch.completion_window),
        ("created", moment(batch.created_at)),
        ("ends by", moment(batch.expires_at) if batch.expires_at and not batch.ended else None),
        ("ended", moment(batch.ended_at) if batch.ended_at else None),
        ("rows", f"{counts.total} total, {counts.completed} completed, {counts.failed} failed"),
        ("tokens", _tokens(batch)),
        ("input file", batch.input_file_id),
        ("output file", batch.output_file_id),
        ("error file", batch.error_file_id),
        *[(f"metadata {key}", str(value)) for key, value in (batch.metadata or {}).items()],
        *_errors(batch),
    ]
    return [(name, value) for name, value in pairs if value is not None]


def summary(batch: Batch, files: Iterable[Path] = ()) -> Pairs:
    """Give how a batch ended, and where its files were put."""
    counts = batch.counts
    took = duration(batch.ended_at - batch.created_at) if batch.ended_at else None
    pairs = [
        ("batch", batch.id),
        ("status", batch.status),
        ("rows", str(counts.total)),
        ("completed", str(counts.completed)),
        ("failed", str(counts.failed)),
        ("never ran", str(counts.total - counts.completed - counts.failed)),
        ("tokens", _tokens(batch)),
        ("took", took),
        *[("file", str(path)) for path in files],
        *_errors(batch),
    ]
    return [(name, value) for name, value in pairs if value is not None]


def moment(seconds: int) -> str:
    """Write a Unix time, e.g. 2026-11-30 12:00:00Z."""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _tokens(batch: Batch) -> str | None:
    usage = batch.usage
    return f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else None


def _errors(batch: Batch) -> Pairs:
    errors = batch.errors.data if batch.errors else []
    pairs = [
        (f"line {error.line}" if error.line is not None else "error", f"{error.code}: {error.message}")
        for error in errors[:ERRORS_SHOWN]
    ]
    # The server sends the first thousand, and says how many there are.
    total = batch.errors.total if batch.errors and batch.errors.total is not None else len(errors)
    if total > ERRORS_SHOWN:
        pairs.append(("more", f"{total - ERRORS_SHOWN} more errors: slackwater get {batch.id} --json"))
    return pairs
