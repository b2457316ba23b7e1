"""The command line `slackwater`: arguments in, exit codes out.

Exit codes: 0 done; 1 the server or the network refused, or a batch did not end as wanted; 2 wrong usage; 130 Ctrl-C.
The result of a command is on stdout, all else on stderr.
"""

import os
import re
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from cli.check import check, verdict
from cli.download import download_results
from cli.errors import CliError
from cli.follow import follow
from cli.session import Session, World, session
from cli.show import LIST_COLUMNS, details, list_row, summary
from cli.submit import check_input, endpoint_of, parse_metadata
from cli.submit import submit as submit_file
from cli.target import API_KEY_VARIABLE, BASE_URL_VARIABLE, DEFAULT_BASE_URL
from cli.watch import watch
from cli.wire import CANCELLED, COMPLETED, ID_PATTERN, Batch, Verdict

DEFAULT_DIRECTORY = Path("results")
DEFAULT_LIMIT = 20

app = typer.Typer(
    name="slackwater",
    help="Batch inference on your own deployment: submit a file, wait, get the answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help and usage errors: the boxes are noise in a log
)


def _batch_id(value: str) -> str:
    if not re.match(ID_PATTERN, value):
        raise typer.BadParameter(f"{value!r} cannot be a batch id")
    return value


BaseUrl = Annotated[str, typer.Option(envvar=BASE_URL_VARIABLE, help="The deployment and mount to talk to.")]
ApiKey = Annotated[
    str | None,
    typer.Option(envvar=API_KEY_VARIABLE, help="The key. Better in the environment: options show in process lists."),
]
BatchId = Annotated[str, typer.Argument(metavar="BATCH", callback=_batch_id, help="The id of a batch.")]
Directory = Annotated[
    Path | None,
    typer.Option("-o", "--output", file_okay=False, help=f"Where result files go; {DEFAULT_DIRECTORY}/ if not said."),
]
Endpoint = Annotated[str | None, typer.Option(help="The endpoint that every line names; if not said, the first one's.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's JSON.")]


@app.callback()
def begin(ctx: typer.Context) -> None:
    """Put the real world where a test has not put another."""
    if ctx.obj is None:
        ctx.obj = World(
            transport=lambda: None,
            sleep=time.sleep,
            clock=time.monotonic,
            new_key=lambda: f"slackwater-cli-{uuid.uuid4()}",
            become=become,
        )


@app.command()
def submit(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)],
    *,
    endpoint: Endpoint = None,
    window: Annotated[str, typer.Option(help="The completion window.")] = "24h",
    metadata: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="May be repeated.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end and download the results.")] = False,
    output: Directory = None,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Upload FILE and create a batch of it; prints the batch's id."""
    if output is not None and not wait:
        raise typer.BadParameter("-o needs --wait: without it there is nothing to write yet")
    try:
        check_input(file)
        pairs = parse_metadata(metadata or [])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with session(_world(ctx), base_url, api_key) as use:
        batch = submit_file(
            use.client,
            use.screen,
            file,
            endpoint=endpoint or endpoint_of(file),
            window=window,
            metadata=pairs,
            idempotency_key=use.world.new_key(),
        )
        use.screen.line(batch.id)
        if wait:
            ended = _watch(use, batch.id)
            files = _collect(use, ended, output or DEFAULT_DIRECTORY)
            use.screen.fields(summary(ended, files))
            raise typer.Exit(0 if ended.status == COMPLETED else 1)


