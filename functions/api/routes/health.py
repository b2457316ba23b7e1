"""Health: the server answers. It asks nothing of what stands behind it, and needs no key."""

from fastapi import APIRouter

from functions.api.wire import Health


def router() -> APIRouter:
    """Give the route."""
    routes = APIRouter()

    @routes.get("/healthz")
    async def healthz() -> Health:
        """Say that the server answers."""
        return Health()

    return routes
