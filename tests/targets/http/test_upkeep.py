"""Keys that change, endpoints that nobody uses any more, and workers that die."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator

import asyncpg
import pytest
from typer.testing import CliRunner

from sexton.cli.main import app as program
from sexton.domain.retry import Retry
from sexton.errors import ConfigurationError
from sexton.flow import forget
from sexton.settings import Settings
from sexton.targets.http.endpoint import open_headers, open_secrets
from sexton.targets.http.seal import CannotOpen, Seal, fresh_key
from sexton.targets.http.sign import fresh_secret

from .post import KEY, post, working
from .sink import Heard, Reply, listening, reply

NEW = fresh_key()


@pytest.fixture
def on(database_url: str, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("SEXTON_DATABASE_URL", database_url)
    return CliRunner()


def test_a_fresh_key_is_one_that_the_settings_take(on: CliRunner) -> None:
    keys = {on.invoke(program, ["secret-key"]).stdout.strip() for _ in range(2)}
    assert len(keys) == 2
    for key in keys:
        assert len(Settings(secret_key=key).secret_keys[0]) == 32


async def test_after_resealing_the_old_key_is_not_needed_any_more(
    database_url: str, on: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = fresh_secret()
    async with post(database_url) as office:
        await office.endpoint("http://a.example/", "a", secrets=(secret,), headers={"X": "1"})
        await office.endpoint("http://b.example/", "b")
        store = (await office.app.client()).store
        [before] = await store.endpoints.by_name(1, ["a"])
        new = Seal(Settings(secret_key=NEW).secret_keys)
        with pytest.raises(CannotOpen):
            open_secrets(before, new)
        for times in ("1", "0"):
            monkeypatch.setenv("SEXTON_SECRET_KEY", f"{NEW},{KEY}")
            done = await asyncio.to_thread(on.invoke, program, ["secret-key", "--reseal"])
            assert f"the secrets of {times} endpoints" in done.stdout, done.output
        [after] = await store.endpoints.by_name(1, ["a"])
        assert open_secrets(after, new) == [secret]
        assert open_headers(after, new) == {"X": "1"}
        monkeypatch.setenv("SEXTON_SECRET_KEY", fresh_key())
        lost = await asyncio.to_thread(on.invoke, program, ["secret-key", "--reseal"])
        assert lost.exit_code == 1
        assert "endpoint 'a'" in lost.output
        monkeypatch.delenv("SEXTON_SECRET_KEY")
        none = await asyncio.to_thread(on.invoke, program, ["secret-key", "--reseal"])
        assert isinstance(none.exception, ConfigurationError)


async def test_an_endpoint_that_was_written_out_is_forgotten_when_nothing_uses_it(
    database_url: str,
) -> None:
    async with post(database_url) as office:
        store = (await office.app.client()).store
        names = ("named", "~unused", "~live", "~dead", "~schedule", "~lately")
        rows = {name: await office.endpoint("http://a.example/", name) for name in names}
        await office.rows(
            "update sexton.endpoint set changed_at = now() - interval '31 days' "
            "where name <> '~lately'"
        )
        await office.enqueue(rows["~live"])
        task = f"http:{rows['~schedule'].id}"
        await office.app.schedules.add("s", task, {}, every="1d")
        await office.rows(
            "insert into sexton.dead (job_id, died_at, created_at, attempt, attempts_before, "
            "priority, reason, task, queue, payload) "
            "values (1, now(), now(), 1, 0, 0, 'permanent', $1, 'http', '{}')",
            f"http:{rows['~dead'].id}",
        )
        assert await forget.forget_endpoints(store, None, None) == 1
        left = {row["name"] for row in await office.rows("select name from sexton.endpoint")}
        assert left == set(names) - {"~unused"}
        assert await forget.forget_endpoints(store, None, None) == 0


@contextlib.asynccontextmanager
async def worker_process(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`sexton worker --queue http:20`, without an application."""
    environ = {**os.environ, "SEXTON_DATABASE_URL": url, "SEXTON_HTTP_ALLOW": "127.0.0.1"}
    environ |= {"SEXTON_LEASE": "1", "SEXTON_POLL": "0.3", "SEXTON_PATIENCE": "5"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sexton.cli.main", "worker", "--queue", "http:20"),
        *("--log-level", "error"),
        env=environ,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("known", [True, False])
async def test_a_delivery_that_loses_its_lease_has_as_many_attempts_as_its_endpoint_says(
    database_url: str, known: bool
) -> None:
    """Also if the endpoint was not known yet, because PostgreSQL was away."""
    heard = asyncio.Event()

    async def hang(_: Heard) -> Reply:
        heard.set()
        await asyncio.Event().wait()
        return None

    once = Retry(max_attempts=1)
    async with post(database_url) as office, listening(hang) as sink, working(office) as worker:
        blocker = await asyncpg.connect(database_url)
        endpoint = await office.endpoint(sink.url, timeout=60, retry=once)
        transaction = blocker.transaction()
        await transaction.start()
        if not known:
            await blocker.execute("lock table sexton.endpoint")
        [id] = await office.enqueue(endpoint)
        while not (held := list(worker._attempts.held.values())) or heard.is_set() != known:
            await asyncio.sleep(0.01)
        worker._attempts.executor.stop(held[0], "lease")
        await transaction.rollback()
        job = await office.ended(id)
        await blocker.close()
    assert (job.state, [each.outcome for each in job.attempts]) == ("dead", ["lost"])
    assert heard.is_set() == known


async def test_a_delivery_whose_worker_is_killed_is_made_again_by_another(
    database_url: str,
) -> None:
    async def answer(heard: Heard) -> Reply:
        if heard.headers["sexton-attempt"] == "1":
            first.set()
            await asyncio.Event().wait()
        return reply()

    first = asyncio.Event()
    async with post(database_url) as office, listening(answer) as sink:
        async with worker_process(database_url) as doomed:
            [id] = await office.enqueue(await office.endpoint(sink.url, timeout=60))
            await asyncio.wait_for(first.wait(), 30)
            doomed.send_signal(signal.SIGKILL)
            await doomed.wait()
        async with worker_process(database_url) as second:
            job = await office.ended(id)
            second.send_signal(signal.SIGTERM)
            assert await second.wait() == 0
    assert [each.outcome for each in job.attempts] == ["lost", "succeeded"]
    [heard] = sink.heard
    assert int(heard.headers["sexton-fence"]) > job.attempts[0].fence
    assert heard.headers["webhook-id"].endswith(f"-job-{id}")


async def test_an_endpoint_row_cannot_be_reached_by_the_role_of_another_tenant(
    database_url: str,
) -> None:
    """Row-level security, and a trigger that declares tasks for who may not do so otherwise."""
    async with post(database_url) as office:
        await office.rows("insert into sexton.tenant (name) values ('other')")
        mine = await office.endpoint("http://a.example/", "mine", tenant=2)
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute("set role sexton_tenant; set sexton.tenant = 1")
            assert await connection.fetch("select * from sexton.endpoint") == []
            assert await connection.execute("delete from sexton.endpoint") == "DELETE 0"
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("delete from sexton.task")
            await connection.execute("set sexton.tenant = 2")
            assert await connection.execute("delete from sexton.endpoint") == "DELETE 1"
        finally:
            await connection.close()
        task = f"http:{mine.id}"
        assert not await office.rows("select from sexton.task where name = $1", task)
