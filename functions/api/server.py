"""The API as a server: on one machine, or where uploads are larger than a Lambda takes.

    python -m functions.api.server --port 8000

Settings come from the environment (`shared.settings.ApiSettings`). It runs until SIGTERM or SIGINT, and then first answers what it has begun.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

import msgspec
import uvicorn

from functions.api.wiring import build
from shared.settings import ApiSettings

THREADS = 40
"""How many requests are served at once: the size of the framework's thread pool."""

GRACE_SECONDS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m functions.api.server", description="Serve the Slackwater API.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 to be reached from other machines")
    options = parser.parse_args(arguments)
    _log_quietly()
    try:
        settings = ApiSettings.from_env(os.environ)
    except msgspec.ValidationError as error:
        sys.stderr.write(f"error: the environment is not complete: {error}.\n")
        return 2
    config = uvicorn.Config(
        build(settings, connections=THREADS),
        host=options.host,
        port=options.port,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run()
    return 0


def _log_quietly() -> None:
    """Let our own log through, and of others what went wrong."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for name in ("slackwater", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it quotes the bytes that it stumbles over


if __name__ == "__main__":
    sys.exit(main())
