"""Probes for whoever supervises this process, and metrics for whoever operates the installation."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from sexton.api.models.operations import AliveOut, ReadyOut
from sexton.api.problems import Problem, problems
from sexton.api.service import Service
from sexton.api.watch import Watch
from sexton.observe.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])

JSON = "application/json"
NO_STORE = {"Cache-Control": "no-store"}
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=None, responses={200: {"model": AliveOut}})
async def healthz() -> Response:
    """This process lives: its event loop got round to answering."""
    return Response(b'{"alive":true}', 200, NO_STORE, JSON)


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz", response_model=None, responses={200: {"model": ReadyOut}, 503: {"model": ReadyOut}}
)
async def readyz(request: Request) -> Response:
    """It can serve: the database answers and has the schema of this code."""
    watch: Watch = request.app.state.watch
    reasons = watch.reasons()
    body = msgspec.json.encode({"ready": not reasons, "reasons": reasons})
    return Response(body, 503 if reasons else 200, NO_STORE, JSON)


@router.get("/metrics", response_model=None, responses=problems(401, 403) | _TEXT)
async def metrics(request: Request) -> Response:
    """For Prometheus, with a key of the first tenant: names of all tenants' queues are in it."""
    service: Service = request.app.state.service
    principal = await service.access.principal(request.scope, dict(request.scope["headers"]))
    if principal.tenant_id != 1 or not principal.may("viewer"):
        raise Problem(
            403, "forbidden", "metrics tell of all tenants: they need a viewer of `default`"
        )
    watch: Watch = request.app.state.watch
    return Response(await watch.scraped(), 200, NO_STORE | {"Content-Type": CONTENT_TYPE})
