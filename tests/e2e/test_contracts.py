"""Each contract through the whole stack: create, run, download, with the official SDK."""

from typing import Any

import pytest
from openai import NotFoundError, OpenAI
from openai.types import Batch

from tests.e2e.stack import LocalStack, assert_exactly_once, chat, jsonl, rows, until

pytestmark = pytest.mark.stack


def submit(client: OpenAI, lines: list[dict[str, Any]], **fields: Any) -> Batch:
    """Upload lines and create a batch of them, with a key of its own."""
    file = client.files.create(file=("requests.jsonl", jsonl(lines)), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_headers={"Idempotency-Key": file.id},
        extra_body=fields,
    )


LINES = [chat("good", "When is high water?", max_tokens=64), chat("bad", "[[status 400]] no", max_tokens=64)]


@pytest.mark.parametrize("contract", ["openai", "boardwalk", "gridline", "token360"])
def test_a_batch_of_each_contract_comes_back(stack: LocalStack, contract: str) -> None:
    """One row is an answer, one an error, as the contract writes them; the file of each is there."""
    with stack.client(contract=contract) as client:
        batch = until(client, submit(client, LINES))
        assert "completed" == batch.status
        found = assert_exactly_once(client, batch, LINES)
    assert "echo" == found["good"]["response"]["body"]["model"]
    if contract == "gridline":
        assert (None, "invalid_request") == (found["bad"]["response"], found["bad"]["error"]["code"])
    else:
        assert (400, None) == (found["bad"]["response"]["status_code"], found["bad"]["error"])


def test_a_boardwalk_batch_has_both_files_and_leaves_no_input(stack: LocalStack) -> None:
    """The error file has no bytes, and can be downloaded."""
    with stack.client(contract="boardwalk") as client:
        batch = until(client, submit(client, LINES[:1]))
        assert batch.error_file_id is not None
        assert b"" == client.files.content(batch.error_file_id).content
        assert ["good"] == list(rows(client, batch))
        with pytest.raises(NotFoundError):
            client.files.retrieve(batch.input_file_id)
