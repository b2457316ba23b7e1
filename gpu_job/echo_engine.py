"""An engine without a model: a small deterministic OpenAI-compatible server that can be told to fail.

    python -m gpu_job.echo_engine --port N [--model engine] [--max-model-len 32768] [--slots 0] [--token-delay 0]

It takes the place of vLLM in tests, local runs and load simulations, so it answers the way vLLM does: the same error
envelope, the same metric names, 404 for a model it does not serve. What it answers, and the directives that make it
fail, is in `gpu_job.echo_answers`. It serves on loopback only and writes nothing about requests anywhere.
"""

import argparse
import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import msgspec
from aiohttp import web

from gpu_job.echo_answers import Answer, ChatRequest, CompletionRequest, Directives, EmbeddingRequest, Request

_LARGEST_BODY = 1 << 30  # media stands inline in a body
_PENDING_CONNECTIONS = 1024  # a worker opens all of its connections at once
_KINDS: Mapping[str, tuple[type[Request], str]] = {
    "/v1/chat/completions": (ChatRequest, "chatcmpl"),
    "/v1/completions": (CompletionRequest, "cmpl"),
    "/v1/embeddings": (EmbeddingRequest, "embd"),
}


@dataclass(frozen=True)
class Options:
    """How the server behaves.

    Attributes:
        model: The one model name that requests may give.
        max_model_len: The most words of a prompt.
        slots: How many requests are served at once while the others wait; 0 is no bound.
        token_delay: Seconds that each generated token takes.

    """

    model: str = "engine"
    max_model_len: int = 32_768
    slots: int = 0
    token_delay: float = 0.0


class Adapter(msgspec.Struct):
    """POST /v1/load_lora_adapter."""

    lora_name: str
    lora_path: str


class EchoServer:
    """The endpoints over one set of counters."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._started = int(time.time())
        self._ids = itertools.count(1)
        self._slots = asyncio.Semaphore(options.slots) if options.slots else None
        self._adapters: set[str] = set()
        self._running = self._waiting = self._prompt_tokens = self._generated_tokens = 0

    def app(self) -> web.Application:
        """Build the server's application."""
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/load_lora_adapter", self._load)
        for path in _KINDS:
            app.router.add_post(path, self._serve)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _models(self, _request: web.Request) -> web.Response:
        model = {
            "id": self._options.model,
            "object": "model",
            "created": self._started,
            "owned_by": "slackwater",
            "max_model_len": self._options.max_model_len,
        }
        return _json({"object": "list", "data": [model]})

    async def _metrics(self, _request: web.Request) -> web.Response:
        samples = {
            ("num_requests_running", "gauge"): self._running,
            ("num_requests_waiting", "gauge"): self._waiting,
            ("prompt_tokens_total", "counter"): self._prompt_tokens,
            ("generation_tokens_total", "counter"): self._generated_tokens,
        }
        return web.Response(
            text="".join(
                f'# TYPE vllm:{name} {kind}\nvllm:{name}{{model_name="{self._options.model}"}} {float(value)}\n'
                for (name, kind), value in samples.items()
            )
        )

    async def _load(self, request: web.Request) -> web.Response:
        """Take any folder that has an adapter's configuration, which may name a fault."""
        asked = msgspec.json.decode(await request.read(), type=Adapter)
        config = Path(asked.lora_path) / "adapter_config.json"
        if asked.lora_name in self._adapters:
            return _error(HTTPStatus.BAD_REQUEST, "It has already been loaded.", kind="InvalidUserInput")
        if not config.exists():
            return _error(HTTPStatus.NOT_FOUND, f"There is nothing at {config.parent}.")
        if (fault := msgspec.json.decode(config.read_bytes()).get("fault")) == "crash":
            os._exit(1)
        if fault is not None:
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, f"The adapter at {config.parent} is for another model.")
        self._adapters.add(asked.lora_name)
        return web.Response(text=f"Success: LoRA adapter '{asked.lora_name}' added successfully.")

    async def _serve(self, request: web.Request) -> web.Response:
        kind, prefix = _KINDS[request.path]
        try:
            asked = msgspec.json.decode(await request.read(), type=kind, strict=False)
        except msgspec.DecodeError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        if asked.model not in (None, self._options.model, *self._adapters):
            return _error(HTTPStatus.NOT_FOUND, f"The model `{asked.model}` does not exist.", param="model")
        words = asked.prompt_tokens()
        if words > self._options.max_model_len:
            return _error(
                HTTPStatus.BAD_REQUEST,
                f"This model's maximum context length is {self._options.max_model_len} tokens. However, your request "
                f"has {words} input tokens. Please reduce the length of the input messages.",
                param="input_tokens",
            )
        async with self._slot():
            self._prompt_tokens += words
            return await self._respond(asked, prefix)

    async def _respond(self, asked: Request, prefix: str) -> web.Response:
        directives = Directives.of(asked.text())
        if directives.delay:
            await asyncio.sleep(directives.delay)
        if "crash" in directives.faults:
            os._exit(1)
        if "hang" in directives.faults:
            await asyncio.get_running_loop().create_future()
        if directives.status is not None:
            return _error(directives.status, f"The request asked for status {directives.status}.")
        if "garbage" in directives.faults:
            return web.Response(body=b"\xff\x00 not JSON {", content_type="application/json")
        answer: Answer = asked.answer(directives)
        if self._options.token_delay:
            await asyncio.sleep(self._options.token_delay * answer.generated)
        self._generated_tokens += answer.generated
        named = {
            "id": f"{prefix}-{next(self._ids)}",
            "created": int(time.time()),
            "model": asked.model or self._options.model,
        }
        return _json(named | answer.body)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Count the request as waiting until it has a slot, then as running until it is answered or given up."""
        if self._slots is not None:
            self._waiting += 1
            try:
                await self._slots.acquire()
            finally:
                self._waiting -= 1
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if self._slots is not None:
                self._slots.release()


def _json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _error(status: int, message: str, *, param: str | None = None, kind: str | None = None) -> web.Response:
    kind = kind or {400: "BadRequestError", 404: "NotFoundError", 429: "RateLimitError"}.get(
        status, "InternalServerError"
    )
    body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": status}})
    return web.Response(status=status, body=body, content_type="application/json")


def main() -> None:
    """Serve until SIGTERM or SIGINT; requests in flight then get no answer."""
    parser = argparse.ArgumentParser(prog="python -m gpu_job.echo_engine", description="A deterministic test engine.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default=Options.model, help="the model name that requests may give")
    parser.add_argument("--max-model-len", type=int, default=Options.max_model_len, help="the most words of a prompt")
    parser.add_argument("--slots", type=int, default=Options.slots, help="requests served at once; 0 is no bound")
    parser.add_argument("--token-delay", type=float, default=Options.token_delay, help="seconds a generated token")
    arguments = vars(parser.parse_args())
    port = arguments.pop("port")
    web.run_app(
        EchoServer(Options(**arguments)).app(),
        host="127.0.0.1",
        port=port,
        access_log=None,
        print=None,
        backlog=_PENDING_CONNECTIONS,
        handler_cancellation=True,  # a client that went away frees its slot
        shutdown_timeout=0.1,
    )


if __name__ == "__main__":
    main()
