"""The real thing: vLLM with a real model behind the whole system. All tests share two servers: one that writes, one that embeds."""

import base64
import io
import math
import operator
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from local.demo import demonstrate
from local.options import ROOT
from tests.e2e.stack import LocalStack, assert_exactly_once, chat, embedding, submit, until

pytestmark = [pytest.mark.stack, pytest.mark.vllm]

MODEL = "smollm2-135m"
EMBEDDER = "all-minilm-l6-v2"


def test_the_demonstration_answers_every_ticket(vllm_stack: LocalStack, tmp_path: Path) -> None:
    """The tickets come back answered, the capital of France among them, and the files are where it says."""
    said = io.StringIO()
    with vllm_stack.client() as client:
        assert demonstrate(client, tmp_path, Console(file=said, width=200))
    assert "Paris" in said.getvalue()
    assert 1 == len(list(tmp_path.glob("*_output.jsonl")))


def test_bad_rows_among_good_ones(vllm_stack: LocalStack) -> None:
    """What the model cannot do is an error row of its own: a prompt that is too long, a schema that is none, a schema that breaks the engine's parser."""
    lines = [chat(f"good-{index}", f"Say the number {index}.", MODEL, max_tokens=8) for index in range(6)]
    lines += [
        chat("too-long", "word " * 5000, MODEL, max_tokens=8),
        chat("no-schema", "hi", MODEL, max_tokens=8, response_format=_schema({"type": "not-a-type"})),
        chat("recursive", "hi", MODEL, max_tokens=8, response_format=_schema({"$ref": "#"})),
    ]
    with vllm_stack.client() as client:
        batch = until(client, submit(client, lines))
        assert "completed" == batch.status
        found = assert_exactly_once(client, batch, lines)
    statuses = {custom_id: row["response"]["status_code"] for custom_id, row in found.items() if row["response"]}
    assert {200} == {status for custom_id, status in statuses.items() if custom_id.startswith("good")}
    assert 400 == statuses["too-long"]
    assert "context_length_exceeded" == found["too-long"]["response"]["body"]["error"]["code"]
    assert 400 == statuses["no-schema"]
    assert 500 == statuses["recursive"]


def test_the_readme_s_example_runs(vllm_stack: LocalStack) -> None:
    """The Python of the README, unchanged but for the port, creates a batch that completes."""
    text = (ROOT / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0].replace(":8000/", f":{vllm_stack.port}/")
    done = subprocess.run(
        [sys.executable, "-c", code + "\nprint(batch.id)"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    with vllm_stack.client() as client:
        assert "completed" == until(client, client.batches.retrieve(done.stdout.split()[-1])).status


def test_the_readme_s_commands_run(vllm_stack: LocalStack, tmp_path: Path) -> None:
    """`slackwater submit --wait` brings the answers into a folder."""
    slackwater = Path(sys.executable).with_name("slackwater")
    environment = {**os.environ, "SLACKWATER_BASE_URL": f"http://127.0.0.1:{vllm_stack.port}/v1"}
    tickets = ROOT / "examples" / "support-tickets.jsonl"
    done = subprocess.run(
        [slackwater, "submit", tickets, "--wait", "-o", tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    assert "Paris" in "".join(path.read_text() for path in tmp_path.glob("*_output.jsonl"))


def test_embeddings(vllm_stack: LocalStack) -> None:
    """Vectors of length 1 in either encoding, near to each other where the texts are; tokens are counted, and a text that is too long fails its line alone."""
    cat, feline, bill = "The cat sits on the mat.", "A cat is sitting on a rug.", "Please send me the invoice."
    lines = [
        embedding("several", [cat, feline, bill], EMBEDDER),
        embedding("base64", cat, EMBEDDER, encoding_format="base64"),
        embedding("too-long", "word " * 400, EMBEDDER),
        embedding("one-too-long", [cat, "word " * 400], EMBEDDER),
    ]
    with vllm_stack.client() as client:
        batch = until(client, submit(client, lines))
        assert "completed" == batch.status
        found = assert_exactly_once(client, batch, lines)
    vectors = [item["embedding"] for item in found["several"]["response"]["body"]["data"]]
    assert [384] * 3 == [len(vector) for vector in vectors]
    assert all(1 == pytest.approx(math.hypot(*vector), abs=1e-4) for vector in vectors)
    assert _likeness(vectors[0], vectors[1]) > 0.6
    assert _likeness(vectors[0], vectors[2]) < 0.3
    packed = base64.b64decode(found["base64"]["response"]["body"]["data"][0]["embedding"])
    assert vectors[0] == pytest.approx(struct.unpack("<384f", packed), abs=1e-4)
    for custom_id in ("too-long", "one-too-long"):
        assert "context_length_exceeded" == found[custom_id]["response"]["body"]["error"]["code"]
    told = sum(found[name]["response"]["body"]["usage"]["prompt_tokens"] for name in ("several", "base64"))
    assert batch.usage is not None
    assert (told, 0) == (batch.usage.input_tokens, batch.usage.output_tokens)
    with vllm_stack.client(contract="gridline") as client:
        batch = until(client, submit(client, lines))
        found = assert_exactly_once(client, batch, lines)
    assert (None, "context_length_exceeded") == (found["too-long"]["response"], found["too-long"]["error"]["code"])


def _likeness(one: list[float], other: list[float]) -> float:
    return sum(map(operator.mul, one, other))


def _schema(schema: dict[str, object]) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