@app.command()
def get(
    ctx: typer.Context,
    batch_id: BatchId,
    *,
    as_json: AsJson = False,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Show a batch."""
    with session(_world(ctx), base_url, api_key) as use:
        if as_json:
            use.screen.json(use.client.batch_as_sent(batch_id))
        else:
            use.screen.fields(details(use.client.batch(batch_id)))


@app.command("list")
def list_batches(
    ctx: typer.Context,
    *,
    limit: Annotated[int | None, typer.Option(min=1, help=f"How many at most; {DEFAULT_LIMIT} if not said.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """List batches, newest first."""
    if everything and limit is not None:
        raise typer.BadParameter("--all and --limit exclude each other")
    with session(_world(ctx), base_url, api_key) as use:
        most = None if everything else limit or DEFAULT_LIMIT
        # One more than is shown tells whether the list was cut.
        sent = list(use.client.batches(None if most is None else most + 1))
        shown = sent[:most]
        batches = [use.client.read_batch(one) for one in shown]
        if as_json:
            ids = {"first_id": batches[0].id if batches else None, "last_id": batches[-1].id if batches else None}
            use.screen.json({"object": "list", "data": shown, **ids, "has_more": len(sent) > len(shown)})
        else:
            use.screen.table(LIST_COLUMNS, map(list_row, batches))
            if len(sent) > len(shown):
                use.screen.note(f"there are more than {most}: --limit N shows more, --all every one")


@app.command()
def wait(
    ctx: typer.Context, batch_id: BatchId, *, base_url: BaseUrl = DEFAULT_BASE_URL, api_key: ApiKey = None
) -> None:
    """Wait until a batch has ended.

    The exit code is 0 if it completed and 1 if it failed, expired or was cancelled.
    """
    with session(_world(ctx), base_url, api_key) as use:
        ended = _watch(use, batch_id)
        use.screen.fields(summary(ended))
        raise typer.Exit(0 if ended.status == COMPLETED else 1)


@app.command()
def cancel(
    ctx: typer.Context,
    batch_id: BatchId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; exit code 0 if it was cancelled.")] = False,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Cancel a batch.

    Its finished rows are kept and can be downloaded.
    """
    with session(_world(ctx), base_url, api_key) as use:
        batch = use.client.cancel_batch(batch_id)
        use.screen.line(f"{batch.id} {batch.status}")
        if wait:
            ended = _watch(use, batch_id)
            use.screen.fields(summary(ended))
            raise typer.Exit(0 if ended.status == CANCELLED else 1)


@app.command()
def download(
    ctx: typer.Context,
    batch_id: BatchId,
    *,
    output: Directory = None,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Download a batch's result files.

    Prints their paths. The batch has to have ended, in whatever way.
    """
    with session(_world(ctx), base_url, api_key) as use:
        batch = use.client.batch(batch_id)
        if not batch.ended:
            raise CliError(
                f"batch {batch_id} is {batch.status} and has its files when it has ended", f"slackwater wait {batch_id}"
            )
        files = download_results(use.client, batch, output or DEFAULT_DIRECTORY)
        if not files:
            raise CliError(f"batch {batch_id} is {batch.status} and left no files", f"slackwater get {batch_id}")
        for path in files:
            use.screen.line(str(path))


@app.command()
def validate(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, readable=True)],
    *,
    endpoint: Endpoint = None,
    window: Annotated[str, typer.Option(help="The completion window.")] = "24h",
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Say what is wrong with each FILE, and what it would use and cost at most.

    Nothing is created. The exit code is 0 if all are good.
    """
    try:
        for file in files:
            check_input(file)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with session(_world(ctx), base_url, api_key) as use:
        all_good = True
        for file in files:
            found = check(use.client, use.screen, file, endpoint=endpoint or endpoint_of(file), window=window)
            use.screen.fields(verdict(file, found))
            all_good = all_good and isinstance(found, Verdict) and found.valid
        raise typer.Exit(0 if all_good else 1)


@app.command()
def retry(
    ctx: typer.Context,
    batch_id: BatchId,
    *,
    window: Annotated[str | None, typer.Option(help="Another completion window.")] = None,
    metadata: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Other metadata.")] = None,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Create a batch of the lines of an ended one that failed or were never answered.

    Prints the new batch's id.
    """
    try:
        pairs = parse_metadata(metadata or [])
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    changes = ({"completion_window": window} if window else {}) | ({"metadata": pairs} if pairs else {})
    with session(_world(ctx), base_url, api_key) as use:
        use.screen.line(use.client.retry_batch(batch_id, changes, use.world.new_key()).id)


@app.command()
def results(
    ctx: typer.Context,
    batch_id: BatchId,
    *,
    to_the_end: Annotated[
        bool, typer.Option("--follow", help="Go on until the batch has ended; exit code 0 if it completed.")
    ] = False,
    base_url: BaseUrl = DEFAULT_BASE_URL,
    api_key: ApiKey = None,
) -> None:
    """Print the rows of a batch that are finished, good and bad, as they are finished.

    One JSON object a line, as in result files.
    """
    with session(_world(ctx), base_url, api_key) as use:
        status = follow(use.client, batch_id, use.screen, sleep=use.world.sleep, to_the_end=to_the_end)
        raise typer.Exit(0 if status == COMPLETED or not to_the_end else 1)


@app.command()
def up(
    ctx: typer.Context,
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where the API listens on 127.0.0.1.")] = 8000,
    time_scale: Annotated[float | None, typer.Option(min=0, help="How much faster than the clock timers run.")] = None,
    models: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="The models to serve, as local/models.json."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(file_okay=False, help="Where the stack keeps its data, and has its models.")
    ] = None,
) -> None:
    """Run the whole system on this machine until Ctrl-C."""
    # A program of its own: the command line does not import what it starts. -P: a folder named `local` where the
    # command happens to be run is not the program.
    command = [sys.executable, "-P", "-m", "local", "--port", str(port)]
    if time_scale is not None:
        command += ["--time-scale", f"{time_scale:.15g}"]
    if models is not None:
        command += ["--models", str(models)]
    if state is not None:
        command += ["--state", str(state)]
    _world(ctx).become(command)


def become(command: Sequence[str]) -> None:
    """Run a program in the place of this one. There is no second process, so none can be left behind, whatever ends the command."""
    os.execv(command[0], list(command))  # noqa: S606 - `up` builds it


def _world(ctx: typer.Context) -> World:
    return cast("World", ctx.obj)


def _watch(use: Session, batch_id: str) -> Batch:
    return watch(use.client, batch_id, use.screen, sleep=use.world.sleep, clock=use.world.clock)


def _collect(use: Session, batch: Batch, directory: Path) -> list[Path]:
    """Download what a batch left; whoever is stopped here learns how to go on."""
    try:
        return download_results(use.client, batch, directory)
    except (CliError, KeyboardInterrupt):
        use.screen.note(f"batch {batch.id} has {batch.status}; get its files with: slackwater download {batch.id}")
        raise
