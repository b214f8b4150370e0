"""Traces from enqueue to attempt, with the SDK's own exporter."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import asyncpg
import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sexton import Sexton
from sexton.flow.spans import TRACE_TAG
from sexton.observe import traces
from sexton.remote import Server

from ..api.served import Served, served


class Traced:
    """A provider of this test's own, and what it was told."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    made = Traced()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    yield made
    made.provider.shutdown()


def child_of(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert child.context is not None
    assert parent.context is not None
    return (
        child.parent is not None
        and child.parent.span_id == parent.context.span_id
        and child.context.trace_id == parent.context.trace_id
    )


def of_one_trace(one: ReadableSpan, other: ReadableSpan) -> bool:
    assert one.context is not None
    assert other.context is not None
    return bool(one.context.trace_id == other.context.trace_id)


def declare(app: Sexton, tracer: trace.Tracer) -> None:
    @app.task
    async def at_once(n: int) -> None:
        with tracer.start_as_current_span(f"inside at_once {n}"):
            pass

    @app.task
    async def waits() -> None:
        await asyncio.sleep(0.01)
        with tracer.start_as_current_span("inside waits"):
            await asyncio.sleep(0.01)

    @app.task
    def in_a_thread() -> None:
        with tracer.start_as_current_span("inside in_a_thread"):
            raise ValueError("it failed\nfor a reason")


async def run_until(app: Sexton, enough: int) -> None:
    worker = await app.worker()
    running = asyncio.create_task(worker.run())
    while worker.finished < enough:
        await asyncio.sleep(0.01)
    worker.stop()
    await running


async def test_a_trace_goes_on_from_the_enqueue_into_the_attempt(
    app: Sexton, traced: Traced
) -> None:
    declare(app, traced.tracer)
    async with app:
        with traced.tracer.start_as_current_span("request"):
            for name, arguments in (("at_once", {"n": 0}), ("waits", {}), ("in_a_thread", {})):
                await app.enqueue(name, arguments)
        await run_until(app, 3)
    request = traced.one("request")
    for task, inside in (
        ("at_once", "inside at_once 0"),
        ("waits", "inside waits"),
        ("in_a_thread", "inside in_a_thread"),
    ):
        enqueue, attempt = traced.one(f"enqueue {task}"), traced.one(f"attempt {task}")
        assert child_of(enqueue, request)
        assert child_of(attempt, enqueue)
        assert child_of(traced.one(inside), attempt)
        assert attempt.kind is trace.SpanKind.CONSUMER
        assert attempt.attributes is not None
        assert enqueue.attributes is not None
        assert attempt.attributes["sexton.job.id"] == enqueue.attributes["sexton.job.id"]
        assert attempt.attributes["sexton.attempt"] == 1
    failed = traced.one("attempt in_a_thread")
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.status.description is not None
    assert "\n" not in failed.status.description
    assert traced.one("attempt waits").status.status_code is not trace.StatusCode.ERROR


async def test_many_at_once_share_a_span_and_each_attempt_is_its_own(
    app: Sexton, traced: Traced
) -> None:
    declare(app, traced.tracer)
    async with app:
        task = app.tasks["at_once"]
        await app.enqueue_many([task.call(n=n) for n in range(20)])
        await run_until(app, 20)
    many, attempts = traced.one("enqueue many"), traced.named("attempt at_once")
    assert many.attributes is not None
    assert many.attributes["messaging.batch.message_count"] == 20
    assert len(attempts) == 20
    assert all(child_of(attempt, many) for attempt in attempts)
    inside = [span for n in range(20) for span in traced.named(f"inside at_once {n}")]
    parents = {span.parent.span_id for span in inside if span.parent}
    assert len(parents) == 20, "one attempt's code is not part of another's"


async def test_a_trace_may_begin_in_sql_and_is_kept_with_the_history(
    app: Sexton, traced: Traced, database_url: str
) -> None:
    declare(app, traced.tracer)
    tag = f"{TRACE_TAG}00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "select sexton.enqueue('at_once', '{\"n\": 1}', tags => array['mine', $1])", tag
    )
    await connection.execute(
        "select sexton.enqueue('at_once', '{\"n\": 2}', tags => array['traceparent:nonsense'])"
    )
    async with app:
        await run_until(app, 2)
    kept = await connection.fetchval("select tags from sexton.attempt where 'mine' = any (tags)")
    await connection.close()
    assert kept == ["mine", tag]
    inside = traced.one("inside at_once 1")
    assert inside.context is not None
    assert inside.context.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    orphan = traced.one("inside at_once 2")
    assert orphan.context is not None
    assert orphan.context.trace_id != inside.context.trace_id, "nonsense begins a trace of its own"


