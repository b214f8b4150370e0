"""One bad schedule never stops the others: put aside if it cannot be fired, passed by if locked."""

import asyncpg
import pytest

from sexton.store.connection import Address
from sexton.store.due import Fired

from . import schedules
from .hands import hands

BUCKETS = "select relname::text from pg_class where relname like 'fire\\_2%' and relkind = 'r'"


async def test_a_day_without_a_bucket_gets_one_and_only_that(address: Address) -> None:
    async with hands(address) as node:
        before = {row[0] for row in await node.rows(BUCKETS)}
        node.clock.move_to(node.at(400 * 86400))
        id = await node.add(node.now, when={"at": node.now})
        ancient = await node.add(node.at(-390 * 86400), policy={"misfire": "skip"})
        assert (await node.fire()).jobs == 1
        assert {row[0] for row in await node.rows(BUCKETS)} - before == {
            f"fire_{node.now:%Y%m%d}",
        }
        assert await node.ledger(id) == [(0, "fired", "due")]
        await node.mark_late()
        node.clock.advance(86400)
        once = await node.add(node.at(-20), when={"at": node.at(-20)})
        await node.mark_late()
        await node.catch_up()
        assert await node.ledger(once) == [(-20, "fired", "catch_up")]
        assert (await node.due(ancient))["next_fire_at"] > node.now
        assert {row[0] for row in await node.rows(BUCKETS)} - before == {
            f"fire_{node.at(-86400):%Y%m%d}",
            f"fire_{node.now:%Y%m%d}",
        }, "what is not fired needs no bucket"


