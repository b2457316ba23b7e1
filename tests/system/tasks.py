"""The task states of a world, over its ports."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functions.tasks import admit, close, drain, fail, finalize, notify, plan, reconcile, run, validate
from functions.tasks.messages import Message
from functions.tasks.wiring import Services
from shared.core.contracts import CONTRACTS
from shared.core.plan import ShardSize
from shared.core.window import Timing
from shared.services.finalize import Finalizer
from shared.services.fleet import FleetService
from shared.services.pipeline import Pipeline
from shared.services.validation import Validation
from tests.inline import Inline

if TYPE_CHECKING:
    from tests.system.world import World

TASKS: dict[str, Callable[[Services, Message], Any]] = {
    "Validate": validate.validate,
    "Admit": admit.admit,
    "Plan": plan.plan,
    "Run": run.run,
    "Reconcile": reconcile.reconcile,
    "Drain": drain.drain,
    "Close": close.close,
    "Finalize": finalize.finalize,
    "Notify": notify.notify,
    "Fail": fail.fail,
}


def services(world: "World", *, shard_lines: int, max_workers: int) -> Services:
    """Build what task states work with."""
    stores: Any = {"batches": world.batches, "blobs": world.blobs, "clock": world.clock}
    shards: Any = {"shards": world.shards, **stores}
    fleet = FleetService(
        queue=world.shards,
        shards=world.shards,
        roster=world.roster,
        fleet=world.weather.over("fleet", world.jobs),
        max_workers=max_workers,
        clock=world.clock,
        new_id=world.new_id,
    )
    return Services(
        batches=world.batches,
        open_batches=world.batches,
        validation=Validation(
            multipart=world.blobs, scans=world.api.scans, contracts=CONTRACTS, registry=world.registry, **stores
        ),
        pipeline=Pipeline(
            workflow=world.workflow,
            fleet=fleet,
            registry=world.registry,
            timing=Timing(),
            shard_size=ShardSize(lines=shard_lines),
            **shards,
        ),
        finalizer=Finalizer(chunks=world.chunks, multipart=world.blobs, readers=Inline, timing=Timing(), **shards),
        fleet=fleet,
        scans=world.api.scans,
        scan_starter=world.memory.scans,
        expiries=world.api.expiries,
        delivery=world.api.delivery,
        ended=world.ended.append,
        clock=world.clock,
    )
