"""vLLM's own batch runner, with its engine kept: the baseline of `bench.worker`. Runs in the engine's environment and knows nothing of ours.

    python -I run_batch_runner.py <engine flags>      one line of JSON when the engine is up, then one for each line `<input>TAB<output>` on stdin

The time is that of `run_batch` itself, from before it reads its input to after it wrote its output; the engine's start is not in it.
"""

import asyncio
import json
import sys
import time

from vllm.entrypoints.launchers.api_server.entry import build_async_engine_client
from vllm.entrypoints.launchers.run_batch import make_arg_parser, run_batch
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser


def say(**told: object) -> None:
    """Print one line of JSON."""
    print(json.dumps(told), flush=True)


async def main() -> None:
    """Serve stdin until it ends."""
    parser = make_arg_parser(FlexibleArgumentParser())
    args = parser.parse_args([*sys.argv[1:], "--input-file=-", "--output-file=-"])
    async with build_async_engine_client(args, usage_context=UsageContext.OPENAI_BATCH_RUNNER) as engine:
        say(ready=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            args.input_file, args.output_file = line.strip().split("\t")
            await engine.reset_prefix_cache()
            start = time.perf_counter()
            await run_batch(engine, args)
            say(seconds=time.perf_counter() - start)


if __name__ == "__main__":
    asyncio.run(main())
