"""The models that a deployment serves."""

from typing import Annotated

from fastapi import APIRouter, Depends

from functions.api.auth import Gate
from functions.api.wire import ModelList, ModelObject
from shared.core.contract import Contract
from shared.core.errors import NotFound
from shared.core.models import Registry
from shared.services.accounts import Caller


def add(routes: APIRouter, contract: Contract, registry: Registry, gate: Gate) -> None:
    """Add the routes to those of a mount."""
    reader = Annotated[Caller, Depends(gate.reader)]

    @routes.get("/models")
    def list_models(_: reader) -> ModelList:
        """List the models."""
        return ModelList(data=[ModelObject.of(model, contract) for model in registry.values()])

    @routes.get("/models/{model_id:path}")
    def get_model(_: reader, model_id: str) -> ModelObject:
        """Show one model."""
        model = registry.get(model_id)
        if model is None:
            raise NotFound(f"there is no model {model_id!r}")
        return ModelObject.of(model, contract)
