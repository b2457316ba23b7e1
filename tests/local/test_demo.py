import json
from io import StringIO
from pathlib import Path

import httpx
import pytest
from openai import OpenAI
from rich.console import Console

from local.demo import demonstrate

FILE = {"id": "file-in", "object": "file", "bytes": 1, "created_at": 1, "filename": "f", "purpose": "batch"}
BATCH = {
    "id": "batch_1",
    "object": "batch",
    "endpoint": "/v1/chat/completions",
    "input_file_id": "file-in",
    "completion_window": "24h",
    "status": "completed",
    "created_at": 1,
    "output_file_id": "file-out",
}


def answering(text: str) -> OpenAI:
    """A client of a server whose model answers the first ticket with `text`."""
    message = {"role": "assistant", "content": text}
    row = {"id": "batch_req_1", "custom_id": "ticket-1001", "response": {"body": {"choices": [{"message": message}]}}}

    def serve(request: httpx.Request) -> httpx.Response:
        match request.url.path:
            case "/v1/files":
                return httpx.Response(200, json=FILE)
            case "/v1/batches":
                return httpx.Response(200, json=BATCH)
        return httpx.Response(200, text=json.dumps(row) + "\n")

    http = httpx.Client(transport=httpx.MockTransport(serve))
    return OpenAI(base_url="http://127.0.0.1/v1", api_key="sk-local", http_client=http)


@pytest.mark.parametrize("text", ["Use [/b] and [red]", "[bold", "ends with [/]"])
def test_what_a_model_writes_in_brackets_is_shown_as_it_is(text: str, tmp_path: Path) -> None:
    """An answer may have what would be markup in a console, balanced or not."""
    said = StringIO()

    assert demonstrate(answering(text), tmp_path, Console(file=said, width=200))
    assert text in said.getvalue()
