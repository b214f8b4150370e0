"""Enqueue: one and many, keys, options, everybody's connections, and bad input."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from sexton import Sexton
from sexton.errors import ConfigurationError, InvalidJob
from sexton.targets.task import Call, Task


@pytest.fixture
def add(app: Sexton) -> Task[Any, Any]:
    @app.task(queue="sums")
    async def add(a: int, b: int = 1, note: str = "") -> int:
        return a + b

    return add


async def test_a_job_is_kept_as_it_was_enqueued(app: Sexton, add: Task[Any, Any]) -> None:
    async with app:
        at = datetime.now(UTC) + timedelta(hours=2)
        enqueued = await add.enqueue(3, b=4, at=at, priority=2, queue="other", tags=["x", "y"])
        job = await app.job(enqueued.id)
    assert (job.state, job.payload, job.due_at) == ("waiting", {"a": 3, "b": 4}, at)
    assert (job.priority, job.queue, job.tags) == (2, "other", ("x", "y"))


async def test_an_instant_in_the_past_is_due_now_and_does_not_overtake(
    app: Sexton, add: Task[Any, Any]
) -> None:
    async with app:
        first = await add.enqueue(1)
        second = await add.enqueue(2, at=datetime(2001, 1, 1, tzinfo=UTC))
        one, two = await app.job(first.id), await app.job(second.id)
    assert one.due_at is not None
    assert two.due_at is not None
    assert one.due_at < two.due_at


async def test_a_key_dedupes_while_its_job_is_live(app: Sexton, add: Task[Any, Any]) -> None:
    async with app:
        first = await add.enqueue(1, key="k")
        second = await add.enqueue(2, key="k")
        assert second.duplicate
        assert second.id == first.id
        await app.cancel(first.id)
        assert not (await add.enqueue(3, key="k")).duplicate


async def test_a_key_belongs_to_its_task(app: Sexton, add: Task[Any, Any]) -> None:
    @app.task
    async def other() -> None: ...

    async with app:
        await add.enqueue(1, key="k")
        assert not (await other.enqueue(key="k")).duplicate


async def test_ten_at_once_with_one_key_make_one_job(app: Sexton, add: Task[Any, Any]) -> None:
    async with app:
        answers = await asyncio.gather(*(add.enqueue(n, key="k") for n in range(10)))
        assert len({answer.id for answer in answers}) == 1
        assert sum(not answer.duplicate for answer in answers) == 1
        assert await app.live_count() == 1


async def test_a_batch_answers_in_order_and_dedupes_within_itself(
    app: Sexton, add: Task[Any, Any]
) -> None:
    async with app:
        held = await add.enqueue(0, key="b")
        calls = [
            add.call(1),
            add.call(2).options(key="a"),
            add.call(3).options(key="b"),
            add.call(4).options(key="a"),
            add.call(5).options(delay=60, priority=-3, tags=["t"]),
        ]
        answers = await app.enqueue_many(calls)
        assert [answer.duplicate for answer in answers] == [False, False, True, True, False]
        assert answers[2].id == held.id
        assert answers[3].id == answers[1].id
        last = await app.job(answers[4].id)
        assert (last.state, last.priority, last.tags) == ("waiting", -3, ("t",))
        assert (await app.job(answers[0].id)).payload == {"a": 1}
        assert await app.live_count() == 4


async def test_ten_thousand_at_once(app: Sexton, add: Task[Any, Any]) -> None:
    async with app:
        answers = await app.enqueue_many(add.call(n) for n in range(10_000))
        assert len({answer.id for answer in answers}) == 10_000
        assert await app.live_count() == 10_000


async def test_an_enqueue_rolled_back_by_its_caller_leaves_nothing(
    app: Sexton, add: Task[Any, Any], database_url: str
) -> None:
    async with app:
        connection = await asyncpg.connect(database_url)
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():
                await add.enqueue(1, key="k", connection=connection)
                await app.enqueue_many([add.call(2), add.call(3)], connection=connection)
                raise ZeroDivisionError
        assert await app.live_count() == 0
        async with connection.transaction():
            assert not (await add.enqueue(1, key="k", connection=connection)).duplicate
            await app.enqueue_many([add.call(2), add.call(3)], connection=connection)
        await connection.close()
        assert await app.live_count() == 3


def test_psycopg_sync_enqueues_in_its_transaction(
    app: Sexton, add: Task[Any, Any], database_url: str
) -> None:
    with psycopg.connect(database_url) as connection:
        with pytest.raises(ZeroDivisionError), connection.transaction():
            add.enqueue_sync(1, connection=connection)
            raise ZeroDivisionError
        with connection.transaction():
            enqueued = add.enqueue_sync(
                1, b=2, key="k", delay="1h", tags=["a"], priority=3, connection=connection
            )
            assert add.enqueue_sync(9, key="k", connection=connection).duplicate
        row = connection.execute(
            "select payload, queue, tags, priority, due_at - created_at from sexton.job"
        ).fetchone()
    assert enqueued.id > 0
    assert row == ({"a": 1, "b": 2}, "sums", ["a"], 3, timedelta(hours=1))


async def test_psycopg_async_enqueues_in_its_transaction(
    app: Sexton, add: Task[Any, Any], database_url: str
) -> None:
    connection = await psycopg.AsyncConnection.connect(database_url)
    async with connection:
        await add.enqueue(1, connection=connection)
        async with app:
            assert await app.live_count() == 0
            await connection.commit()
            assert await app.live_count() == 1


def sqlalchemy_url(database_url: str, driver: str) -> str:
    return database_url.replace("postgresql://", f"postgresql+{driver}://")


def test_sqlalchemy_sync_enqueues_in_its_transaction(
    app: Sexton, add: Task[Any, Any], database_url: str
) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy_url(database_url, "psycopg"))
    with engine.connect() as connection:
        add.enqueue_sync(1, key="k", tags=["a", "b"], connection=connection)
        connection.rollback()
        assert not add.enqueue_sync(1, key="k", connection=connection).duplicate
        connection.commit()
    with Session(engine) as session:
        assert add.enqueue_sync(2, key="k", connection=session).duplicate
        add.enqueue_sync(3, connection=session)
        session.commit()
        assert session.execute(sqlalchemy.text("select count(*) from sexton.job")).scalar() == 2
    engine.dispose()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_sqlalchemy_async_enqueues_in_its_transaction(
    app: Sexton, add: Task[Any, Any], database_url: str, driver: str
) -> None:
    engine = create_async_engine(sqlalchemy_url(database_url, driver))
    async with engine.connect() as connection:
        await add.enqueue(1, key="k", delay=5, tags=["a"], connection=connection)
        await connection.rollback()
        await add.enqueue(1, key="k", connection=connection)
        await connection.commit()
    async with AsyncSession(engine) as session:
        assert (await add.enqueue(2, key="k", connection=session)).duplicate
        await session.commit()
    await engine.dispose()
    async with app:
        assert await app.live_count() == 1


def test_a_sync_caller_needs_no_event_loop(app: Sexton, add: Task[Any, Any]) -> None:
    first = add.enqueue_sync(1, key="k")
    assert add.enqueue_sync(1, key="k").id == first.id
    assert len(app.enqueue_many_sync([add.call(1), add.call(2)])) == 2
    app.close_sync()


async def test_a_sync_enqueue_inside_an_event_loop_says_what_to_do(
    app: Sexton, add: Task[Any, Any]
) -> None:
    with pytest.raises(RuntimeError, match="await the asynchronous"):
        add.enqueue_sync(1)


async def test_plain_sql_enqueues_with_what_the_task_declared(
    app: Sexton, add: Task[Any, Any], database_url: str
) -> None:
    async with app:
        await app.declare()
        connection = await asyncpg.connect(database_url)
        await connection.execute("""select sexton.enqueue('add', '{"a": 1}')""")
        await connection.execute("""select sexton.enqueue('unheard_of')""")
        queues = await connection.fetch("select queue from sexton.job order by id")
        assert [row[0] for row in queues] == ["sums", "default"]
        for bad in (
            "select sexton.enqueue('')",
            "select sexton.enqueue('x', '[1]')",
            "select sexton.enqueue('x', priority => 9)",
            "select sexton.enqueue('x', key => '')",
            "select sexton.enqueue('x', at => 'infinity')",
            "select sexton.enqueue('x', at => now(), delay => '1 s')",
        ):
            with pytest.raises(asyncpg.InvalidParameterValueError):
                await connection.execute(bad)
        await connection.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"a": object()}, "argument 'a' of type object is not JSON"),
        ({"a": float("nan")}, "NaN"),
        ({"a": 1, "note": "a\x00b"}, "NUL"),
        ({"a": 1, "note": "\ud800"}, "argument 'note'"),
        ({"a": "1"}, "argument a: expected int, got str"),
        ({"b": 1}, "also needs a"),
        ({"a": 1, "bee": 1}, "no argument 'bee'"),
        ({"a": 1, "note": "x" * 2_000_000}, "more than the 1,048,576 allowed"),
    ],
)
async def test_arguments_that_cannot_be_right_are_refused(
    app: Sexton, add: Task[Any, Any], arguments: dict[str, Any], message: str
) -> None:
    async with app:
        with pytest.raises(InvalidJob, match=message):
            await add.enqueue(**arguments)
        assert await app.live_count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": 9}, "from -5 to 5"),
        ({"delay": -1}, "delay"),
        ({"delay": "soon"}, "delay"),
        ({"at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the point
        ({"at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 1}, "not both"),
        ({"key": ""}, "key"),
        ({"key_held_for": 5}, "needs a key"),
        ({"queue": ""}, "queue"),
        ({"tags": "abc"}, "list of strings"),
    ],
)
async def test_options_that_cannot_be_right_are_refused(
    app: Sexton, add: Task[Any, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message):
        await add.enqueue(1, **options)


async def test_an_argument_named_like_an_option_goes_through_call(app: Sexton) -> None:
    @app.task
    async def move(key: str) -> None: ...

    async with app:
        with pytest.raises(InvalidJob, match=r"call\(…\)\.enqueue"):
            await move.enqueue(key="a")
        assert (await app.job((await move.call(key="a").enqueue(key="k")).id)).key == "k"


async def test_a_connection_of_an_unknown_kind_is_refused(app: Sexton, add: Task[Any, Any]) -> None:
    with pytest.raises(ConfigurationError, match="asyncpg, psycopg or SQLAlchemy"):
        await add.enqueue(1, connection="postgresql://")


async def test_two_callers_with_the_same_keys_in_opposite_order_both_succeed(app: Sexton) -> None:
    @app.task
    async def note() -> None: ...

    async with app:
        keys = [f"key {n:05}" for n in range(2_500)]
        up = app.enqueue_many(note.call().options(key=key) for key in keys)
        down = app.enqueue_many(note.call().options(key=key) for key in reversed(keys))
        first, second = await asyncio.gather(up, down)
        assert [each.id for each in first] == [each.id for each in reversed(second)]
        assert all(a.duplicate != b.duplicate for a, b in zip(first, reversed(second), strict=True))
        assert await app.live_count() == 2_500


async def test_a_payload_is_kept_as_it_was_written_whichever_way_it_comes(
    app: Sexton, database_url: str
) -> None:
    @app.task
    async def take(x: float, d: dict[str, int]) -> None: ...

    def call(**options: Any) -> Call:
        return take.call(x=1e22, d={"zebra": 1, "a": 2}).options(**options)

    async with app:
        connection = await asyncpg.connect(database_url)
        await call().enqueue()
        await call().enqueue(key="k")
        await call().enqueue(connection=connection)
        await app.enqueue("take", {"x": 1e22, "d": {"zebra": 1, "a": 2}})
        await app.enqueue_many([call(), call(key="l")])
        await app.enqueue_many([call(), call(key="m")], connection=connection)
        kept = await connection.fetch("select payload from sexton.job")
        await connection.close()
    assert len(kept) == 8
    assert len({row["payload"] for row in kept}) == 1, "the same call, whether it has a key or not"
