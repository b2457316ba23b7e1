"""The official Python SDK, unchanged: base URL and key are all that it is told. The Node one is in `test_node_sdk`."""

import hashlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from openai import AuthenticationError, BadRequestError, ConflictError, NotFoundError, OpenAI, RateLimitError

from local.options import MOUNTS
from tests.e2e.stack import LocalStack, assert_exactly_once, chat, jsonl, rows, submit, until

pytestmark = pytest.mark.stack


@pytest.fixture(params=["openai", "gridline"])
def contract(request: pytest.FixtureRequest) -> str:
    """The contracts whose references say that the SDK works unchanged."""
    contract: str = request.param
    return contract


@pytest.fixture
def client(stack: LocalStack, contract: str) -> Iterator[OpenAI]:
    """The SDK at a contract's mount."""
    with stack.client(contract=contract) as client:
        yield client


def test_the_whole_cycle(client: OpenAI) -> None:
    """Upload, create, poll, download: the answers come back under their custom_ids."""
    lines = [chat(f"question-{index}", f"number {index}") for index in range(20)]
    batch = until(client, submit(client, lines))
    assert "completed" == batch.status
    assert batch.error_file_id is None
    found = assert_exactly_once(client, batch, lines)
    answer = found["question-7"]["response"]["body"]
    assert ("echo", "echo: number 7") == (answer["model"], answer["choices"][0]["message"]["content"])
    assert batch.usage is not None
    assert batch.usage.output_tokens == sum(
        row["response"]["body"]["usage"]["completion_tokens"] for row in found.values()
    )


def test_files_and_batches_are_listed_each_once(client: OpenAI) -> None:
    """Walking a list with the SDK's own pagination gives each of its objects once, newest first."""
    made = [until(client, submit(client, [chat("only", "hi")])) for _ in range(5)]
    batches = [batch.id for batch in client.batches.list(limit=2)]
    files = [file.id for file in client.files.list(limit=2, purpose="batch")]
    for listed, expected in ((batches, [b.id for b in made]), (files, [b.input_file_id for b in made])):
        assert len(listed) == len(set(listed))
        assert expected[::-1] == listed[:5]


def test_a_long_list_is_walked_in_pages(stack: LocalStack) -> None:
    """Each of 45 batches once, newest first, 20 a page."""
    with stack.client() as client:
        made = [submit(client, [chat("only", "hi")]).id for _ in range(45)]
        listed = [batch.id for batch in client.batches.list(limit=20)]
    assert len(listed) == len(set(listed))
    assert made[::-1] == listed[:45]


def test_a_file_comes_from_wherever_the_sdk_takes_one(client: OpenAI, tmp_path: Path) -> None:
    """A path, an open file, bytes in memory; each is whole, and lives as long as it was told."""
    content = jsonl([chat(f"line-{number}", "hi") for number in range(500)])
    path = tmp_path / "requests.jsonl"
    path.write_bytes(content)
    with path.open("rb") as opened:
        for source in (path, opened, ("requests.jsonl", BytesIO(content))):
            file = client.files.create(
                file=source, purpose="batch", expires_after={"anchor": "created_at", "seconds": 8 * 86400}
            )
            assert ("requests.jsonl", len(content), "processed") == (file.filename, file.bytes, file.status)
            assert file.created_at + 8 * 86400 == file.expires_at
            assert content == client.files.content(file.id).content
    assert client.files.delete(file.id).deleted
    with pytest.raises(NotFoundError):
        client.files.content(file.id)


def test_a_file_goes_up_in_parts(client: OpenAI, tmp_path: Path) -> None:
    """With the SDK's own helper, in parts that fit through API Gateway; the digest is of the whole."""
    content = jsonl([chat(f"line-{number}", "x" * 1000) for number in range(6000)])
    path = tmp_path / "requests.jsonl"
    path.write_bytes(content)
    upload = client.uploads.upload_file_chunked(
        file=path,
        mime_type="application/jsonl",
        purpose="batch",
        part_size=4 << 20,
        md5=hashlib.md5(content, usedforsecurity=False).hexdigest(),
    )
    assert upload.file is not None
    assert ("completed", len(content)) == (upload.status, upload.file.bytes)
    assert content == client.files.content(upload.file.id).content


