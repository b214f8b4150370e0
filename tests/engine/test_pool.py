"""The pool: first come first served, nothing left behind, nothing waited for in vain."""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from sexton import Job, Retry, Sexton, Unavailable
from sexton.domain.job import NewJob
from sexton.flow.register import Register
from sexton.store import Calendars, Line, Pool, close_all
from sexton.store.connection import Address
from sexton.store.source import CLOSE_WITHIN
from sexton.targets.task import Call

from ..support.postgres import Postgres
from ..support.proxy import Proxy
from .test_worker import ended, working


async def test_a_caller_who_comes_back_at_once_cannot_starve_the_others(address: Address) -> None:
    pool = Pool(address, size=1)
    stop = False

    async def greedy() -> None:
        while not stop:
            await pool.fetch("select 1")

    greed = asyncio.create_task(greedy())
    try:
        await pool.fetch("select 1")
        async with asyncio.timeout(30):
            for _ in range(20):
                await pool.fetch("select 2")
    finally:
        stop = True
        await greed
        await pool.close()


async def test_who_waited_longest_for_a_connection_gets_it_first(address: Address) -> None:
    pool = Pool(address, size=1)
    served: list[int] = []

    async def one(n: int) -> None:
        await pool.fetch("select 1")
        served.append(n)

    async with pool.transaction(ours=True):
        callers = [asyncio.create_task(one(n)) for n in range(10)]
        await asyncio.sleep(0)
    await asyncio.gather(*callers)
    await pool.close()
    assert served == list(range(10))


async def test_a_waiter_that_gives_up_passes_its_connection_on(address: Address) -> None:
    pool = Pool(address, size=1)
    async with pool.transaction(ours=True):
        quitter = asyncio.create_task(pool.fetch("select 1"))
        patient = asyncio.create_task(pool.fetch("select 2"))
        await asyncio.sleep(0)
    # The connection is in the quitter's hands by now, who does not know it yet.
    quitter.cancel()
    assert [row[0] for row in await patient] == [2]
    await pool.close()


async def test_one_deadline_holds_for_the_whole_wait(database_url: str) -> None:
    pool = Pool(Address(database_url, patience=0.3), size=1)
    async with pool.transaction():
        with pytest.raises(Unavailable, match="SEXTON_POOL_SIZE"):
            await pool.fetch("select 1")
    assert await pool.fetch("select 1")
    await pool.close()


LEFT_BEHIND = """
    select current_setting('statement_timeout') as timeout, current_user as role,
        current_setting('app.tenant', true) as tenant, to_regclass('pg_temp.mine') as temporary,
        (select count(*) from pg_locks
         where locktype = 'advisory' and pid = pg_backend_pid()) as locks
"""


async def test_what_a_task_does_to_its_session_ends_with_its_transaction(
    address: Address, database_url: str
) -> None:
    pool = Pool(address, size=1)
    before = dict((await pool.fetch(LEFT_BEHIND))[0])
    for failing in (False, True):
        with pytest.raises(ZeroDivisionError) if failing else contextlib.nullcontext():
            async with pool.transaction() as connection:
                await connection.execute("set statement_timeout = '5s'")
                await connection.execute("select set_config('app.tenant', '7', false)")
                await connection.execute("create temp table mine (id int)")
                await connection.execute("select pg_advisory_lock(1)")
                await connection.execute("set role pg_monitor")
                if failing:
                    raise ZeroDivisionError
        # An empty setting is how PostgreSQL remembers one that was made up.
        after = dict((await pool.fetch(LEFT_BEHIND))[0])
        assert after | {"tenant": after["tenant"] or None} == before
    await pool.close()


async def test_a_codec_that_a_task_sets_meets_nobody_else(database_url: str) -> None:
    app = Sexton(database_url, lease=3, poll=1, grace=1, pool_size=1)

    @app.task
    async def recode(job: Job) -> None:
        async with job.transaction() as connection:
            await connection.set_type_codec(
                "json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )

    @app.task
    async def plain(a: int) -> int:
        return a

    async with working(app):
        assert (await ended(app, (await recode.enqueue()).id)).state == "succeeded"
        one = await plain.enqueue(a=1)
        [two] = await app.enqueue_many([plain.call(a=2)])
        assert (await ended(app, one.id)).result == 1
        assert (await ended(app, two.id)).result == 2


@pytest.mark.parametrize("form", ["text", "binary"])
async def test_many_are_enqueued_through_a_connection_with_codecs_for_json(
    app: Sexton, database_url: str, form: str
) -> None:
    @app.task
    async def take(text: str, n: int = 0) -> None: ...

    def encode(value: Any) -> Any:
        return json.dumps(value) if form == "text" else json.dumps(value).encode()

    connection = await asyncpg.connect(database_url)
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, encoder=encode, decoder=json.loads, schema="pg_catalog", format=form
        )
    awkward = ['tab\tnewline\nreturn\r "quoted" back\\slash \\N', "", "☃ \\u0041", "plain"]
    async with app:
        made = await app.enqueue_many(
            [
                *(take.call(text) for text in awkward),
                take.call("x").options(tags=['a "b"', "c\\d,{e}", "\t"], limit_key="\\N", delay=60),
                take.call("y").options(key="k"),
            ],
            connection=connection,
        )
        kept = [await app.job(each.id) for each in made]
    await connection.close()
    assert [job.payload["text"] for job in kept] == [*awkward, "x", "y"]
    assert kept[4].tags == ('a "b"', "c\\d,{e}", "\t")
    assert kept[4].state == "waiting"


