"""A thread that answers for a process: /healthz, /readyz and /metrics on a port of their own."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable

from prometheus_client.core import Metric

from sexton.flow.scheduler import Scheduler
from sexton.flow.worker import Worker
from sexton.observe import metrics, probe
from sexton.observe.catalogue import number
from sexton.observe.gauges import Gauges
from sexton.observe.http import Answer, Server, listening
from sexton.observe.metrics import CONTENT_TYPE, Metrics
from sexton.observe.probe import Probe, Reasons
from sexton.settings import Settings, host_and_port
from sexton.store import Line, Store
from sexton.store.connection import Address
from sexton.store.gauges import Installation

log = logging.getLogger("sexton.observe")

# A look at the database must not outlast the scrape by much.
PATIENCE = 3.0
STOP_WITHIN = 5.0


class Observer:
    """Everything that is asked of a process from outside; it does not need its event loop."""

    def __init__(
        self,
        where: str,
        *,
        kind: str,
        name: str,
        reasons: Reasons,
        collect: Callable[[], Iterable[Metric]],
        wanted: Callable[[Installation], bool],
        address: Address,
        schema: str,
    ) -> None:
        self._bound = listening(*host_and_port("observe", where))
        self.port: int = self._bound.getsockname()[1]
        self.probe = Probe(kind, name, asyncio.get_running_loop(), reasons)
        self._metrics = Metrics(kind, name)
        self._metrics.add(self._own)
        self._metrics.add(collect)
        self._wanted = wanted
        self._address = Address(address.url, address.pooler, min(address.patience, PATIENCE))
        self._schema = schema
        self._gauges: Gauges | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name="sexton-observe", daemon=True)

    def start(self) -> None:
        self._thread.start()
        host, port = self._bound.getsockname()[:2]
        log.info("probes and metrics at http://%s:%d", f"[{host}]" if ":" in host else host, port)

    async def stop(self) -> None:
        await asyncio.to_thread(self._started.wait, STOP_WITHIN)
        if self._loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, STOP_WITHIN)

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            log.exception("probes and scrapes are not answered any more")

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        line = Line(self._address)
        self._gauges = Gauges(Store(line, self._schema), self._wanted)
        self._metrics.add(self._gauges.collect)
        paths = {
            "/healthz": self.probe.healthz,
            "/readyz": self.probe.readyz,
            "/metrics": self.scraped,
        }
        server = Server(self._bound, paths)
        asking = asyncio.create_task(self.probe.keep_asking())
        await server.start()
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            asking.cancel()
            await server.close()
            await self._gauges.close()
            await line.close()

    async def scraped(self) -> Answer:
        assert self._gauges is not None, "it is made before anybody can ask"
        await self._gauges.fresh()
        return Answer(self._metrics.text(), content_type=CONTENT_TYPE)

    def _own(self) -> Iterable[Metric]:
        yield number("sexton_ready", self.probe.health.ready)
        yield number("sexton_loop_silent_seconds", self.probe.silent_for)


@contextlib.asynccontextmanager
async def observing(
    settings: Settings, address: Address, process: Worker | Scheduler
) -> AsyncIterator[Observer | None]:
    """Answer for a worker or a node while it runs, and while it stops."""
    if settings.observe is None:
        yield None
        return
    observer = _of(settings.observe, process, address, settings.schema)
    observer.start()
    try:
        yield observer
    finally:
        await observer.stop()


def _of(where: str, process: Worker | Scheduler, address: Address, schema: str) -> Observer:
    if isinstance(process, Worker):
        worker = process
        return Observer(
            where,
            kind="worker",
            name=worker.name,
            reasons=lambda: probe.of_worker(worker),
            collect=lambda: metrics.of_worker(worker),
            wanted=lambda known: not known.leads,  # somebody has to, where there are only workers
            address=address,
            schema=schema,
        )
    node = process
    return Observer(
        where,
        kind="scheduler",
        name=node.name,
        reasons=lambda: probe.of_node(node),
        collect=lambda: metrics.of_node(node),
        wanted=lambda known: node.member.leads or not known.leads,
        address=address,
        schema=schema,
    )
