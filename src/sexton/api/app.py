"""The service as an ASGI application: its routes, what stands before them, and its errors."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from sexton import __version__
from sexton.api.front import Front
from sexton.api.measured import Measured, RequestMeters
from sexton.api.openapi import describe
from sexton.api.problems import handlers
from sexton.api.remote import Remotes
from sexton.api.routes import (
    audit_log,
    calendars,
    cluster,
    dead,
    endpoints,
    job_bulk,
    job_settling,
    jobs,
    keys,
    operations,
    problems,
    queues,
    schedule_bulk,
    schedule_looks,
    schedule_verbs,
    schedules,
    tenants,
    workers,
)
from sexton.api.service import Service
from sexton.api.watch import Watch
from sexton.app import Sexton

# Whatever is more particular stands before what takes any name.
ROUTES = (
    schedule_bulk,
    schedule_verbs,
    schedule_looks,
    schedules,
    calendars,
    job_bulk,
    job_settling,
    jobs,
    dead,
    workers,
    queues,
    endpoints,
    tenants,
    keys,
    audit_log,
    cluster,
    operations,
    problems,
)


def create_app(app: Sexton) -> FastAPI:
    """The REST service over an application; served by `sexton api`, or by any ASGI server."""
    meters = RequestMeters()

    @contextlib.asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[None]:
        async with (
            Service.running(app) as service,
            Remotes(service).running() as remotes,
            Watch.over(service, (await app.client()).address, meters) as watch,
            contextlib.AsyncExitStack() as stack,
        ):
            api.state.service = service
            api.state.remotes = remotes
            api.state.watch = watch
            for each in ROUTES:  # what they keep for themselves while the process lives
                await stack.enter_async_context(each.router.lifespan_context(api))
            yield

    api = FastAPI(
        title="Sexton",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=handlers(),
        # What FastAPI would log of a request that is refused has what was in it.
        telemetry={"logs": False, "metrics": False, "operation_spans": False},
    )
    api.state.max_body_bytes = app.settings.max_body_bytes
    for each in ROUTES:
        # As they are: each has its whole path, and a router within a router is looked through
        # once for itself and once for what is in it.
        api.router.routes.extend(each.router.routes)
    api.add_middleware(Front)
    api.add_middleware(Measured, meters=meters)  # added last, it is the outermost
    describe(api)
    return api
