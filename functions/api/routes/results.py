"""Results over HTTP while a batch runs, and after.

A page is small enough for any answer; only one row alone may be larger. Where an answer must stay small, such a page comes by a redirect to the store.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import RedirectResponse

from functions.api import results_wire
from functions.api.auth import Gate
from functions.api.query import Limit
from functions.api.refusals import ELSEWHERE, LISTED, Responses, refusals
from functions.api.results_wire import ResultList
from shared.core.contract import Contract
from shared.core.ids import BatchRef
from shared.services.accounts import Caller
from shared.services.results import Results

LIMIT = Limit(most=1000, default=100)
NO_STORE = {"cache-control": "no-store"}


def add(routes: APIRouter, contract: Contract, results: Results, gate: Gate, inline_bytes: int | None) -> None:
    """Add the route to those of a mount; `inline_bytes` is the largest body of an answer, None: any."""
    reader = Annotated[Caller, Depends(gate.reader)]

    @routes.get("/batches/{batch_id}/results", responses=_answers(inline_bytes))
    def get_results(
        caller: reader, batch_id: str, after: str | None = None, limit: Annotated[str | None, LIMIT.schema] = None
    ) -> Response:
        """Give rows that are finished, in an order that later ones never disturb: go on from `next` until it is null."""
        ref = BatchRef(*caller.space(contract), batch_id)
        body = results_wire.encode(results.page(ref, after=after, limit=LIMIT.read(limit)))
        if inline_bytes is not None and len(body) > inline_bytes:
            return RedirectResponse(results.url(ref, body), 302, NO_STORE)
        return Response(body, media_type="application/json", headers=NO_STORE)


def _answers(inline_bytes: int | None) -> Responses:
    redirect: Responses = {} if inline_bytes is None else {302: ELSEWHERE}
    return {200: {"model": ResultList}, **redirect, **refusals(*LISTED, "not_found", "results_expired")}
