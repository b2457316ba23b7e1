"""The `gridline` contract: plain chat and embeddings at two windows, adapters beside their base, failures without an HTTP answer."""

from shared.core.contract import DAY, HOUR, Contract
from shared.core.facts import Fact
from shared.core.room import Room

CONTRACT = Contract(
    name="gridline",
    endpoints=("/v1/chat/completions", "/v1/embeddings"),
    windows={"24h": 24 * HOUR, "72h": 72 * HOUR},
    file_bytes=200 * 10**6,
    storage=Room(files=500, bytes=20 * 10**9),
    file_requests=50_000,
    sectioned=False,
    cap_default=1024,
    cap_most=1024,
    refused=~Fact(0),
    n_most=8,
    logprobs_most=5,
    adapters=8,
    row_codes=frozenset(
        {
            "invalid_request",
            "context_length_exceeded",
            "batch_expired",
            "batch_cancelled",
            "server_error",
            "structured_output_invalid",
        }
    ),
    open_batches=2,
    extras=("gridline",),
    input_lifetime=7 * DAY,
    used_lifetime=7 * DAY,
    expires_after=(7 * DAY, 30 * DAY),
    write_scopes=frozenset({"routing:write", "read"}),
    read_scopes=frozenset({"read"}),
)
