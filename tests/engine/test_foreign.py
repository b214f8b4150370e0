"""Settling and enqueueing on connections that make of their rows what they like."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import args_row, dict_row, namedtuple_row, scalar_row

from sexton import Job, LeaseLost, Retry, Sexton
from sexton.domain.job import Claim
from sexton.errors import SextonError
from sexton.store.connection import Address
from sexton.targets.job import Job as Context
from sexton.targets.settlement import demand, settle_in

from ..support.hands import hands
from .test_worker import ended, working

FACTORIES = [dict_row, namedtuple_row, scalar_row, args_row(lambda *_: True)]


class DictCursor:
    """A DB-API cursor whose rows are mappings, as psycopg2's RealDictCursor has them."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.execute = cursor.execute

    def fetchone(self) -> Any:
        return self._cursor.fetchone()


class DictConnection:
    """Not psycopg, as far as can be seen."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextmanager
    def cursor(self) -> Iterator[DictCursor]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            yield DictCursor(cursor)


class NoChannel:
    """The settlement is not asked of the worker."""

    schema = "sexton"
    installation = "here"

    def progress(self, job: Context, value: Any) -> None: ...
    def transaction(self, job: Context, result: Any) -> Any: ...
    def settle_in(self, job: Context, connection: Any, result: Any) -> Any: ...


async def stale_and_fresh(worker: Any) -> tuple[Context, Context]:
    """The job as a worker saw it that lost it, and as its successor does."""
    await worker.enqueue()
    [old] = await worker.claim()
    await worker.rows("update sexton.job set claimed_by = null")
    [new] = await worker.claim()
    return tuple(Context(claim, NoChannel(), None) for claim in (old, new))  # type: ignore[return-value]


@pytest.mark.parametrize("rows", FACTORIES)
async def test_a_stale_settlement_is_refused_whatever_psycopg_makes_of_rows(
    rows: Any, address: Address, database_url: str
) -> None:
    def plainly(job: Context) -> None:
        with psycopg.connect(database_url, row_factory=rows) as connection:
            settle_in(job, connection, "sexton", None, None)

    async with hands(address) as worker:
        stale, fresh = await stale_and_fresh(worker)
        with pytest.raises(LeaseLost):
            await asyncio.to_thread(plainly, stale)
        connection = await psycopg.AsyncConnection.connect(database_url, row_factory=rows)
        async with connection:
            waits: Any = settle_in(stale, connection, "sexton", None, None)
            with pytest.raises(LeaseLost):
                await waits
        await asyncio.to_thread(plainly, fresh)
        assert not await worker.rows("select * from sexton.job")


async def test_a_stale_settlement_is_refused_over_a_db_api_whose_rows_are_mappings(
    address: Address, database_url: str
) -> None:
    def plainly(job: Context) -> None:
        with psycopg.connect(database_url) as connection:
            settle_in(job, DictConnection(connection), "sexton", None, None)

    async with hands(address) as worker:
        stale, fresh = await stale_and_fresh(worker)
        with pytest.raises(LeaseLost):
            await asyncio.to_thread(plainly, stale)
        await asyncio.to_thread(plainly, fresh)
        assert not await worker.rows("select * from sexton.job")


@pytest.mark.parametrize("answer", [1, "true", "succeed", None, object()])
def test_nothing_but_true_is_taken_for_a_settlement(answer: Any) -> None:
    claim = Claim(7, 99, 1, 1, 0, "t", "{}", None, 0.0, 0.0, 0.0, None)
    with pytest.raises(LeaseLost):
        demand(Context(claim, NoChannel(), None), answer)


async def test_an_enqueue_answers_whatever_psycopg_makes_of_rows(
    app: Sexton, database_url: str
) -> None:
    @app.task
    async def take(n: int) -> None: ...

    def plainly(rows: Any) -> Any:
        with psycopg.connect(database_url, row_factory=rows) as connection:
            return take.enqueue_sync(1, key="k", connection=connection)

    async with app:
        first = await take.enqueue(1, key="k")
        for rows in FACTORIES:
            assert await asyncio.to_thread(plainly, rows) == type(first)(first.id, True)
            connection = await psycopg.AsyncConnection.connect(database_url, row_factory=rows)
            async with connection:
                again = await take.enqueue(1, key="k", connection=connection)
                assert again == type(first)(first.id, True)


async def test_a_task_may_roll_its_own_transaction_back_and_settle_in_another(
    app: Sexton, database_url: str
) -> None:
    @app.task(retry=Retry(max_attempts=1))
    def write(job: Job) -> None:
        for n in range(2):
            with psycopg.connect(database_url) as connection:
                connection.execute("insert into effect values (%s)", [n])
                job.settle_in(connection, result=n)
                if n == 0:
                    connection.rollback()

    connection = await asyncpg.connect(database_url)
    await connection.execute("create table effect (n integer)")
    async with working(app):
        job = await ended(app, (await write.enqueue()).id)
    assert (job.state, job.result) == ("succeeded", 1)
    assert [row["n"] for row in await connection.fetch("select n from effect")] == [1]
    await connection.close()


async def test_the_database_refuses_a_second_settlement_of_one_job(
    app: Sexton, database_url: str
) -> None:
    refused: list[BaseException] = []

    @app.task
    def write(job: Job) -> None:
        with psycopg.connect(database_url) as connection:
            job.settle_in(connection)
            try:
                job.settle_in(connection)
            except SextonError as error:
                refused.append(error)

    async with working(app):
        assert (await ended(app, (await write.enqueue()).id)).state == "succeeded"
    assert "is settled already" in str(refused[0])
