"""The real thing: vLLM with a real model behind the whole system. All tests share two servers: one that writes, one that embeds."""

import base64
import io
import json
import math
import operator
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from local.demo import demonstrate
from local.options import ROOT
from tests.e2e.stack import LocalStack, assert_exactly_once, chat, embedding, line, submit, until

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


def test_adapters_and_their_base_in_one_batch(vllm_stack: LocalStack) -> None:
    """Each row is answered by the model that it names, be it loaded or not; one that cannot be loaded fails its own rows alone."""
    names = [MODEL, f"ft:{MODEL}:one", f"ft:{MODEL}:two", f"ft:{MODEL}:damaged"]
    question = "What is the capital of France? Tell me all about it."
    lines = [chat(f"{name} {n}", question, name, max_tokens=16, temperature=0) for n in range(3) for name in names]
    with vllm_stack.client() as client:
        batch = until(client, submit(client, lines))
        assert "completed" == batch.status
        found = assert_exactly_once(client, batch, lines)
    bodies = {name: [found[f"{name} {n}"]["response"]["body"] for n in range(3)] for name in names}
    assert ["model_not_found"] * 3 == [body["error"]["code"] for body in bodies.pop(names[3])]
    assert all(name == body["model"] for name, answers in bodies.items() for body in answers)
    said = {name: {_said(body) for body in answers} for name, answers in bodies.items()}
    assert [1, 1, 1] == [len(texts) for texts in said.values()]
    assert 3 == len(set.union(*said.values()))


def test_structured_outputs(vllm_stack: LocalStack) -> None:
    """What a schema asks for comes back; so does what was cut off, as it is."""
    city = _schema(
        {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}, "large": {"type": "boolean"}},
            "required": ["city", "large"],
            "additionalProperties": False,
        }
    )
    lines = [
        chat(
            "schema",
            "Which city is the capital of France?",
            MODEL,
            max_tokens=40,
            n=2,
            temperature=1,
            response_format=city,
        ),
        chat("cut", "Write a long story.", MODEL, max_tokens=8, response_format={"type": "json_object"}),
    ]
    with vllm_stack.client() as client:
        batch = until(client, submit(client, lines))
        assert "completed" == batch.status
        found = assert_exactly_once(client, batch, lines)
    choices = [json.loads(choice["message"]["content"]) for choice in found["schema"]["response"]["body"]["choices"]]
    assert [True, True] == [answer["city"] in {"Paris", "Rome"} for answer in choices]
    assert "length" == found["cut"]["response"]["body"]["choices"][0]["finish_reason"]


def test_completions_and_responses(vllm_stack: LocalStack) -> None:
    """The other two endpoints of a model that writes; a text that is too long fails its line alone."""
    completions, responses = "/v1/completions", "/v1/responses"
    city = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
    form = {"type": "json_schema", "name": "city", "schema": city}
    kinds = [
        [
            line("several", completions, model=MODEL, prompt=["Paris is", "Rome is"], max_tokens=4),
            line("too-long", completions, model=MODEL, prompt="word " * 4000, max_tokens=4),
        ],
        [
            line("text", responses, model=MODEL, input="What is the capital of France?", temperature=0),
            line("json", responses, model=MODEL, input="Name a city.", max_output_tokens=40, text={"format": form}),
            line("too-long", responses, model=MODEL, input="word " * 4000),
        ],
    ]
    found = {}
    with vllm_stack.client() as client:
        for batch, lines in [(submit(client, lines), lines) for lines in kinds]:
            ended = until(client, batch)
            rows = assert_exactly_once(client, ended, lines)
            assert "context_length_exceeded" == rows.pop("too-long")["response"]["body"]["error"]["code"]
            assert ended.usage is not None
            assert min(ended.usage.input_tokens, ended.usage.output_tokens) > 0
            found |= {custom_id: row["response"]["body"] for custom_id, row in rows.items()}
    assert [0, 1] == [choice["index"] for choice in found["several"]["choices"]]
    assert "Paris" in found["text"]["output"][-1]["content"][0]["text"]
    assert json.loads(found["json"]["output"][-1]["content"][0]["text"])["city"] in {"Paris", "Rome"}


@pytest.mark.parametrize("fault", ["killed", "hung"])
def test_an_engine_that_is_killed_or_hangs_in_the_middle(vllm_stack: LocalStack, fault: str) -> None:
    """The next one takes over what was inside, and loads its adapters again; nothing is lost, and nothing answered twice.

    A core that hangs leaves the server in front of it well.
    """
    names = [MODEL, f"ft:{MODEL}:one"]
    lines = [chat(f"short {n}", "hi", names[n % 2], max_tokens=2) for n in range(4)]
    lines += [chat(f"long {n}", "Count.", names[n % 2], max_tokens=60, ignore_eos=True) for n in range(4)]
    with vllm_stack.client() as client:
        batch = until(client, submit(client, lines), done=1)
        hit = vllm_stack.engines() if fault == "killed" else vllm_stack.engine_cores()
        for pid in hit:
            os.kill(pid, signal.SIGKILL if fault == "killed" else signal.SIGSTOP)
        batch = until(client, batch)
        assert hit
        assert not {*hit} & {*vllm_stack.engines(), *vllm_stack.engine_cores()}
        found = assert_exactly_once(client, batch, lines)
    assert "completed" == batch.status
    assert {200} == {row["response"]["status_code"] for row in found.values()}


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


def _said(body: dict[str, Any]) -> str:
    return str(body["choices"][0]["message"]["content"])


def _likeness(one: list[float], other: list[float]) -> float:
    return sum(map(operator.mul, one, other))


def _schema(schema: dict[str, object]) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
