"""Structured outputs, checked after the fact: an answer that was to be JSON is JSON, and as its schema has it, or it is no answer.

Engines keep a model to a schema while it writes, but not to all of a schema, and not every engine. Rules:

- What is checked is every answer of a request whose `response_format` (in /v1/responses `text.format`) is `json_object` or `json_schema`.
- An answer that was cut off at its cap is given as it is; so is a call of a tool, or a refusal.
- Schemas are strangers' programs: they are run in a process of their own (`gpu_job.schema_process`), which has little time and reads nothing from anywhere.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from gpu_job.schema_process import Task, Verdict
from shared.core.request_line import RequestLine

RESPONSES = "/v1/responses"
INVALID = "structured_output_invalid"
UNUSABLE = "invalid_request"
LATE = "its schema takes too long to check"
CPU_SECONDS = 2.0
"""The processor's time that one check may take: a thousand times what is usual."""
LATE_ENOUGH = 3
"""How often a schema may take too long, until it is given no more time."""


class Format(NamedTuple):
    """The JSON that a request wants: as `schema` has it; None: an object of any kind."""

    schema: Any


class Flaw(NamedTuple):
    """Why the answers do not count: a code of the HTTP contract, a sentence for the caller, and the field of the request at fault, if it is one."""

    code: str
    message: str
    param: str | None = None


def wanted(request: RequestLine) -> Format | None:
    """Give the JSON that a request wants, if it does. What is no format at all is the engine's to refuse."""
    told = request.body.get("response_format")
    if request.url == RESPONSES:
        text = request.body.get("text")
        told = text.get("format") if isinstance(text, dict) else None
    match told:
        case {"type": "json_object"}:
            return Format(None)
        case {"type": "json_schema", "json_schema": {"schema": schema}} | {"type": "json_schema", "schema": schema}:
            return Format(schema)
        case {"type": "json_schema"}:
            return Format(schema=True)
    return None


def answers(body: dict[str, Any]) -> list[str]:
    """Give the texts of an engine's answer that ended by themselves."""
    if "output" in body:
        return [_text(item) for item in _objects(body, "output") if item.get("type") == "message" and _ended(body)]
    texts = []
    for choice in _objects(body, "choices"):
        message = choice.get("message", {"content": choice.get("text")})
        if choice.get("finish_reason") != "length" and isinstance(message, dict):
            text = message.get("content")
            if not message.get("tool_calls") and not message.get("refusal"):
                texts.append(text if isinstance(text, str) else "")
    return texts


def _ended(response: dict[str, Any]) -> bool:
    return bool(response.get("status") == "completed")


def _text(message: dict[str, Any]) -> str:
    parts = (part.get("text") for part in _objects(message, "content") if part.get("type") == "output_text")
    return "".join(part for part in parts if isinstance(part, str))


def _objects(parent: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Give the objects of a list, whatever the engine made of it."""
    found = parent.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


class StructuredOutputs:
    """Checks answers. Its process starts with the first schema, and ends with `close`, or with this one."""

    def __init__(self, *, cpu_seconds: float = CPU_SECONDS) -> None:
        self._cpu_seconds = cpu_seconds
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._late: Counter[bytes] = Counter()

    async def flaw(self, url: str, form: Format, body: dict[str, Any]) -> Flaw | None:
        """Give what is wrong with an engine's answers to a request at that url, if anything is."""
        texts = answers(body)
        for text in texts:
            if (reason := _unreadable(text, form)) is not None:
                return Flaw(INVALID, f"The answer {reason}.")
        if form.schema is None or not texts:
            return None
        verdict = await self._verdict(form.schema, texts)
        if verdict.unusable is not None:
            where = "text.format" if url == RESPONSES else "response_format"
            return Flaw(UNUSABLE, f"The answer could not be checked: {verdict.unusable}.", f"body.{where}")
        if verdict.flaw is not None:
            return Flaw(INVALID, f"The answer is not what its schema asks for: {verdict.flaw}.")
        return None

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _verdict(self, schema: object, texts: list[str]) -> Verdict:
        written = msgspec.json.encode(schema)
        digest = sha256(written).digest()
        if self._late[digest] >= LATE_ENOUGH:
            return Verdict(unusable=LATE)
        task = msgspec.json.encode(Task(msgspec.Raw(written), texts)) + b"\n"
        async with self._turn:
            told = await self._asked(task)
        if told:
            return msgspec.json.decode(told, type=Verdict)
        self._late[digest] += 1
        return Verdict(unusable=LATE)

    async def _asked(self, task: bytes) -> bytes:
        """Send a task and give the line that is said to it: empty when the process died of it."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gpu_job.schema_process",
                str(self._cpu_seconds),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
            )
        told = b""
        try:
            if self._process.stdin is None or self._process.stdout is None:
                raise AssertionError("it speaks through pipes")
            with suppress(ConnectionError):
                self._process.stdin.write(task)
                await self._process.stdin.drain()
                told = await self._process.stdout.readline()
        finally:
            if not told:  # it died; or nobody waits for its word any more, which must not be taken for the next one
                await self.close()
        return told


def _unreadable(text: str, form: Format) -> str | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "is not JSON"
    if form.schema is None and not isinstance(value, dict):
        return "is JSON but not an object"
    return None
