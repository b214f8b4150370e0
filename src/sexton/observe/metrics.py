"""What is scraped of one process, in a registry of its own."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric

from sexton import __version__
from sexton.flow.scheduler import Scheduler
from sexton.flow.worker import Worker
from sexton.observe.catalogue import histograms, number, numbers
from sexton.store import Pool

__all__ = ["CONTENT_TYPE", "Metrics", "of_node", "of_pool", "of_worker"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Collect = Callable[[], Iterable[Metric]]


class Metrics:
    """Collects from those who count, when somebody asks; nothing is kept in between."""

    def __init__(self, kind: str, name: str) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        # CPU, memory, files: named like all others of ours.
        ProcessCollector(namespace="sexton", registry=self._registry)
        self.add(lambda: [numbers("sexton_info", [((__version__, kind, name), 1)])])

    def add(self, collect: Collect) -> None:
        self._registry.register(_Collector(collect))

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)


class _Collector:
    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()

    def describe(self) -> Iterable[Metric]:
        return []


def of_pool(name: str, pool: Pool) -> Iterator[Metric]:
    use = pool.use
    states = [((name, "busy"), use.opened - use.idle), ((name, "idle"), use.idle)]
    yield numbers("sexton_pool_connections", states)
    yield numbers("sexton_pool_size", [((name,), use.size)])
    yield numbers("sexton_pool_waiting", [((name,), use.waiting)])


def of_worker(worker: Worker) -> Iterator[Metric]:
    """What a worker counts."""
    meters, health = worker.meters, worker.health
    settler, keeper, fetchers = meters.settler, meters.keeper, meters.fetchers
    yield number("sexton_postgresql_up", health.postgresql)
    yield number("sexton_notifications", health.notifications)
    yield number("sexton_renewals", keeper.renewed)
    yield number("sexton_renewal_errors", keeper.failed)
    yield number("sexton_leases_lost", keeper.lost)
    skew = keeper.database_clock.skew
    if skew is not None:
        yield number("sexton_clock_skew_seconds", skew)
    settled = (((task, outcome), many) for task, outcome, many in settler.settled)
    yield numbers("sexton_attempts", settled)
    yield numbers("sexton_deaths", (((task, why), many) for task, why, many in settler.died))
    yield number("sexton_settlements_refused", settler.refused)
    yield number("sexton_unsettled", health.unsettled)
    yield number("sexton_reaped", worker.reaped)
    yield histograms("sexton_attempt_seconds", (((task,), each) for task, each in meters.ran))
    lags = (((queue,), each.lag) for queue, each in fetchers.items())
    yield histograms("sexton_claim_lag_seconds", lags)
    yield numbers("sexton_slots", (((queue,), each.slots) for queue, each in fetchers.items()))
    busy = (((queue,), each.slots - each.free) for queue, each in fetchers.items())
    yield numbers("sexton_slots_busy", busy)
    yield from of_pool("tasks", worker.pool)


def of_node(node: Scheduler) -> Iterator[Metric]:
    """What a node counts."""
    health, member = node.health, node.member
    yield number("sexton_postgresql_up", health.postgresql)
    yield number("sexton_notifications", health.notifications)
    yield number("sexton_renewals", member.renewed)
    yield number("sexton_renewal_errors", member.failed)
    skew = member.clock.skew
    if skew is not None:
        yield number("sexton_clock_skew_seconds", skew)
    yield number("sexton_leads", health.leads)
    yield number("sexton_term", health.term or 0)
    yield number("sexton_partitions", health.partitions)
    yield number("sexton_turning", health.turning)
    fires: dict[str, int] = {}
    for firer in node.firers:
        for kind, many in list(firer.jobs.items()):
            fires[kind] = fires.get(kind, 0) + many
    yield numbers("sexton_fires", (((kind,), many) for kind, many in fires.items()))
    yield histograms("sexton_fire_lag_seconds", [((), node.fire_lag)])
    yield number("sexton_quarantines", sum(firer.quarantined for firer in node.firers))