async def test_a_mistake_in_a_tasks_own_statement_is_told_as_it_is(app: Sexton) -> None:
    once = Retry(max_attempts=1)

    @app.task(retry=once)
    async def too_few(job: Job) -> None:
        async with job.transaction() as connection:
            await connection.fetch("select $1::int")

    @app.task(retry=once)
    async def two_at_once(job: Job) -> None:
        async with job.transaction() as connection:
            await asyncio.gather(
                connection.execute("select pg_sleep(0.1)"), connection.execute("select 1")
            )

    async with working(app):
        one = await ended(app, (await too_few.enqueue()).id)
        two = await ended(app, (await two_at_once.enqueue()).id)
    assert (one.error or "").startswith("InterfaceError: the server expects 1 argument")
    assert "another operation is in progress" in (two.error or "").partition("\n")[0]


async def test_a_session_that_ends_under_a_statement_is_told_as_unavailable(
    address: Address, database_url: str
) -> None:
    pool = Pool(address, size=1)
    killer = await asyncpg.connect(database_url)

    async def call() -> None:
        while True:
            await pool.fetch("select repeat('x', 1000) from generate_series(1, 500)")

    for _ in range(20):
        [row] = await pool.fetch("select pg_backend_pid()")
        calling = asyncio.create_task(call())
        await killer.execute("select pg_terminate_backend($1)", row[0])
        with pytest.raises(Unavailable):
            async with asyncio.timeout(10):
                await calling
    await killer.close()
    await pool.close()


async def test_the_statement_of_a_task_whose_time_is_up_ends_in_postgresql_too(
    app: Sexton, database_url: str
) -> None:
    @app.task(timeout=0.2, retry=Retry(max_attempts=1))
    async def sleep(job: Job) -> None:
        async with job.transaction() as connection:
            await connection.execute("select pg_sleep(60)")

    watcher = await asyncpg.connect(database_url)
    async with working(app):
        assert (await ended(app, (await sleep.enqueue()).id)).state == "dead"

        async def over() -> bool:
            return not await watcher.fetchval(
                "select count(*) from pg_stat_activity where query like 'select pg_sleep(60)%' "
                "and state = 'active'"
            )

        async with asyncio.timeout(30):
            while not await over():
                await asyncio.sleep(0.02)
    await watcher.close()


async def test_enqueueing_many_does_not_wait_for_ever_on_a_half_open_connection(
    server: Postgres, database_url: str
) -> None:
    async with Proxy(server.socket) as proxy:
        app = Sexton(proxy.url(Path(database_url.partition("?")[0]).name), patience=1)

        @app.task
        async def t(n: int) -> None: ...

        def calls() -> Iterator[Call]:
            for n in range(5000):
                if n == 1500:
                    proxy.freeze()
                yield t.call(n)

        async with app:
            with pytest.raises(Unavailable):
                async with asyncio.timeout(10):
                    await app.enqueue_many(calls())
            assert len(await app.enqueue_many(t.call(n) for n in range(10))) == 10
            assert await app.live_count() == 10


async def test_enqueueing_by_name_does_not_wait_for_ever_on_a_half_open_connection(
    server: Postgres, database_url: str
) -> None:
    async with Proxy(server.socket) as proxy:
        app = Sexton(proxy.url(Path(database_url.partition("?")[0]).name), patience=1)
        async with app:
            await app.enqueue("other")
            proxy.freeze()
            with pytest.raises(Unavailable):
                async with asyncio.timeout(10):
                    await app.enqueue("other")
            assert (await app.enqueue("other")).id


async def test_enqueueing_in_a_change_of_ours_does_not_wait_for_ever_on_a_half_open_connection(
    server: Postgres, database_url: str
) -> None:
    """As `sexton job enqueue` does, with its line in the audit log."""
    async with Proxy(server.socket) as proxy:
        app = Sexton(proxy.url(Path(database_url.partition("?")[0]).name), patience=0.5)
        async with app:
            client = await app.client()
            with pytest.raises(Unavailable):
                async with asyncio.timeout(30), client.transaction() as store:
                    proxy.freeze()
                    await client.enqueue_named(NewJob("other", "{}", "", None), store.source)
            assert await app.live_count() == 0


