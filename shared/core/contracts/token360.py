"""The `token360` contract: endpoint and window may be left out, the file is judged at the create, the deadline is a forecast."""

from shared.core.contract import HOUR, Contract, Judged, MetadataRule

CONTRACT = Contract(
    name="token360",
    endpoints=("/v1/chat/completions",),
    windows={"24h": 24 * HOUR},
    defaults={"endpoint": "/v1/chat/completions", "completion_window": "24h"},
    options=frozenset({"callback_url", "execution"}),
    metadata=MetadataRule.ANY,
    judged=Judged.AT_CREATE,
    refusals={
        "mismatched_model": "batch_multiple_models",
        "model_not_found": "batch_model_not_supported",
        "batch_routing_unavailable": "batch_routing_unavailable",
        "*": "batch_invalid_jsonl",
    },
    inactive_model="batch_routing_unavailable",
    no_key="missing_execution_api_key",
    file_bytes=200 * 10**6,
    file_requests=50_000,
    sectioned=False,
    form_seconds="ttl_seconds",
    deadline_stops=False,
    cancel_of_ended=True,
    extras=("execution", "slackwater"),
)