async def test_a_schedule_that_cannot_be_written_is_put_aside_and_the_others_are_fired(
    address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    async with hands(address) as node:
        ids = await schedules.add(node.store.source, node.now, count=40)
        bad = [ids[3], ids[39]]
        await node.rows(
            "update sexton.schedule set expires_in = '293000 years' where id = any ($1)", bad
        )
        assert await node.fire() == Fired(38, 38, ())
        for id in ids:
            schedule, due = await node.schedule(id), await node.due(id)
            if id in bad:
                assert schedule["state"] == "quarantined"
                assert "its fire cannot be written" in schedule["reason"]
                assert "timestamp out of range" in schedule["reason"]
                assert (due["stamp"], due["late"]) == (1, False)
                assert await node.ledger(id) == []
                assert repr(schedule["name"]) in caplog.text
            else:
                assert schedule["state"] == "active"
                assert len(await node.jobs(id)) == 1
        node.clock.advance(1)
        assert (await node.fire()).moved == 38


FAIL = """
create function fail() returns trigger language plpgsql as
$$ begin raise exception 'no room' using errcode = tg_argv[0]; end $$
"""


@pytest.mark.parametrize(
    "code", ["53100", "53200", "54000", "42501", "58030"],
    ids=["disk full", "out of memory", "too many notifications", "no privilege", "input/output"],
)  # fmt: skip
async def test_a_fault_of_the_server_is_waited_for_and_no_schedule_is_blamed(
    address: Address, code: str
) -> None:
    async with hands(address) as node:
        await schedules.add(node.store.source, node.now, count=5)
        await node.rows(FAIL)
        await node.rows(
            "create trigger fail before insert on sexton.job "
            f"for each row execute function fail('{code}')"
        )
        with pytest.raises(asyncpg.PostgresError, match="no room"):
            await node.fire()
        assert await node.value("select count(*) from sexton.schedule where state = 'active'") == 5
        await node.rows("drop trigger fail on sexton.job")
        assert (await node.fire()).jobs == 5


async def test_the_fire_that_a_quarantine_leaves_out_is_recorded_as_missed(
    address: Address,
) -> None:
    async with hands(address) as node:
        bad = await node.add(node.now)
        await node.rows("update sexton.schedule set expires_in = '293000 years'")
        await node.fire()
        assert (await node.schedule(bad))["state"] == "quarantined"
        [gap] = await node.rows("select * from sexton.gap")
        assert (gap["schedule_id"], gap["decision"], gap["first_at"]) == (bad, "missed", node.now)
        assert gap["fires"] is None


BROKEN = {
    "not even a text": ("{", "the rule cannot be read"),
    "from a newer version": ('{"when":{"cron":"* * * * *","moon":"full"}}', "moon"),
    "of nonsense": ('{"when":{"cron":"61 * * * *"}}', "minute"),
    "without its calendar": (
        '{"when":{"cron":"* * * * *","exclude":[["gone",77]]}}',
        "does not exist|cannot be read",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_rule_that_cannot_be_compiled_is_put_aside_and_the_others_are_fired(
    address: Address, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, why = BROKEN[kind]
    async with hands(address) as node:
        good = await node.add(node.now)
        bad = await node.add(node.now, text=text)
        assert await node.fire() == Fired(1, 1, ())
        schedule = await node.schedule(bad)
        assert schedule["state"] == "quarantined"
        assert await node.rows("select 1 where $1::text ~ $2", schedule["reason"], why)
        assert schedule["version"] == 2
        assert schedule["since"] == node.now
        [version] = await node.rows("select * from sexton.schedule_version")
        assert (version["schedule_id"], version["version"]) == (bad, 1)
        assert (version["state"], version["ended_by"]) == ("active", "quarantine")
        assert version["until"] == node.now
        assert f"schedule {schedule['name']!r} is quarantined" in caplog.text
        caplog.clear()
        node.clock.advance(1)
        assert (await node.fire()).moved == 1
        assert not caplog.text
        assert await node.decisions(good) == ["fired", "overlap"]


async def test_a_rule_that_is_not_there_is_put_aside(address: Address) -> None:
    async with hands(address) as node:
        bad = await node.add(node.now)
        await node.rows("update sexton.due set rule_id = 4711")
        good = await node.add(node.now)
        await node.fire()
        assert (await node.schedule(bad))["state"] == "quarantined"
        assert await node.decisions(good) == ["fired"]


async def test_a_calendar_that_cannot_be_read_stops_only_the_schedules_that_use_it(
    address: Address,
) -> None:
    async with hands(address) as node:
        source = node.store.source
        versions = {
            "bad": await schedules.add_calendar(source, "bad", '{"moons": ["full"]}'),
            "good": await schedules.add_calendar(source, "good", windows=["20:00-06:00"]),
        }
        using = {
            name: await node.add(
                node.now, when={"cron": "* * * * *", "exclude": [name]}, versions=versions
            )
            for name in versions
        }
        plain = await node.add(node.now)
        assert (await node.fire()).jobs == 2
        assert (await node.schedule(using["bad"]))["state"] == "quarantined"
        assert "moons" in (await node.schedule(using["bad"]))["reason"]
        assert await node.decisions(using["good"]) == await node.decisions(plain) == ["fired"]


async def test_a_schedule_that_was_repaired_meanwhile_is_not_put_aside(address: Address) -> None:
    async with hands(address) as node:
        id = await node.add(node.now, text="{")
        [row] = await node.read()
        await node.rows("update sexton.due set stamp = stamp + 1")
        assert await node.store.due.quarantine(node.guard, id, row.stamp, "why") is None
        assert (await node.schedule(id))["state"] == "active"
        assert await node.rows("select from sexton.schedule_version") == []


async def test_a_schedule_that_somebody_holds_locked_does_not_hold_up_the_others(
    address: Address,
) -> None:
    async with hands(address) as node:
        ids = await schedules.add(node.store.source, node.now, count=30)
        held = await node.connect()
        transaction = held.transaction()
        await transaction.start()
        await held.execute(
            "update sexton.due set stamp = stamp + 1 where schedule_id = any ($1)", ids[5:7]
        )
        assert (await node.fire()).jobs == 28
        node.clock.advance(11)
        assert await node.mark_late() == 28
        await node.catch_up()
        await transaction.rollback()
        assert await node.mark_late() == 2
        await node.catch_up()
        for id in ids:
            assert (await node.due(id))["next_fire_at"] == node.at(1)


async def test_a_broken_schedule_that_somebody_holds_locked_is_put_aside_later(
    address: Address,
) -> None:
    async with hands(address) as node:
        bad = await node.add(node.now, text="{")
        good = await node.add(node.now)
        held = await node.connect()
        transaction = held.transaction()
        await transaction.start()
        await held.execute("select from sexton.due where schedule_id = $1 for update", bad)
        assert (await node.fire()).jobs == 1
        assert await node.decisions(good) == ["fired"]
        await transaction.rollback()
        await node.fire()
        assert (await node.schedule(bad))["state"] == "quarantined"


async def test_a_late_schedule_that_somebody_holds_locked_does_not_hold_up_the_others(
    address: Address,
) -> None:
    async with hands(address) as node:
        ids = await schedules.add(node.store.source, node.at(-20), count=30)
        await node.mark_late()
        held = await node.connect()
        transaction = held.transaction()
        await transaction.start()
        await held.execute("select from sexton.due where schedule_id = $1 for update", ids[0])
        await node.catch_up()
        assert await node.value("select count(*) from sexton.due where late") == 1
        await transaction.rollback()
        await node.catch_up()
        assert await node.value("select count(*) from sexton.due where late") == 0
