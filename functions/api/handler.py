"""The API as a Lambda, behind an HTTP API (payload format 2.0). Nothing is built before the first event, unless it is for a snapshot.

A large answer does not fit through a Lambda, nor a large upload: for those the same application runs as a server (`functions.api.server`).
"""

import logging
import os
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from mangum import Mangum

from functions.api.edge import logger
from functions.api.wiring import build
from shared.settings import ApiSettings

CONNECTIONS = 10
"""A Lambda serves one request at a time."""

INLINE_BYTES = 2_900_000
"""The answer is a JSON string of at most 6 MB, in which half of a body's characters may need two."""


@cache
def application() -> Mangum:
    """Build what serves the events of this process."""
    logger.handlers = [Logger(service="slackwater-api").registered_handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False  # else the runtime's own handler says everything again
    return Mangum(
        build(ApiSettings.from_env(os.environ), connections=CONNECTIONS, inline_bytes=INLINE_BYTES), lifespan="off"
    )


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:  # noqa: ANN401 - the runtime's
    """Answer one request."""
    return application()(event, context)


if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start":
    application()  # then it is in the snapshot, and every start has it
