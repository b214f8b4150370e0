"""Every metric there is: its name, kind, labels, and what it means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from sexton.flow.meters import Histogram

Kind = Literal["counter", "gauge", "histogram"]
Row = tuple[Sequence[str], float]


@dataclass(frozen=True, slots=True)
class Described:
    """A metric as it is documented; a counter's name is written without its _total."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


METRICS: dict[str, Described] = {
    # Of every process.
    "sexton_info": Described("gauge", "This process.", ("version", "kind", "name")),
    "sexton_ready": Described("gauge", "1 if /readyz says so."),
    "sexton_loop_silent_seconds": Described(
        "gauge", "How long the process's event loop has left a question unanswered."
    ),
    "sexton_postgresql_up": Described("gauge", "0 while PostgreSQL cannot be reached from here."),
    "sexton_clock_skew_seconds": Described("gauge", "This host's clock minus PostgreSQL's."),
    "sexton_notifications": Described("gauge", "1 if wake-ups are heard; 0: polling only."),
    "sexton_renewals": Described("counter", "Renewals of this process's lease."),
    "sexton_renewal_errors": Described("counter", "Renewals that failed."),
    "sexton_leases_lost": Described("counter", "Leases that were lost, with all that ran."),
    "sexton_pool_connections": Described(
        "gauge", "Connections of the pool, by state: busy or idle.", ("pool", "state")
    ),
    "sexton_pool_size": Described("gauge", "Connections that the pool may open.", ("pool",)),
    "sexton_pool_waiting": Described("gauge", "Callers who wait for a connection.", ("pool",)),
    # Of a worker.
    "sexton_attempts": Described(
        "counter", "Attempts settled by this process.", ("task", "outcome")
    ),
    "sexton_deaths": Described("counter", "Jobs that died here, by reason.", ("task", "reason")),
    "sexton_attempt_seconds": Described("histogram", "How long attempts ran.", ("task",)),
    "sexton_claim_lag_seconds": Described(
        "histogram", "From the instant a job was due to its claim.", ("queue",)
    ),
    "sexton_settlements_refused": Described(
        "counter", "Outcomes that came too late: their claim was not valid any more."
    ),
    "sexton_reaped": Described("counter", "Attempts of lost workers that this one dealt with."),
    "sexton_slots": Described("gauge", "Jobs that may run at once.", ("queue",)),
    "sexton_slots_busy": Described("gauge", "Jobs that run now, or are being claimed.", ("queue",)),
    "sexton_unsettled": Described("gauge", "Outcomes that wait to be recorded."),
    # Of a node.
    "sexton_leads": Described("gauge", "1 on the node that leads."),
    "sexton_term": Described("gauge", "The leader's term, as this node knows it."),
    "sexton_partitions": Described("gauge", "Partitions that this node owns, of 256."),
    "sexton_fires": Described("counter", "Fires that made a job, by kind.", ("kind",)),
    "sexton_fire_lag_seconds": Described(
        "histogram", "From the instant of a fire to its committed job; not of what was late."
    ),
    "sexton_quarantines": Described("counter", "Schedules that this node had to put aside."),
    "sexton_turning": Described("gauge", "0 if the loop that fires does not come round."),
    # Of the service.
    "sexton_http_requests": Described(
        "counter", "Requests answered.", ("method", "route", "status")
    ),
    "sexton_http_seconds": Described(
        "histogram", "How long an answer took, by route.", ("method", "route")
    ),
    "sexton_http_in_flight": Described("gauge", "Requests that are being answered."),
    # Of the whole installation, from the database.
    "sexton_jobs": Described(
        "gauge", "Live jobs; estimated from a sample if there are many.", ("queue", "task", "state")
    ),
    "sexton_jobs_sampled": Described(
        "gauge", "The part of the live jobs that sexton_jobs was counted from; 1: all."
    ),
    "sexton_queue_age_seconds": Described(
        "gauge", "How long the oldest ready job has been due; 0: there is none.", ("queue",)
    ),
    "sexton_dead": Described("gauge", "Dead jobs that are kept, by task.", ("task",)),
    "sexton_stuck": Described(
        "gauge", "Running jobs whose worker has been silent for a minute.", ("task",)
    ),
    "sexton_workers": Described("gauge", "Workers that live, by queue.", ("queue",)),
    "sexton_nodes": Described("gauge", "Nodes that live."),
    "sexton_leader": Described("gauge", "1 if a node leads whose lease has not run out."),
    "sexton_leader_term": Described("gauge", "The term of the leader, in the database."),
    "sexton_partitions_unowned": Described("gauge", "Partitions that nobody fires."),
    "sexton_schedules_late": Described("gauge", "Schedules behind, which the leader catches up."),
    "sexton_schedules_quarantined": Described("gauge", "Schedules that were put aside."),
    "sexton_database_seconds": Described("gauge", "How long it took to look these up."),
    "sexton_database_errors": Described("counter", "Looks at the database that failed."),
}


def numbers(name: str, rows: Iterable[Row]) -> Metric:
    """A counter or a gauge; each row has the values of the labels, and the number."""
    described = METRICS[name]
    family = CounterMetricFamily if described.kind == "counter" else GaugeMetricFamily
    made = family(name, described.help, labels=described.labels)
    for labels, value in rows:
        made.add_metric([str(each) for each in labels], value)
    return made


def number(name: str, value: float) -> Metric:
    return numbers(name, [((), value)])


def histograms(name: str, rows: Iterable[tuple[Sequence[str], Histogram]]) -> Metric:
    described = METRICS[name]
    made = HistogramMetricFamily(name, described.help, labels=described.labels)
    for labels, histogram in rows:
        counts = list(histogram.counts)  # as of now, whoever goes on counting
        below, buckets = 0, []
        for bound, many in zip([*map(str, histogram.bounds), "+Inf"], counts, strict=True):
            below += many
            buckets.append((bound, float(below)))
        made.add_metric([str(each) for each in labels], buckets, histogram.total)
    return made


def exported() -> set[str]:
    """The names as they are scraped, for those who write queries."""
    names: set[str] = set()
    for name, described in METRICS.items():
        match described.kind:
            case "counter":
                names.add(f"{name}_total")
            case "gauge":
                names.add(name)
            case "histogram":
                names |= {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
    return names
