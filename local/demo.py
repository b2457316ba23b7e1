"""The demonstration: a file of support tickets goes through the whole local stack, and comes back answered by a real model.

python -m local.demo      starts the stack, sends examples/support-tickets.jsonl with the official OpenAI SDK, shows the answers, stops the stack
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from openai.types import Batch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from local.options import ROOT

TICKETS = ROOT / "examples" / "support-tickets.jsonl"
RESULTS = ROOT / "results"
ENDED = {"completed", "failed", "expired", "cancelled"}
START_SECONDS = 60.0


def main() -> int:
    """Run the demonstration; 0 when every ticket was answered."""
    console = Console()
    port = _free_port()
    with _stack(port, console):
        client = OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-local", timeout=60)
        answered = demonstrate(client, RESULTS, console)
    return 0 if answered else 1


def demonstrate(client: OpenAI, folder: Path, console: Console) -> bool:
    """Send the tickets, watch them, show the answers and leave them in `folder`; whether every ticket was answered."""
    with TICKETS.open("rb") as tickets:
        batch_input = client.files.create(file=tickets, purpose="batch")
    batch = client.batches.create(
        input_file_id=batch_input.id, endpoint="/v1/chat/completions", completion_window="24h"
    )
    console.print(f"{TICKETS.relative_to(ROOT)} is batch [bold]{batch.id}[/]; its model's engine starts first")
    batch, seconds = _watch(client, batch, console)
    files = _download(client, batch, folder)
    _show(console, files)
    _sum_up(console, batch, seconds, files)
    return batch.status == "completed" and batch.error_file_id is None


@contextmanager
def _stack(port: int, console: Console) -> Iterator[None]:
    """Run the local stack for a while; nothing of it is left afterwards."""
    # A shell that runs this in the background of a script has SIGINT ignored; whoever sends one means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stack = subprocess.Popen(  # noqa: S603 - our own module
        # On a leash: were this process killed, the stack would not outlive it.
        [sys.executable, "-P", "-m", "gpu_job.leash", sys.executable, "-P", "-m", "local", "--port", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "NO_COLOR": "1"},
        start_new_session=True,  # a Ctrl-C ends this process, which then ends the stack in order
    )
    try:
        with console.status("starting the local stack"):
            _until_healthy(stack, port)
        yield
    finally:
        with console.status("stopping everything"):
            stack.send_signal(signal.SIGTERM)
            stack.wait()


def _until_healthy(stack: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if stack.poll() is not None:
            said = stack.stdout.read().decode() if stack.stdout else ""
            raise SystemExit(f"the local stack did not start:\n{said}")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("the local stack did not answer in time; see .slackwater/logs")


def _watch(client: OpenAI, batch: Batch, console: Console) -> tuple[Batch, float]:
    """Show the batch until it ends; give it, and the seconds from its first answer seen running to its end."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(batch.status, total=None)
        while batch.status not in ENDED:
            time.sleep(0.5)
            batch = client.batches.retrieve(batch.id)
            counts = batch.request_counts
            if counts is not None:
                done = counts.completed + counts.failed
                progress.update(task, description=batch.status, total=counts.total or None, completed=done)
    return batch, time.monotonic() - began


def _download(client: OpenAI, batch: Batch, folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = []
    for kind, file_id in (("output", batch.output_file_id), ("errors", batch.error_file_id)):
        if file_id:
            path = folder / f"{batch.id}_{kind}.jsonl"
            path.write_bytes(client.files.content(file_id).content)
            files.append(path)
    return files


def _show(console: Console, files: list[Path]) -> None:
    questions = {line["custom_id"]: line["body"]["messages"][-1]["content"] for line in _lines(TICKETS)}
    answers = {row["custom_id"]: _answer(row) for path in files for row in _lines(path)}
    table = Table("ticket", "message", "answer", show_lines=True)
    for custom_id, question in questions.items():
        table.add_row(custom_id, _text(question, 90), answers.get(custom_id, _problem("no answer")))
    console.print(table)


def _sum_up(console: Console, batch: Batch, seconds: float, files: list[Path]) -> None:
    usage = batch.usage
    table = Table(show_header=False, box=None)
    table.add_row("batch", f"{batch.id}: {batch.status}")
    if batch.request_counts is not None:
        counts = batch.request_counts
        table.add_row("requests", f"{counts.total} in all, {counts.completed} completed, {counts.failed} failed")
    if usage is not None:
        tokens = (
            f"{usage.input_tokens} in ({usage.input_tokens_details.cached_tokens} cached), {usage.output_tokens} out"
        )
        table.add_row("tokens", tokens)
        table.add_row("speed", f"{usage.output_tokens / seconds:.0f} output tokens/s, the start of the engine included")
    table.add_row("files", ", ".join(os.path.relpath(path) for path in files))
    console.print(table)


def _answer(row: dict[str, Any]) -> Text:
    match row:
        case {"response": {"body": {"choices": [{"message": {"content": str(text)}}, *_]}}}:
            return _text(text, 200)
        case {"response": {"body": {"error": {"message": str(text)}}}} | {"error": {"message": str(text)}}:
            return _problem(text)
    return _problem("not understood")


def _problem(text: str) -> Text:
    return _text(text, 200, style="red")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def _text(text: str, most: int, style: str = "") -> Text:
    """Give a text in one line, cut. What is in brackets in it is no markup: a model may write anything."""
    text = " ".join(text.split())
    return Text(text if len(text) <= most else text[: most - 1] + "…", style=style)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
