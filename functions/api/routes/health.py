"""Health: the server answers. It asks nothing of what stands behind it, and needs no key."""

from fastapi import APIRouter

from functions.api.wire import Health


def add(routes: APIRouter) -> None:
    """Add the route to those of a mount, or of the root."""

    @routes.get("/healthz")
    async def healthz() -> Health:
        """Say that the server answers."""
        return Health()
