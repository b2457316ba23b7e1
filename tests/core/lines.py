"""Request lines to begin with."""

import json
from typing import Any

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
RESPONSES = "/v1/responses"

BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "echo", "messages": [{"role": "user", "content": "hi"}]},
    COMPLETIONS: {"model": "echo", "prompt": "hi"},
    EMBEDDINGS: {"model": "echo", "input": "hi"},
    RESPONSES: {"model": "echo", "input": "hi"},
}


def request(custom_id: object = "a", url: str = CHAT, **fields: Any) -> dict[str, Any]:
    """Give a good request line as a value; `fields` are added to its body."""
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": BODIES[url] | fields}


def written(value: object) -> bytes:
    """Write a value as one line, without its newline, as people do."""
    return json.dumps(value, ensure_ascii=False).encode()