async def test_a_change_does_not_wait_for_ever_on_a_half_open_connection(
    server: Postgres, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of its transaction, where only what somebody has locked is waited for longer."""
    held = Calendars.hold

    async def hold(self: Calendars, *args: Any, **options: Any) -> None:
        await held(self, *args, **options)
        proxy.freeze()

    async with Proxy(server.socket) as proxy:
        app = Sexton(proxy.url(Path(database_url.partition("?")[0]).name), patience=0.5)
        async with app:
            with monkeypatch.context() as patched, pytest.raises(Unavailable):
                patched.setattr(Calendars, "hold", hold)
                async with asyncio.timeout(30):
                    await app.calendars.put("closed", dates=["2030-01-01"])
            assert await app.calendars.list() == []


@pytest.mark.parametrize("step", ["_send", "_insert"])
async def test_many_schedules_at_once_do_not_wait_for_ever_on_a_half_open_connection(
    server: Postgres, database_url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Before the savepoint in which they are written, and within it."""
    taken = getattr(Register, step)

    async def frozen(self: Register, *args: Any) -> Any:
        proxy.freeze()
        return await taken(self, *args)

    async with Proxy(server.socket) as proxy:
        app = Sexton(proxy.url(Path(database_url.partition("?")[0]).name), patience=0.5)
        async with app:
            nightly = [app.schedules.spec(f"s{n}", "t", cron="0 6 * * *") for n in range(3)]
            with monkeypatch.context() as patched, pytest.raises(Unavailable):
                patched.setattr(Register, step, frozen)
                async with asyncio.timeout(30):
                    await app.schedules.add_many(nightly)
            assert not [*await app.schedules.list()]


async def test_whoever_waits_for_a_lock_too_long_is_told_so_and_nothing_is_changed(
    database_url: str,
) -> None:
    app = Sexton(database_url, patience=1)
    async with app:
        one = app.schedules.spec("s", "t", cron="0 6 * * *")
        client = await app.client()
        async with client.pool.transaction() as connection:
            await connection.execute("lock table sexton.schedule in exclusive mode")
            with pytest.raises(Unavailable, match="locked for 6 s: nothing was changed; try again"):
                await app.schedules.add_many([one])
        assert not [*await app.schedules.list()]
        assert len(await app.schedules.add_many([one])) == 1


async def test_whoever_leaves_over_a_dead_way_waits_once_and_not_for_each_connection(
    server: Postgres, database_url: str
) -> None:
    """Of a worker that was to end, in torture's seed 152: two seconds for each that it had."""
    async with Proxy(server.socket) as proxy, contextlib.AsyncExitStack() as used:
        address = Address(proxy.url(Path(database_url.partition("?")[0]).name))
        pool = Pool(address, size=5)
        for _ in range(5):
            await used.enter_async_context(pool.transaction(ours=True))
        lines = [Line(address) for _ in range(5)]
        for line in lines:
            await line.fetch("select 1")
        await used.aclose()
        assert pool.use.idle == 5
        proxy.freeze()
        async with asyncio.timeout(4 * CLOSE_WITHIN):
            await asyncio.gather(pool.close(), close_all(lines))


async def test_a_caller_who_is_slow_to_say_what_to_enqueue_is_not_taken_for_a_lost_server(
    database_url: str,
) -> None:
    app = Sexton(database_url, patience=1)

    @app.task
    async def t(n: int) -> None: ...

    def calls() -> Iterator[Call]:
        for n in range(3500):
            if n in (1000, 3000):
                time.sleep(1.2)  # blocks the loop, while the batch before is on its way
            yield t.call(n)

    async with app:
        assert len(await app.enqueue_many(calls())) == 3500


WHO = "select current_user || ' ' || current_setting('default_transaction_read_only')"
STANDS = "set role sexton_tenant; set sexton.tenant = {}; set default_transaction_read_only = on"


async def test_what_is_set_in_a_session_is_there_for_those_who_ask_for_it_and_nobody_else(
    address: Address,
) -> None:
    pool = Pool(address, size=1)
    me = await pool.fetch("select current_user")
    plain = f"{me[0][0]} off"
    for tenant in (7, 8, 8, 7):
        async with pool.session(STANDS.format(tenant)) as connection:
            assert await connection.fetchval(WHO) == "sexton_tenant on"
            assert await connection.fetchval("select current_setting('sexton.tenant')") == str(
                tenant
            )
    async with pool.transaction(ours=True, begin="begin read write; set local role none") as ours:
        assert await ours.fetchval("show transaction_read_only") == "off"
    async with pool.session(STANDS.format(7)) as connection:
        assert await connection.fetchval(WHO) == "sexton_tenant on"
    assert (await pool.fetch(WHO))[0][0] == plain
    async with pool.session(STANDS.format(7)):
        pass
    async with pool.transaction() as theirs:
        assert await theirs.fetchval(WHO) == plain
    await pool.close()


async def test_a_session_that_was_not_set_up_whole_is_not_used(address: Address) -> None:
    pool = Pool(address, size=1)
    with pytest.raises(asyncpg.InvalidParameterValueError):
        async with pool.session("set role sexton_tenant; set role nosuchrole"):
            pass
    async with pool.session(STANDS.format(7)) as connection:
        assert await connection.fetchval(WHO) == "sexton_tenant on"
        slow = asyncio.create_task(connection.fetch("select pg_sleep(60)"))
        await asyncio.sleep(0)
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
    assert "sexton_tenant" not in (await pool.fetch(WHO))[0][0]
    await pool.close()
