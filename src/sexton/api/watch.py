"""What an API process tells of itself: whether it can serve, and its metrics."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Self

import asyncpg
from prometheus_client.core import Metric

from sexton.api.measured import RequestMeters
from sexton.api.service import Service
from sexton.errors import Unavailable
from sexton.observe.catalogue import number, numbers
from sexton.observe.gauges import Gauges
from sexton.observe.metrics import Metrics, of_pool
from sexton.observe.observer import PATIENCE, Observer
from sexton.store import Line, Pool, Statements, Store
from sexton.store.connection import Address, say
from sexton.store.migrations import migrations

log = logging.getLogger("sexton.api")

LOOK_EVERY = 1.0


class Watch:
    """Looks at the database every second, over a connection of its own; probes are told the last.

    So a probe costs nothing, and one that is open to everybody cannot be used to wear the database
    out.
    """

    def __init__(self, service: Service, address: Address, meters: RequestMeters) -> None:
        self._service = service
        self._meters = meters
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._wanted = migrations()[-1].version
        self._newer: int | None = None  # of which version it was said that it is newer
        self._reasons: list[str] = ["it has not looked at the database yet"]
        self._up = False
        self._line = Line(Address(address.url, address.pooler, min(address.patience, PATIENCE)))
        store = Store(self._line, service.schema)
        self._run = Statements(self._line, service.schema, None)
        self._gauges = Gauges(store, lambda known: True)
        self._metrics = Metrics("api", self.name)
        self._metrics.add(self.collect)
        self._metrics.add(self._own)
        self._metrics.add(self._gauges.collect)

    @classmethod
    @contextlib.asynccontextmanager
    async def over(
        cls, service: Service, address: Address, meters: RequestMeters
    ) -> AsyncIterator[Self]:
        """While the service runs; on a port of their own too, if that is set."""
        watch = cls(service, address, meters)
        await watch.look()
        looking = asyncio.create_task(watch._keep_looking())
        observer = watch._observer(address)
        if observer is not None:
            observer.start()
        try:
            yield watch
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await watch._gauges.close()
            await watch._line.close()
            if observer is not None:
                await observer.stop()

    def reasons(self) -> list[str]:
        """Why this process cannot serve; nothing: it can."""
        stopping = ["it is stopping"] if self._service.stopping.is_set() else []
        return [*stopping, *self._reasons]

    async def scraped(self) -> bytes:
        await self._gauges.fresh()
        return self._metrics.text()

    def collect(self) -> Iterator[Metric]:
        """Of this process alone."""
        yield number("sexton_postgresql_up", self._up)
        yield from self._meters.collect()
        settled = (((task, outcome), many) for task, outcome, many in self._service.settled)
        yield numbers("sexton_attempts", settled)
        died = (((task, why), many) for task, why, many in self._service.died)
        yield numbers("sexton_deaths", died)
        yield from of_pool("tenants", self._service.pool)
        owner = self._service.owner.source
        if isinstance(owner, Pool):
            yield from of_pool("owner", owner)

    def _own(self) -> Iterator[Metric]:
        yield number("sexton_ready", not self.reasons())

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.look()

    async def look(self) -> None:
        """Whether the database answers, and is the one that this code was written for."""
        try:
            found = await self._run.value("schema_version") or 0
        except (Unavailable, asyncpg.PostgresError, OSError) as error:
            # Where it is, and as whom we come, is nothing for everybody who may ask.
            self._up, reasons, more = False, ["PostgreSQL cannot be reached"], say(error)
        else:
            self._up, reasons, more = True, [], ""
            if found < self._wanted:
                reasons.append(f"the schema is at version {found}, this code wants {self._wanted}")
            self._remark_on(found)
        if reasons != self._reasons:
            level = logging.WARNING if reasons else logging.INFO
            said = f"is not ready: {'; '.join(reasons)} {more}" if reasons else "is ready"
            log.log(level, "the service %s", said.rstrip())
        self._reasons = reasons

    def _remark_on(self, found: int) -> None:
        """After a migration everybody goes on until replaced; who is forgotten must be seen."""
        newer = found if found > self._wanted else None
        if newer not in (None, self._newer):
            log.warning(
                "the schema is at version %d, newer than this code's %d: the service goes on, "
                "which is promised to the release before only; replace this process",
                *(newer, self._wanted),
            )
        self._newer = newer

    def _observer(self, address: Address) -> Observer | None:
        where = self._service.app.settings.observe
        if where is None:
            return None
        return Observer(
            where,
            kind="api",
            name=self.name,
            reasons=self.reasons,
            collect=self.collect,
            wanted=lambda known: True,
            address=address,
            schema=self._service.schema,
        )
