"""Input that means harm, or was just never thought of: one bad row never stops the others."""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from sexton import InvalidJob, Retry, Sexton, UnknownJob
from sexton.errors import ConfigurationError
from sexton.settings import Settings
from sexton.store.connection import Address

from .test_worker import ended, working


async def test_a_payload_nested_too_deeply_stops_nobody_else(
    app: Sexton, database_url: str
) -> None:
    @app.task
    async def take(x: Any) -> None: ...

    deep = '{"x": ' + "[" * 3000 + "]" * 3000 + "}"
    connection = await asyncpg.connect(database_url)
    await connection.execute("set max_stack_depth = '7MB'")
    async with app:
        bad = await connection.fetchval("select id from sexton.enqueue('take', $1)", deep)
        good = await app.enqueue_many([take.call(x=n) for n in range(20)])
    await connection.close()
    async with working(app) as worker:
        assert {(await ended(app, job.id)).state for job in good} == {"succeeded"}
        job = await ended(app, bad)
        assert worker.health.running == 0
    assert job.state == "dead"
    assert "does not fit" in (job.error or "")


async def test_numbers_that_python_will_not_read_can_be_looked_at(
    app: Sexton, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    huge = '{"x": ' + "9" * 6000 + "}"
    id = await connection.fetchval("select id from sexton.enqueue('t', $1)", huge)
    await connection.close()
    async with app:
        assert (await app.job(id)).state == "ready"
        assert len(await app.jobs()) == 1


async def test_an_exception_that_raises_when_it_is_looked_at_is_a_failure(app: Sexton) -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no message for you")

    @app.task(retry=Retry(max_attempts=1))
    async def fail() -> None:
        raise Nasty

    async with working(app) as worker:
        job = await ended(app, (await fail.enqueue()).id)
        assert worker.health.running == 0
    assert job.state == "dead"
    assert "Nasty" in (job.error or "")


async def test_the_recorded_error_names_its_causes_and_the_members_of_a_group(app: Sexton) -> None:
    @app.task(retry=Retry(max_attempts=1))
    async def chained() -> None:
        try:
            dict[str, int]()["missing"]
        except KeyError as error:
            raise RuntimeError("outer") from error

    @app.task(retry=Retry(max_attempts=1))
    async def grouped() -> None:
        async def broken() -> None:
            raise ValueError("inner")

        async with asyncio.TaskGroup() as group:
            group.create_task(broken())

    async with working(app):
        one = await ended(app, (await chained.enqueue()).id)
        two = await ended(app, (await grouped.enqueue()).id)
    assert (one.error or "").startswith("RuntimeError: outer")
    assert "KeyError: 'missing'" in (one.error or "")
    assert "ValueError: inner" in (two.error or "")


async def test_a_job_that_dies_is_said_in_the_log(
    app: Sexton, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(retry=Retry(max_attempts=2, base=0))
    async def fail() -> None:
        raise ValueError("the reason")

    with caplog.at_level(logging.INFO, "sexton.job"):
        async with working(app):
            job = await ended(app, (await fail.enqueue()).id)
    said = [record for record in caplog.records if f"job {job.id} (fail)" in record.message]
    assert [record.levelname for record in said] == ["INFO", "WARNING"]
    assert "ValueError: the reason" in said[1].message


@pytest.mark.parametrize(
    "bad",
    [
        "at => '290000-01-01'",
        "at => 'infinity'",
        "delay => '-1 s'",
        "delay => '200 years'",
        "expires_in => '-1 s'",
        "key_held_for => '1 s'",
        "queue => repeat('x', 201)",
        "key => repeat('x', 1001)",
        "tags => array['a', null]",
        "tags => array['']",
    ],
)
async def test_sql_is_as_strict_as_python(database_url: str, bad: str) -> None:
    connection = await asyncpg.connect(database_url)
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"sexton\.enqueue"):
        await connection.execute(f"select sexton.enqueue('t', {bad})")
    await connection.close()


@pytest.mark.parametrize(
    "options",
    [
        {"key": "\ud800"},
        {"queue": "\ud800"},
        {"key": "☃" * 400},
        {"at": datetime.max.replace(tzinfo=UTC)},
        {"tags": 5},
        {"tags": ["\x00"]},
    ],
)
async def test_options_that_postgresql_could_not_keep_are_refused(
    app: Sexton, options: dict[str, Any]
) -> None:
    @app.task
    async def t() -> None: ...

    async with app:
        with pytest.raises(InvalidJob):
            await t.enqueue(**options)


async def test_names_and_ids_that_make_no_sense_are_refused(app: Sexton) -> None:
    async with app:
        for name in ("", "a\x00b", "x" * 300):
            with pytest.raises(InvalidJob):
                await app.enqueue(name)
        with pytest.raises(InvalidJob, match="as a dict"):
            await app.enqueue("t", ["a"])  # type: ignore[arg-type]
        with pytest.raises(InvalidJob, match="takes calls"):
            await app.enqueue_many(["t"])  # type: ignore[list-item]
        with pytest.raises(UnknownJob):
            await app.job("x")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="did you mean 'running'"):
            await app.jobs(state="runing")  # type: ignore[arg-type]


