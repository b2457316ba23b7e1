"""The application: every contract under its prefix, over the same services."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI

from functions.api import errors
from functions.api.auth import Gate
from functions.api.document import TITLE, VERSION, document
from functions.api.edge import Edge
from functions.api.routes import batches, contents, files, health, models, results, uploads
from shared.core.contract import Contract
from shared.core.models import Registry
from shared.ports import Clock, NewId
from shared.services.accounts import Accounts
from shared.services.batches import Batches
from shared.services.completions import Completions
from shared.services.dry_run import DryRun
from shared.services.files import Files
from shared.services.results import Results
from shared.services.s3_files import S3Files
from shared.services.uploads import Uploads


class Services(NamedTuple):
    """What the routes work with."""

    accounts: Accounts
    files: Files
    uploads: Uploads
    completions: Completions
    s3_files: S3Files
    batches: Batches
    dry_run: DryRun
    results: Results
    registry: Registry


def build_app(
    services: Services,
    mounts: Mapping[str, Contract],
    *,
    clock: Clock,
    new_id: NewId,
    inline_bytes: int | None = None,
) -> FastAPI:
    """Build the application; `mounts` gives the contract of each path prefix, `inline_bytes` the largest content of an answer (None: any)."""
    # No documentation pages: they would load scripts from elsewhere. No redirects of slashes: a redirected upload is sent twice.
    app = FastAPI(title=TITLE, version=VERSION, openapi_url=None, redirect_slashes=False)
    app.add_middleware(Edge, clock=clock, new_id=new_id)
    health.add(app.router)
    routes = list(app.router.routes)
    for prefix, contract in mounts.items():
        mount = _mount(prefix, contract, services, inline_bytes)
        routes += mount.routes
        app.include_router(mount)
    errors.install(app, routes)
    return app


def _mount(prefix: str, contract: Contract, services: Services, inline_bytes: int | None) -> APIRouter:
    gate = Gate(services.accounts, contract)
    mount = APIRouter(prefix=prefix)
    health.add(mount)
    files.add(mount, contract, services.files, services.s3_files, gate, inline_bytes=inline_bytes)
    contents.add(mount, contract, services.files, gate, inline_bytes)
    uploads.add(mount, contract, services.uploads, services.completions, gate)
    batches.add(mount, contract, services.batches, services.dry_run, gate, inline_bytes=inline_bytes)
    results.add(mount, contract, services.results, gate, inline_bytes)
    models.add(mount, contract, services.registry, gate)

    @mount.get("/openapi.json")
    def openapi() -> dict[str, Any]:
        """Describe this API."""
        return document(mount.routes, contract)

    return mount
