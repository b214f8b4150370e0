"""OpenTelemetry, from enqueue to attempt, where somebody has set it up; otherwise nothing at all.

Whoever wants traces sets up the SDK in a process, and has imported OpenTelemetry to do so: while it
is not imported, there is nothing to ask and nothing to pay. A job carries the span that enqueued
it as a tag, `traceparent:00-…`, as W3C writes it; so a trace may also begin in SQL.
"""

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sexton.domain.job import NewJob
from sexton.domain.outcome import Failed, Lost, Outcome
from sexton.flow.spans import TRACE_TAG, Spans

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

SYSTEM = "sexton"
HEADER = "traceparent"
_NANOSECONDS = 1_000_000_000
# Of a version that is not known yet, this much is understood.
_GIVEN = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)


def _tracer() -> "Tracer | None":
    """None unless spans go somewhere."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    from sexton import __version__

    tracer: Tracer = provider.get_tracer("sexton", __version__)
    return tracer


# ── enqueueing ──────────────────────────────────────────────────────────────


def _ignored(_: int) -> None:
    pass


_UNTRACED = contextlib.nullcontext(_ignored)


def enqueued(job: NewJob) -> contextlib.AbstractContextManager[Callable[[int], None]]:
    """The span of an enqueue, which the job carries on; it is told the job's id."""
    tracer = _tracer()
    return _UNTRACED if tracer is None else _enqueued(tracer, job)


@contextlib.contextmanager
def _enqueued(tracer: "Tracer", job: NewJob) -> Iterator[Callable[[int], None]]:
    from opentelemetry.trace import SpanKind

    attributes = {**_messaging("enqueue", job.queue), "sexton.task": job.task}
    with tracer.start_as_current_span(
        f"enqueue {job.task}", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        job.tags = _carrying(job.tags, _written(span))
        yield lambda made: span.set_attribute("sexton.job.id", made)


@contextlib.contextmanager
def enqueued_many(jobs: Iterable[Any]) -> Iterator[Iterable[Any]]:
    """One span for all of them; `jobs` are calls, each with its job."""
    tracer = _tracer()
    if tracer is None:
        yield jobs
        return
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        "enqueue many", kind=SpanKind.PRODUCER, attributes=_messaging("enqueue", None)
    ) as span:
        written, many = _written(span), 0

        def carrying() -> Iterator[Any]:
            nonlocal many
            for call in jobs:
                if isinstance(getattr(call, "job", None), NewJob):
                    call.job.tags = _carrying(call.job.tags, written)
                many += 1
                yield call

        yield carrying()
        span.set_attribute("messaging.batch.message_count", many)


def enqueued_for(
    jobs: Sequence[NewJob], given: str | None
) -> contextlib.AbstractContextManager[Callable[[int], None]]:
    """Jobs that somebody enqueues from afar, who may have sent a traceparent: they carry it on, or
    the span of their enqueue, which is part of it. What has a trace of its own keeps it.
    """
    tracer = _tracer()
    found = None if given is None else _GIVEN.fullmatch(given.strip())
    heard = None if found is None else f"00-{found[1]}-{found[2]}-{found[3]}"
    if tracer is None:
        if heard is not None:
            _carry(jobs, heard)
        return _UNTRACED
    return _enqueued_for(tracer, jobs, heard)


@contextlib.contextmanager
def _enqueued_for(
    tracer: "Tracer", jobs: Sequence[NewJob], heard: str | None
) -> Iterator[Callable[[int], None]]:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = context.get_current()
    if heard is not None and not trace.get_current_span().get_span_context().is_valid:
        parent = TraceContextTextMapPropagator().extract({HEADER: heard}, parent)
    name, attributes = "enqueue many", _messaging("enqueue", None)
    if len(jobs) == 1:
        name, attributes = f"enqueue {jobs[0].task}", _messaging("enqueue", jobs[0].queue)
        attributes["sexton.task"] = jobs[0].task
    else:
        attributes["messaging.batch.message_count"] = len(jobs)
    with tracer.start_as_current_span(
        name, context=parent, kind=trace.SpanKind.PRODUCER, attributes=attributes
    ) as span:
        _carry(jobs, _written(span))
        yield lambda made: span.set_attribute("sexton.job.id", made)


def _carry(jobs: Iterable[NewJob], trace: str) -> None:
    for job in jobs:
        if not any(tag.startswith(TRACE_TAG) for tag in job.tags or ()):
            job.tags = _carrying(job.tags, trace)


def sent() -> dict[str, str]:
    """The header that takes the current span to a service; none where nobody traces."""
    api = sys.modules.get("opentelemetry.trace")
    span = None if api is None else api.get_current_span()
    if span is None or not span.get_span_context().is_valid:
        return {}
    return {HEADER: _written(span)}


def _written(span: Any) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _carrying(tags: Sequence[str] | None, trace: str) -> list[str]:
    """A call may be enqueued again, in another trace."""
    return [*(tag for tag in tags or () if not tag.startswith(TRACE_TAG)), TRACE_TAG + trace]


# ── attempts and fires ──────────────────────────────────────────────────────


def spans() -> Spans | None:
    """For a worker or a node that is about to start; None: nobody traces here."""
    tracer = _tracer()
    return None if tracer is None else _Spans(tracer)


class _Spans:
    def __init__(self, tracer: "Tracer") -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer, self._trace, self._context = tracer, trace, context
        self._propagator = TraceContextTextMapPropagator()
        self._root = context.Context()

    def enter(self, running: Any) -> Any:
        claim = running.claim
        parent = self._root  # not whatever the worker's own loop may be part of
        if running.trace is not None:
            parent = self._propagator.extract({"traceparent": running.trace}, parent)
        attributes: dict[str, Any] = {
            **_messaging("process", running.queue),
            "sexton.task": claim.task,
            "sexton.job.id": claim.id,
            "sexton.attempt": claim.attempt,
            "sexton.fence": claim.fence,
            "sexton.claim_lag": claim.claimed - claim.due,
        }
        if claim.schedule_id is not None:
            attributes["sexton.schedule.id"] = claim.schedule_id
        running.span = self._tracer.start_span(
            f"attempt {claim.task}",
            context=parent,
            kind=self._trace.SpanKind.CONSUMER,
            attributes=attributes,
        )
        return self._context.attach(self._trace.set_span_in_context(running.span, parent))

    def leave(self, token: Any) -> None:
        with contextlib.suppress(ValueError):  # the task has meddled with its context
            self._context.detach(token)

    def end(self, running: Any, outcome: Outcome) -> None:
        span = running.span
        span.set_attribute("sexton.outcome", type(outcome).__name__.lower())
        if isinstance(outcome, Failed | Lost):
            error = outcome.error.strip().splitlines()
            said = error[0][:300] if error else ""
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, said))
        span.end()

    def fired(self, kind: str, fires: Sequence[float], jobs: int, began: float) -> None:
        now = time.time()
        span = self._tracer.start_span(
            "fire",
            context=self._root,
            kind=self._trace.SpanKind.PRODUCER,
            start_time=int(began * _NANOSECONDS),
            attributes={
                **_messaging("enqueue", None),
                "sexton.fire.kind": kind,
                "sexton.fires": len(fires),
                "messaging.batch.message_count": jobs,
            },
        )
        span.end(int(now * _NANOSECONDS))


def _messaging(operation: str, queue: str | None) -> dict[str, Any]:
    """As the conventions for messaging name these."""
    said = {"messaging.system": SYSTEM, "messaging.operation.name": operation}
    return {**said, "messaging.destination.name": queue} if queue else said
