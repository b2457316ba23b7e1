"""The official SDK, unchanged: base URL and key are all that it is told."""

import pytest
from openai import NotFoundError, OpenAI

from tests.e2e.stack import LocalStack, assert_exactly_once, chat, rows, submit, until

pytestmark = pytest.mark.stack


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


def test_batches_are_listed_each_once(client: OpenAI) -> None:
    """Walking the list with the SDK's own pagination gives each of 45 batches once, newest first."""
    made = [submit(client, [chat("only", "hi")]).id for _ in range(45)]
    listed = [batch.id for batch in client.batches.list(limit=20)]
    assert len(listed) == len(set(listed))
    assert made[::-1] == [batch for batch in listed if batch in set(made)]
    for batch in made:
        until(client, client.batches.retrieve(batch))


def test_a_cancelled_batch_ends_cancelled(client: OpenAI) -> None:
    """A cancel while a line runs ends the batch with a row for it."""
    batch = submit(client, [chat("slow", "[[delay 3]]")])
    assert client.batches.cancel(batch.id).status in {"cancelling", "cancelled"}
    batch = until(client, batch)
    assert "cancelled" == batch.status
    assert {"slow"} == rows(client, batch).keys()


def test_another_organization_sees_nothing(stack: LocalStack, client: OpenAI) -> None:
    """Files and batches of one organization do not exist for another."""
    batch = until(client, submit(client, [chat("mine", "hi")]))
    with stack.client("sk-limited") as other:
        with pytest.raises(NotFoundError):
            other.batches.retrieve(batch.id)
        with pytest.raises(NotFoundError):
            other.files.content(batch.output_file_id or "")


def test_two_organizations_share_one_engine(stack: LocalStack, client: OpenAI) -> None:
    """Batches of one model run in the same engine, whoever they belong to."""
    until(client, submit(client, [chat("warm", "hi")]))
    before = stack.engine_starts()
    with stack.client("sk-limited") as other:
        mine = submit(client, [chat(f"a-{index}", "[[delay 0.2]]") for index in range(50)])
        theirs = submit(other, [chat(f"b-{index}", "[[delay 0.2]]") for index in range(50)])
        assert "completed" == until(client, mine).status
        assert "completed" == until(other, theirs).status
    assert before == stack.engine_starts()
