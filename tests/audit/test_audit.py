"""What may be asked of an audit, and that it holds while everything moves, and for many."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sexton import Sexton
from sexton.domain.schedule import Rule
from sexton.errors import ConfigurationError, InvalidSchedule, UnknownSchedule
from sexton.flow.rules import Rules

from ..support.pooler import TransactionPooler
from ..support.postgres import Postgres
from .tower import LAG, tower, wrong


async def test_what_cannot_be_audited_is_refused(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.turn("1m")
        now = held.clock.now
        with pytest.raises(ConfigurationError, match="not before"):
            await held.app.audit(now, now)
        with pytest.raises(UnknownSchedule, match="did you mean 'bell'"):
            await held.audit(schedule="bel")
        with pytest.raises(InvalidSchedule, match="from: "):
            await held.app.audit(now.replace(tzinfo=None), now)


async def test_days_that_are_not_kept_any_more_are_not_vouched_for(database_url: str) -> None:
    async with tower(database_url) as held:
        long_ago = held.clock.now - timedelta(days=200)
        assert wrong(await held.audit(long_ago)) == {}, "there was no schedule yet"
        await held.add(cron="0 0 * * *")
        await held.app.keep_history("1d")
        await held.turn("3d")
        while await held.store.history.drop_bucket():
            pass
        kept = datetime(2026, 1, 7, tzinfo=UTC)
        with pytest.raises(ConfigurationError, match="kept from 2026-01-07T00:00:00"):
            await held.audit()
        with pytest.raises(ConfigurationError, match="kept from"):
            await held.audit(kept - timedelta(microseconds=1))
        found = await held.audit(kept)
        assert (wrong(found), found.fired) == ({}, 2)
        await held.app.keep_history("90d")
        with pytest.raises(ConfigurationError, match="kept from 2026-01-07"):
            await held.audit()


async def test_what_is_to_come_is_not_expected_yet(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.turn("3m")
        found = await held.app.audit(held.begun, held.clock.now + timedelta(days=1))
        assert (wrong(found), found.expected, found.to) == ({}, 3, held.clock.now)


async def test_fires_that_happen_meanwhile_do_not_look_like_violations(app: Sexton) -> None:
    async with app:
        for n in range(200):
            await app.schedules.add(f"s{n}", "ring", cron="* * * * * *", overlap="allow")
        running = asyncio.create_task(app.run_scheduler())
        try:
            store = (await app.client()).store
            begun = await store.history.clock()
            audits = fired = 0
            while fired < 400:
                found = await app.audit(begun, begun + timedelta(hours=1))
                assert wrong(found) == {}, found.violations
                fired = found.fired
                audits += 1
            assert audits > 1
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_an_audit_leaves_nothing_behind_in_a_session_that_a_pooler_lends(
    server: Postgres, database_url: str
) -> None:
    name = database_url.split("@/")[1].split("?")[0]
    async with TransactionPooler(server.socket, name) as pooler:
        async with Sexton(pooler.url, pooler=True) as app:
            await app.schedules.add("bell", "ring", cron="0 0 1 1 *")
            now = await (await app.client()).store.history.clock()
            found = await app.audit(now - timedelta(hours=1), now + timedelta(hours=1))
            assert (wrong(found), found.schedules) == ({}, 1)
            assert (await app.explain("bell", now)).verdict == "not_scheduled"
        assert await pooler.residue() == set()


async def test_fifty_thousand_fires_of_a_thousand_schedules(database_url: str) -> None:
    async with tower(database_url) as held:
        kinds: list[dict[str, Any]] = [
            {"cron": "* * * * *"},
            {"cron": "* * * * *", "jitter": 30},
            {"cron": "* * * * *", "jitter": 30, "timezone": "Asia/Tokyo"},
            {"every": "60s", "anchor": "2026-01-05T00:00:13Z"},
        ]
        for n, kind in enumerate(kinds):
            await held.add(f"pattern {n}", **kind)
        await held.rows(
            """
            with rule as (
                select array_agg(rule_id order by name) as ids,
                    array_agg(anchor order by name) as anchors
                from sexton.schedule
            )
            insert into sexton.schedule (name, since, created_at, rule_id, anchor, task, said)
            select 's' || n, $1, $1, rule.ids[1 + n % 4], rule.anchors[1 + n % 4], 'ring', '{}'
            from rule, generate_series(1, 996) as n""",
            held.begun,
        )
        found = await held.audit(held.begun - timedelta(hours=1))
        assert found.expected == 0, "nothing before it began"
        held.clock.advance("50m")
        ids = await held.rows("select id, rule_id from sexton.schedule order by id")
        rules = await Rules(held.store).get(row["rule_id"] for row in ids)
        rows: list[tuple[Any, ...]] = []
        for id, rule_id in ids:
            rule = rules[rule_id]
            assert isinstance(rule, Rule)
            anchor = datetime(2026, 1, 5, tzinfo=UTC)
            at = rule.timetable.after(held.begun, anchor)
            while at is not None and at < held.clock.now:
                fire_at = rule.timetable.fire_at(at, anchor, id)
                if fire_at < held.clock.now:
                    rows.append((id, fire_at, at, fire_at + LAG, len(rows), "fired", "due"))
                at = rule.timetable.after(at, anchor)
        columns = (
            "schedule_id",
            "fire_at",
            "scheduled_at",
            "decided_at",
            "job_id",
            "decision",
            "kind",
        )
        await held.store.source.copy("sexton", "fire", columns, rows)
        await held.rows(
            """
            insert into sexton.attempt (
                job_id, fence, created_at, due_at, finished_at, attempt, outcome, next, task, queue,
                schedule_id, fire_at)
            select job_id, 1, decided_at, decided_at, decided_at, 1, 'succeeded', 'succeeded',
                'ring', 'default', schedule_id, fire_at
            from sexton.fire"""
        )
        found = await held.audit()
        assert wrong(found) == {}
        assert found.expected == found.fired == len(rows) > 49_000
        assert found.schedules == 1000
        for table in ("fire", "attempt"):
            await held.rows(f"delete from sexton.{table} where job_id % 1000 = 7")
        assert wrong(await held.audit()) == {"missing": len(range(7, len(rows), 1000))}
