"""The API as a Lambda meets it: the cold start, and one request after another.

    python -m bench.api [--rounds 9] [--requests 300]

Cold: fresh processes import the handler, and others import the stock stack (FastAPI, Mangum, Powertools, boto3 and the same clients), in turn. A third
kind also builds the application, as the first request does without SnapStart; the deployment has SnapStart, whose snapshot holds all of that. Warm: one
application answers the same event again and again over stores in memory, so that the time is the API's own. All seconds are the processor's; medians.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mangum import Mangum
from rich.console import Console
from rich.table import Table

from bench.measure import print_goals
from shared.settings import ApiSettings
from tests.api.world import KEY, World

COLD_GOAL = 0.8  # times the stock stack
ROOT = Path(__file__).parents[1]

STOCK = """
import boto3, fastapi, mangum
from aws_lambda_powertools import Logger
session = boto3.Session()
for name in ("dynamodb", "s3", "stepfunctions", "lambda"):
    session.client(name)
"""
IMPORTED = "from functions.api import handler"
BUILT = IMPORTED + "; handler.application()"


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.api", description="The API's cold start and its requests.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=300)
    args = parser.parse_args()
    stock, imported, built = cold(args.rounds)
    rows = [
        ("stock stack, imported", f"{stock * 1000:.0f} ms", ""),
        ("handler, imported", f"{imported * 1000:.0f} ms", ""),
        ("ratio", f"{imported / stock:.2f}", f"≤ {COLD_GOAL:.2f}"),
        ("handler, imported and built", f"{built * 1000:.0f} ms", ""),
    ]
    print_goals("Cold start, processor time", rows)
    table = Table(title="Warm, processor time a request")
    table.add_column("request")
    table.add_column("median", justify="right")
    for name, seconds in warm(args.requests).items():
        table.add_row(name, f"{seconds * 1000:.2f} ms")
    Console().print(table)


def cold(rounds: int) -> list[float]:
    """Give the median seconds of processes that run `STOCK`, `IMPORTED` and `BUILT`."""
    settings = ApiSettings(
        bucket="bench",
        table_prefix="bench",
        models_file=str(ROOT / "infra" / "models.json"),
        region="eu-west-1",
        state_machine_arn="arn:aws:states:eu-west-1:123456789012:stateMachine:lifecycle",
        scan_function="scan",
    )
    keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": settings.region}
    env = {**os.environ, **settings.to_env(), **keys}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # no start compiles what an earlier one has
    seconds: dict[str, list[float]] = {STOCK: [], IMPORTED: [], BUILT: []}
    for _ in range(1 + rounds):
        for program, times in seconds.items():
            times.append(_process_seconds(program, env))
    return [statistics.median(times[1:]) for times in seconds.values()]


def _process_seconds(program: str, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], env=env, cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warm(requests: int) -> dict[str, float]:
    """Give the median seconds of each kind of request."""
    asyncio.set_event_loop(asyncio.new_event_loop())  # as the runtime of a Lambda has it
    world = World(account_batches=200 + requests)
    file_id = world.upload()
    batch_id = world.create(file_id)
    for _ in range(100):
        world.create(file_id)
    answer = Mangum(world.app, lifespan="off")
    create = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    events = {
        "GET /batches/{id}": _event("GET", f"/v1/batches/{batch_id}"),
        "GET /batches, 20 of 100": _event("GET", "/v1/batches"),
        "POST /batches": _event("POST", "/v1/batches", create),
        "GET /files/{id}": _event("GET", f"/v1/files/{file_id}"),
        "GET /files/{id}/content": _event("GET", f"/v1/files/{file_id}/content"),
    }
    return {name: _median(lambda event=event: answer(event, None), requests) for name, event in events.items()}


def _median(call: Callable[[], dict[str, Any]], times: int) -> float:
    seconds = []
    for _ in range(times):
        start = time.process_time()
        result = call()
        seconds.append(time.process_time() - start)
        if result["statusCode"] != 200:  # noqa: PLR2004
            raise AssertionError(result["body"])
    return statistics.median(seconds)


def _event(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the event of an HTTP API, payload format 2.0, like those in `events/`."""
    event: dict[str, Any] = json.loads((ROOT / "events" / "api.create-batch.json").read_bytes())
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    event["requestContext"]["http"]["method"] = method
    event["headers"] = {"authorization": f"Bearer {KEY}", "content-type": "application/json", "host": "localhost"}
    event["body"] = "" if body is None else json.dumps(body)
    return event


if __name__ == "__main__":
    main()