async def test_a_call_that_is_enqueued_twice_belongs_to_the_trace_of_each_time(
    app: Sexton, traced: Traced
) -> None:
    declare(app, traced.tracer)
    async with app:
        call = app.tasks["at_once"].call(n=0)
        await call.enqueue()
        await call.enqueue()
        jobs = await app.jobs()
    tags = [job.tags for job in jobs]
    assert all(len(each) == 1 for each in tags)
    assert tags[0] != tags[1]


async def test_fires_are_spans_of_the_node(app: Sexton, traced: Traced) -> None:
    async with app:
        await app.schedules.add("often", "beat", every="1s")
        node = await app.scheduler()
        running = asyncio.create_task(node.run())
        while not traced.named("fire"):
            await asyncio.sleep(0.02)
        node.stop()
        await running
    fire = traced.named("fire")[0]
    assert fire.attributes is not None
    assert fire.attributes["messaging.batch.message_count"] == 1
    assert fire.end_time is not None
    assert fire.start_time is not None
    assert fire.end_time >= fire.start_time


async def test_where_nobody_traces_jobs_carry_nothing(app: Sexton) -> None:
    @app.task
    async def plain() -> None: ...

    assert traces.spans() is None
    async with app:
        await plain.enqueue()
        [job] = await app.jobs()
    assert job.tags == ()


def test_neither_library_is_imported_unless_it_is_wanted() -> None:
    code = (
        "import sys, sexton.cli.worker, sexton.app\n"
        "assert not {'opentelemetry', 'prometheus_client', 'fastapi'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


HEARD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def sent(api: Served, **headers: str) -> list[list[str]]:
    """The tags of a job by itself, of one with a trace of its own, and of two of a bulk."""
    own = f"{TRACE_TAG}00-11111111111111111111111111111111-2222222222222222-01"
    body = '{"task": "t", "tags": ["mine"]}\n{"task": "t"}\n'
    async with api.caller("operator") as http:
        ids = []
        for said in ({"task": "t"}, {"task": "t", "tags": [own]}):
            ids.append((await http.post("/v1/jobs", json=said, headers=headers)).json()["id"])
        lines = await http.post(
            "/v1/jobs/bulk",
            content=body,
            headers={"content-type": "application/x-ndjson", **headers},
        )
        ids += [msgspec.json.decode(line)["id"] for line in lines.text.splitlines()]
        return [(await http.get(f"/v1/jobs/{id}")).json()["tags"] for id in ids]


async def test_a_service_that_traces_nothing_carries_on_what_it_is_sent(app: Sexton) -> None:
    tag = TRACE_TAG + HEARD
    with served(app) as api:
        one, own, first, second = await sent(api, traceparent=HEARD)
        assert (one, first, second) == ([tag], ["mine", tag], [tag])
        assert own == [f"{TRACE_TAG}00-11111111111111111111111111111111-2222222222222222-01"]
        later = f"cc{HEARD[2:]}-more"
        assert (await sent(api, traceparent=later))[0] == [tag]
        for wrong in ("", "nonsense", HEARD.upper(), f"ff{HEARD[2:]}", HEARD + "0", "0" * 55):
            assert (await sent(api, traceparent=wrong))[0] == []


async def test_a_trace_goes_on_through_the_service_into_the_attempt(
    app: Sexton, traced: Traced
) -> None:
    declare(app, traced.tracer)
    with served(app) as api:
        async with Server(api.url) as server:
            with traced.tracer.start_as_current_span("request"):
                await server.enqueue("at_once", {"n": 0})
                jobs = [{"task": "at_once", "payload": {"n": n}} for n in (1, 2)]
                assert [line.status async for line in server.enqueue_many(jobs)] == ["created"] * 2
            await server.enqueue("waits")
        async with app:
            await run_until(app, 4)
    request = traced.one("request")
    one, many = traced.one("enqueue at_once"), traced.one("enqueue many")
    for enqueue in (one, many):
        assert of_one_trace(enqueue, request), "if with a span of the web framework in between"
        assert enqueue.kind is trace.SpanKind.PRODUCER
    assert one.attributes is not None
    assert many.attributes is not None
    assert many.attributes["messaging.batch.message_count"] == 2
    attempts = {
        each.attributes["sexton.job.id"]: each
        for each in traced.named("attempt at_once")
        if each.attributes is not None
    }
    assert child_of(attempts.pop(one.attributes["sexton.job.id"]), one)
    assert all(child_of(each, many) for each in attempts.values())
    assert not of_one_trace(traced.one("enqueue waits"), request)
    assert child_of(traced.one("attempt waits"), traced.one("enqueue waits"))