async def test_a_backslash_before_u0000_is_not_a_nul(app: Sexton) -> None:
    @app.task
    async def echo(text: str) -> str:
        return text

    tricky = "a\\u0000b"
    async with working(app):
        assert (await ended(app, (await echo.enqueue(tricky)).id)).result == tricky
        with pytest.raises(InvalidJob, match="NUL"):
            await echo.enqueue("a\\\x00b")


async def test_the_size_of_a_payload_is_counted_in_bytes(app: Sexton) -> None:
    @app.task
    async def echo(text: str) -> None: ...

    with pytest.raises(InvalidJob, match="bytes"):
        echo.call("☃" * 900_000)


def test_a_loop_for_every_enqueue_leaves_no_connections(app: Sexton, database_url: str) -> None:
    @app.task
    async def t() -> None: ...

    for _ in range(5):
        asyncio.run(once(app))

    async def count() -> Any:
        connection = await asyncpg.connect(database_url)
        try:
            return await connection.fetchval(
                "select count(*) from pg_stat_activity where datname = current_database() "
                "and pid <> pg_backend_pid()"
            )
        finally:
            await connection.close()

    assert asyncio.run(count()) <= 1


async def once(app: Sexton) -> None:
    async with app:
        await app.tasks["t"].enqueue()


def test_no_password_is_ever_shown() -> None:
    for url in (
        "postgresql://u:secret@h/d",
        "postgresql://u:se@secret@h/d",
        "postgresql://u@h/d?password=secret&sslmode=require",
    ):
        shown = f"{Address(url)} {Address(url)!r}"
        assert "secret" not in shown
        assert "@h/d" in shown


@pytest.mark.parametrize("url", ["postgresql:///d?host=/run", "postgresql://u@/d", "postgres://h"])
def test_a_server_is_shown_as_it_can_be_typed_again(url: str) -> None:
    assert str(Address(url)) == url


def test_settings_say_what_is_wrong_with_them() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'SEXTON_LEASE'"):
        Settings.load({"SEXTON_LEESE": "5"})
    with pytest.raises(ConfigurationError, match="database_url: Port"):
        Settings.load({"SEXTON_DATABASE_URL": "postgresql://h:bad/d"})
    assert Settings.load({"SEXTON_DATABASE_URL": "", "SEXTON_DATA_FOLDER": ""}) == Settings()
    assert Settings.load({"SEXTON_SERVICE_HOST": "10.0.0.1", "SEXTON_PORT": "tcp://x"})


def test_declarations_that_cannot_be_right_say_so(app: Sexton) -> None:
    async def fine() -> None: ...

    wrong: list[dict[str, Any]] = [
        {"retry": 3},
        {"timeout": -3},
        {"timeout": 0},
        {"queue": ""},
        {"priority": 9},
    ]
    for bad in wrong:
        with pytest.raises(ConfigurationError):
            app.task(**bad)(fine)
    with pytest.raises(ConfigurationError, match="made of a function"):
        app.task("name")  # type: ignore[call-overload]
    unfit: list[dict[str, Any]] = [{"never": 3}, {"on": {KeyError: 3}}]
    for never in unfit:
        with pytest.raises(ValueError, match=r"never and on|on maps"):
            Retry(**never)
    assert Retry(never=ValueError).policy_for(UnicodeError()) is None