def test_a_content_that_does_not_fit_into_an_answer_comes_by_redirect(
    client: OpenAI, narrow: int, contract: str
) -> None:
    """The SDK follows it to the store, in one piece or as a stream."""
    content = jsonl([chat(f"line-{number}", "hi") for number in range(50)])
    file = client.files.create(file=("requests.jsonl", content), purpose="batch")
    with OpenAI(base_url=f"http://127.0.0.1:{narrow}{MOUNTS[contract]}", api_key="sk-local") as narrow_client:
        answer = narrow_client.files.content(file.id)
        with narrow_client.files.with_streaming_response.content(file.id) as stream:
            streamed = b"".join(stream.iter_bytes())
    assert [302] == [response.status_code for response in answer.response.history]
    assert "authorization" not in answer.response.request.headers
    assert content == answer.content == streamed


def test_refusals_are_the_exceptions_of_the_sdk(stack: LocalStack, client: OpenAI, contract: str) -> None:
    """Each with code and param; those that a repetition would not change say so."""
    batch = submit(client, [chat("slow", "[[delay 3]]")])
    with stack.client("sk-nobody", contract) as stranger, pytest.raises(AuthenticationError) as unknown:
        stranger.files.list()
    with pytest.raises(BadRequestError) as too_many:
        client.batches.list(limit=101)
    with pytest.raises(BadRequestError) as empty:
        client.files.create(file=("requests.jsonl", b"\n"), purpose="batch")
    with pytest.raises(ConflictError) as in_use:
        client.files.delete(batch.input_file_id)
    told = [(error.value.code, error.value.param) for error in (unknown, too_many, empty, in_use)]
    assert [
        ("invalid_api_key", None),
        ("integer_above_max_value", "limit"),
        ("empty_file", "file"),
        ("file_in_use", None),
    ] == told
    assert "false" == in_use.value.response.headers["x-should-retry"]
    until(client, batch)


def test_the_limit_of_unfinished_batches_is_a_429(stack: LocalStack) -> None:
    """It names the limit and how much of it is used, and a repetition would not help."""
    with stack.client(contract="gridline") as client:
        open_ones = [submit(client, [chat("slow", "[[delay 3]]")]) for _ in range(2)]
        with pytest.raises(RateLimitError) as full:
            submit(client, [chat("one more", "hi")])
        assert isinstance(full.value.body, dict)
        assert {"limit": 2, "current": 2} == {name: full.value.body["limit"][name] for name in ("limit", "current")}
        assert "false" == full.value.response.headers["x-should-retry"]
        for batch in open_ones:
            until(client, batch)


def test_a_cancelled_batch_ends_cancelled(client: OpenAI) -> None:
    """A cancel while a line runs ends the batch with a row for it."""
    batch = submit(client, [chat("slow", "[[delay 3]]")])
    assert client.batches.cancel(batch.id).status in {"cancelling", "cancelled"}
    batch = until(client, batch)
    assert "cancelled" == batch.status
    assert {"slow"} == rows(client, batch).keys()


def test_another_organization_sees_nothing(stack: LocalStack, client: OpenAI, contract: str) -> None:
    """Files and batches of one organization do not exist for another."""
    batch = until(client, submit(client, [chat("mine", "hi")]))
    with stack.client("sk-limited", contract) as other:
        with pytest.raises(NotFoundError):
            other.batches.retrieve(batch.id)
        with pytest.raises(NotFoundError):
            other.files.content(batch.output_file_id or "")


def test_two_organizations_share_one_engine(stack: LocalStack, client: OpenAI, contract: str) -> None:
    """Batches of one model run in the same engine, whoever they belong to."""
    until(client, submit(client, [chat("warm", "hi")]))
    before = stack.engine_starts()
    with stack.client("sk-limited", contract) as other:
        mine = submit(client, [chat(f"a-{index}", "[[delay 0.2]]") for index in range(50)])
        theirs = submit(other, [chat(f"b-{index}", "[[delay 0.2]]") for index in range(50)])
        assert "completed" == until(client, mine).status
        assert "completed" == until(other, theirs).status
    assert before == stack.engine_starts()
