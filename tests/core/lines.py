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


FORMAT = {"format": "batchrouter.sectioned.v1"}


def section(name: object = "s", url: str = CHAT, *messages: object, **fields: Any) -> dict[str, Any]:
    """Give a good section as a value, with these messages and `fields` in its body."""
    told = {"section": name, "method": "POST", "url": url, "body": {"model": "echo"} | fields}
    return told | ({"messages": list(messages)} if messages else {})


def part(custom_id: object = "a", name: object = "s", **fields: Any) -> dict[str, Any]:
    """Give a request of a section as a value, with `fields` in its body."""
    return {"custom_id": custom_id, "section": name, "body": fields}


def message(text: str, role: str = "user") -> dict[str, Any]:
    """Give a message of a chat."""
    return {"role": role, "content": text}
