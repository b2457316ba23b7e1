"""The `openai` contract: the OpenAI Files and Batches reference, widened where that loses nothing."""

from shared.core.contract import HOUR, Contract

CONTRACT = Contract(
    name="openai",
    endpoints=("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"),
    windows={"24h": 24 * HOUR, "72h": 72 * HOUR},
    windows_listed=True,
    options=frozenset({"callback_url", "execution", "output_expires_after", "output_s3_prefix"}),
    file_bytes=5 * 10**9,
    file_requests=1_000_000,
    adapters=None,
    takes_s3=True,
    extras=("slackwater", "s3"),
)
