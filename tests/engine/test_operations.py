"""Operating on jobs: as many as were named, through any lock, and clear words for bad input."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from sexton import Sexton
from sexton.errors import SextonError
from sexton.store.connection import Address

from ..support.hands import hands


async def test_redriving_by_id_takes_every_one_that_was_named(
    app: Sexton, address: Address
) -> None:
    async with app, hands(address) as worker:
        await worker.rows(
            "insert into sexton.dead (job_id, died_at, created_at, attempt, attempts_before, "
            "priority, reason, task, queue, payload) select nextval('sexton.job_id'), now(), "
            "now(), 1, 0, 0, 'permanent', 't', 'default', '{}' from generate_series(1, 1500)"
        )
        assert len(await app.redrive(*range(1, 1501))) == 1500
        assert await app.live_count() == 1500


async def test_a_cancel_that_meets_a_deadlock_is_tried_again(
    app: Sexton, address: Address, database_url: str
) -> None:
    async with app, hands(address) as worker:
        first, second = [(await worker.enqueue()).id for _ in range(2)]
        other = await asyncpg.connect(database_url)
        await other.execute(
            "set deadlock_timeout = '1h'"
        )  # so that the cancel is the one to give in
        transaction = other.transaction()
        await transaction.start()
        lock = "select id from sexton.job where id = $1 for update"
        await other.execute(lock, second)
        cancelling = asyncio.create_task(app.cancel(second, first))
        while not await worker.value("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0.01)
        await other.execute(lock, first)
        await transaction.rollback()
        await other.close()
        assert await cancelling == {first: True, second: True}


BAD: dict[str, Callable[[Any], Any]] = {
    "'1' is not a job's id": lambda app: app.cancel("1"),
    "1180591620717411303424 is not a job's id": lambda app: app.cancel(2**70),
    r"unpack it, like cancel\(\*ids\)": lambda app: app.cancel([1, 2]),
    "'x' is not a job's id": lambda app: app.redrive("x"),
    "'y' is not a job's id": lambda app: app.purge("y"),
    "since is .* without a time zone": lambda app: app.redrive(since=datetime(2030, 1, 1)),  # noqa: DTZ001
    "until is 'now'; it must be a datetime": lambda app: app.redrive(until="now"),
    "limit is -1": lambda app: app.redrive(task="t", limit=-1),
    "limit is 0": lambda app: app.dead(limit=0),
    "limit is 1099511627776": lambda app: app.jobs(limit=2**40),
    "task is .*NUL": lambda app: app.redrive(task="a\x00"),
    "queue is 3; it must be a string": lambda app: app.jobs(queue=3),
    "tag is .*not Unicode": lambda app: app.jobs(tag="\ud800"),
    "before is 3; it must be the last dead job": lambda app: app.dead(before=3),
    "silent_for: -1 is not a duration": lambda app: app.stuck(-1),
    "retention: 'x' is not a duration": lambda app: app.keep_history("x"),
    "dead: history is kept in days": lambda app: app.keep_history(dead="2h"),
    "enqueue_many takes calls": lambda app: app.enqueue_many(5),
}


@pytest.mark.parametrize("message", BAD)
async def test_bad_input_is_refused_in_words_of_ours(app: Sexton, message: str) -> None:
    async with app:
        with pytest.raises(SextonError, match=message):
            await BAD[message](app)
