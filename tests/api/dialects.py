"""What the tests of the contracts share: request lines, models of several kinds, and batches that are brought to their end by hand."""

import json
from functools import partial
from typing import Any

import msgspec

from shared.core import lifecycle
from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.models import AdapterLimit, Model, Registry
from shared.core.records import Prices
from tests.api.world import PREFIXES, START, World

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"

PRICES = Prices(input=200_000, cached_input=50_000, output=600_000)


def model(name: str, **fields: Any) -> Model:
    """Give a model of the catalog, or with these fields another one."""
    return Model(
        **{
            "id": name,
            "revision": f"{name}@1",
            "source": name,
            "engine": "echo",
            "endpoints": (CHAT,),
            "context": 8192,
            "max_output": 4096,
            "prices": PRICES,
        }
        | fields
    )


def adapter(name: str, base: str = "tide-7b", **fields: Any) -> Model:
    """Give an adapter of acme's."""
    return model(f"ft:{name}", **{"base": base, "org": "acme", "rank": 16, "adapter_bytes": 90 << 20} | fields)


LIMITS = (AdapterLimit(rank=64, count=4), AdapterLimit(rank=32, count=9))

REGISTRY = Registry(
    (
        model("tide-7b", adapter_limits=LIMITS, adapters_bytes=1008 << 20),
        model("moon-1b"),
        model("shells", endpoints=(EMBEDDINGS,)),
        model("harbour", org="acme"),
        *(adapter(f"a{number}") for number in range(10)),
        *(adapter(f"wide{number}", rank=64) for number in range(5)),
        *(adapter(f"heavy{number}", adapter_bytes=600 << 20) for number in range(2)),
        model("resting", active=False),
        adapter("gone", active=False),
        adapter("theirs", org="other"),
        adapter("moonlit", base="moon-1b"),
    )
)


def world(**settings: Any) -> World:
    """Give a new world with these models."""
    return World(**{"registry": REGISTRY, "contracts": tuple(PREFIXES)} | settings)


def chat(custom_id: str = "a", **body: Any) -> dict[str, Any]:
    """Give a request line that every contract takes, but for these fields of its body."""
    body = {
        "model": "tide-7b",
        "messages": [{"role": "user", "content": "When is high water?"}],
        "max_tokens": 64,
    } | body
    fields = {name: value for name, value in body.items() if value is not ...}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": fields}


def jsonl(*lines: dict[str, Any]) -> bytes:
    """Write lines as a file."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def sectioned(*lines: dict[str, Any]) -> bytes:
    """Write a sectioned file of one section, `tides`, and these lines, or one request."""
    section = {
        "section": "tides",
        "method": "POST",
        "url": CHAT,
        "body": {"model": "tide-7b", "max_tokens": 64},
        "messages": [{"role": "system", "content": "You know the tides."}],
    }
    return jsonl({"format": "batchrouter.sectioned.v1"}, section, *(lines or (of_section(),)))


def of_section(custom_id: str = "a", section: str = "tides", **body: Any) -> dict[str, Any]:
    """Give a request of a section, with these fields in its body."""
    body = {"messages": [{"role": "user", "content": "When is high water?"}]} | body
    return {"custom_id": custom_id, "section": section, "body": body}


def upload(world: World, contract: str, content: bytes, **fields: Any) -> Any:
    """Upload a file by hand and give the answer."""
    file = ("requests.jsonl", content)
    return world.http(contract=contract).post("files", data={"purpose": "batch"} | fields, files={"file": file})


def create(world: World, contract: str, content: bytes | None = None, key: str | None = None, **fields: Any) -> Any:
    """Upload a file and create a batch of it; give the answer to the create. A field that is `...` is left out."""
    uploaded = upload(world, contract, content or jsonl(chat()))
    assert 200 == uploaded.status_code, uploaded.text
    body = {"input_file_id": uploaded.json()["id"], "endpoint": CHAT, "completion_window": "24h"} | fields
    body = {name: value for name, value in body.items() if value is not ...}
    headers = {} if key is None else {"idempotency-key": key}
    return world.http(contract=contract).post("batches", json=body, headers=headers)


def error(answer: Any) -> tuple[int, str, str | None]:
    """Give status, code and param of a refusal."""
    told = answer.json()["error"]
    return answer.status_code, told["code"], told["param"]


def end(world: World, contract: str, batch_id: str, *events: Event) -> None:
    """End a batch by hand, as the lifecycle would."""
    *before, last = events or (Event.REJECT,)
    ref = BatchRef("acme", contract, batch_id)
    for event in before:
        world.memory.batches.update(ref, partial(lifecycle.advance, event=event, at=int(START) + 9))
    world.memory.batches.finish(ref, partial(lifecycle.advance, event=last, at=int(START) + 9), ())


def record(world: World, contract: str, batch_id: str) -> dict[str, Any]:
    """Give a batch's record as plain values."""
    return dict(msgspec.structs.asdict(world.memory.batches.get(BatchRef("acme", contract, batch_id))))
