"""The models that a deployment serves."""

from typing import Annotated

from fastapi import APIRouter, Depends

from functions.api.auth import Gate
from functions.api.refusals import refusals
from functions.api.wire import ModelList, ModelObject
from shared.core.contract import Contract
from shared.core.errors import NotFound
from shared.core.models import Model, Registry
from shared.services.accounts import Caller


def add(routes: APIRouter, contract: Contract, registry: Registry, gate: Gate) -> None:
    """Add the routes to those of a mount."""
    reader = Annotated[Caller, Depends(gate.reader)]

    def served(caller: Caller) -> dict[str, Model]:
        """Give the models that the caller may name in a batch under this contract."""
        return {
            name: model
            for name, model in registry.seen_by(caller.org).items()
            if not set(contract.endpoints).isdisjoint(registry.base(model).endpoints)
            and (model.base is None or contract.adapters != 0)
        }

    @routes.get("/models")
    def list_models(caller: reader) -> ModelList:
        """List the models that can be named in batches here."""
        models = served(caller).values()
        return ModelList(data=[ModelObject.of(model, registry.base(model), contract) for model in models])

    @routes.get("/models/{model_id:path}", responses=refusals("not_found"))
    def get_model(caller: reader, model_id: str) -> ModelObject:
        """Show one model."""
        model = served(caller).get(model_id)
        if model is None:
            raise NotFound(f"there is no model {model_id!r}")
        return ModelObject.of(model, registry.base(model), contract)
