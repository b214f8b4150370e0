"""Ledgers that somebody tampered with: each violation is found, and only it."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from .tower import Tower, tower, wrong

JOB = """
insert into sexton.job (id, created_at, due_at, task, schedule_id, fire_at)
values (777, $2, $2, 'ring', $1, $2)"""


@contextlib.asynccontextmanager
async def two_bells(database_url: str) -> AsyncIterator[tuple[Tower, int, datetime]]:
    """Two schedules that fired for ten minutes; the id of one, and one of its fires."""
    async with tower(database_url) as held:
        await held.add("other", cron="* * * * *")
        id = await held.add("bell", cron="* * * * *")
        await held.turn("10m")
        assert wrong(await held.audit()) == {}
        yield held, id, datetime(2026, 1, 5, 12, 4, tzinfo=UTC)


async def demand_only(held: Tower, what: str, at: datetime, *words: str) -> None:
    """This violation is found, with these words, and no other."""
    found = await held.audit()
    assert wrong(found) == {what: 1}, found.violations
    assert not found.clean
    [violation] = found.violations
    assert (violation.what, violation.schedule, violation.fire_at) == (what, "bell", at)
    for word in words:
        assert word in violation.why
    assert wrong(await held.audit(schedule="other")) == {}


async def test_a_fire_that_the_ledger_does_not_have_is_missing(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        [row] = await held.rows(
            "delete from sexton.fire where schedule_id = $1 and fire_at = $2 returning job_id",
            *(id, at),
        )
        await demand_only(held, "missing", at, f"job {row['job_id']} was made for it")
        await held.rows("delete from sexton.job where id = $1", row["job_id"])
        await demand_only(held, "missing", at, "has moved on")
        assert (await held.audit()).expected == 20
        assert (await held.audit()).fired == 19


async def test_a_fire_that_nobody_decides_is_missing_and_not_pending(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, _):
        await held.rows(
            "update sexton.due set next_fire_at = 'infinity' where schedule_id <> $1", id
        )
        held.clock.advance("80s")  # 12:11:20.5
        found = await held.audit(schedule="bell")
        assert (wrong(found), found.pending) == ({}, 1), "20 s behind: somebody is about to"
        held.clock.advance("11s")
        found = await held.audit(schedule="bell")
        assert (wrong(found), found.pending) == ({"missing": 1}, 0)
        assert "32 s behind" in found.violations[0].why
        await held.sleep(0)
        found = await held.audit(schedule="bell")
        assert (wrong(found), found.pending) == ({}, 1), "being caught up"


@pytest.mark.parametrize("where", ["live", "dead", "past", "past, some days later"])
async def test_a_second_job_for_a_fire_is_found_wherever_it_is(
    database_url: str, where: str
) -> None:
    async with two_bells(database_url) as (held, id, at):
        job = """
            insert into sexton.job (id, created_at, due_at, task, schedule_id, fire_at)
            values (777, $2, $2, 'ring', $1, $2)"""
        dead = """
            insert into sexton.dead (
                job_id, died_at, created_at, attempt, attempts_before, priority, reason, task,
                queue, payload, schedule_id, fire_at)
            values (777, $2, $2, 1, 0, 0, 'permanent', 'ring', 'default', '{}', $1, $2)"""
        past = """
            insert into sexton.attempt (
                job_id, fence, created_at, due_at, finished_at, attempt, outcome, next, task,
                queue, schedule_id, fire_at)
            select 777, n, $2::timestamptz, $2, $2 + n * $3::interval, n, 'failed', 'waiting',
                'ring', 'default', $1, $2
            from generate_series(1, 2) as n"""
        match where:
            case "live":
                await held.rows(job, id, at)
            case "dead":
                await held.rows(dead, id, at)
            case "past":
                await held.rows(past, id, at, timedelta(seconds=9))
            case _:
                await held.rows(past, id, at, timedelta(days=1))
        await demand_only(held, "doubled", at, "job 777", "beside job")


async def test_a_job_that_the_ledger_does_not_account_for_is_found(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        never = at + timedelta(seconds=17)
        await held.rows(JOB, id, never)
        await demand_only(held, "doubled", never, "job 777", "does not have")
        await held.rows("delete from sexton.job where id = 777")
        overlap = """
            update sexton.fire set decision = 'overlap', job_id = null
            where schedule_id = $1 and fire_at = $2"""
        await held.rows(overlap, id, at)
        await demand_only(held, "doubled", at, "the ledger says overlap")


async def test_a_fire_before_its_time_is_early(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        await held.rows(
            """
            update sexton.fire set decided_at = fire_at - interval '250 ms'
            where schedule_id = $1 and fire_at = $2""",
            *(id, at),
        )
        await demand_only(held, "early", at, "0.25 s before its time")


@pytest.mark.parametrize("kind", ["due", "catch_up"])
async def test_a_fire_that_no_version_has_is_unexpected(database_url: str, kind: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        add = """
            insert into sexton.fire (
                schedule_id, fire_at, scheduled_at, decided_at, job_id, decision, kind)
            values ($1, $2, $2, $2, 777, 'fired', $3::text::sexton.fire_kind)"""
        never = at + timedelta(seconds=17)
        await held.rows(add, id, never, kind)
        await held.rows(JOB, id, never)
        await demand_only(held, "unexpected", never, "no version")
        change = "update sexton.fire set kind = 'backfill' where job_id = 777"
        await held.rows(change)
        assert wrong(await held.audit()) == {}, "somebody wanted it"


async def test_a_fire_while_the_schedule_was_paused_is_unexpected(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, _):
        await held.app.schedules.pause("bell")
        await held.turn("5m")
        await held.app.schedules.resume("bell")
        await held.turn("5m")
        assert wrong(await held.audit()) == {}
        at = datetime(2026, 1, 5, 12, 12, tzinfo=UTC)
        await held.rows(
            """
            insert into sexton.fire (
                schedule_id, fire_at, scheduled_at, decided_at, job_id, decision, kind)
            values ($1, $2, $2, $2, 777, 'fired', 'due')""",
            *(id, at),
        )
        await held.rows(JOB, id, at)
        await demand_only(held, "unexpected", at)


async def test_a_gap_accounts_for_what_lies_in_it_and_nothing_else(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        await held.sleep("2h")
        await held.catch_up()
        assert wrong(await held.audit()) == {}
        last = await held.value(
            """
            update sexton.gap set last_at = last_at - interval '1 minute'
            where schedule_id = $1 and decision = 'missed'
            returning last_at""",
            id,
        )
        await demand_only(held, "missing", last + timedelta(minutes=1))
        await held.rows("delete from sexton.gap where schedule_id = $1", id)
        found = await held.audit()
        assert found.missing == 119
        assert len(found.violations) == 20
        # What calendars took out cannot account for what was promised.
        await held.rows(
            """
            insert into sexton.gap (schedule_id, first_at, last_at, decided_at, decision)
            values ($1, $2, $3, $3, 'excluded')""",
            *(id, at, held.clock.now),
        )
        assert (await held.audit()).missing == 119


async def test_all_kinds_of_violations_are_shown_even_if_there_are_many(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        await held.turn("1h")
        await held.rows("delete from sexton.fire where schedule_id = $1 and fire_at <> $2", id, at)
        await held.rows("update sexton.fire set decided_at = fire_at - interval '1s'")
        await held.rows("delete from sexton.job")
        found = await held.audit()
        assert wrong(found) == {"missing": 69, "early": 71, "lost": 71}
        assert len(found.violations) == 20
        assert {each.what for each in found.violations} == {"missing", "early", "lost"}


async def test_a_fire_whose_job_is_nowhere_is_lost(database_url: str) -> None:
    async with two_bells(database_url) as (held, id, at):
        [job] = await held.rows(
            "delete from sexton.job where schedule_id = $1 and fire_at = $2 returning id", id, at
        )
        await demand_only(held, "lost", at, f"its job {job['id']} is neither live nor dead nor in")
        named = "update sexton.fire set job_id = null where schedule_id = $1 and fire_at = $2"
        await held.rows(named, id, at)
        await demand_only(held, "lost", at, "the ledger names no job")
        assert (await held.audit()).fired == 20


@pytest.mark.parametrize("after", ["1 second", "3 days"])
async def test_a_job_that_has_ended_is_not_lost_whenever_that_was(
    database_url: str, after: str
) -> None:
    async with two_bells(database_url) as (held, id, at):
        await held.rows(
            """
            with ended as (
                delete from sexton.job where schedule_id = $1 and fire_at = $2 returning *
            )
            insert into sexton.attempt (
                job_id, fence, created_at, due_at, finished_at, attempt, outcome, next, task, queue,
                schedule_id, fire_at)
            select id, 1, created_at, created_at, created_at + $3::text::interval, 1, 'succeeded',
                'succeeded', task, queue, schedule_id, fire_at
            from ended""",
            *(id, at, after),
        )
        assert wrong(await held.audit()) == {}


async def test_what_the_retention_has_dropped_is_not_taken_for_lost(database_url: str) -> None:
    """The jobs of the first day are gone with its history, while a later backfill keeps the day of
    the ledger; and the last day that is kept may be dropped while the audit goes on."""
    async with two_bells(database_url) as (held, _, at):
        await held.rows("delete from sexton.job")
        assert wrong(await held.audit()) == {"lost": 20}
        held.clock.advance("90d")
        await held.rows("update sexton.due set next_fire_at = 'infinity'")
        await held.rows("update sexton.schedule set state = 'paused', since = $1", held.clock.now)
        await held.rows("drop table sexton.attempt_20260105")
        assert at.date() == (held.clock.now - timedelta(days=90)).date()
        assert wrong(await held.app.audit(at.replace(hour=0), at + timedelta(days=1))) == {
            "unexpected": 20
        }, "as nothing was promised by what is left, and nobody can know of the jobs"


@pytest.mark.parametrize("how", ["it is gone", "its lease is over"])
async def test_what_is_late_is_missing_when_nobody_lives_to_catch_it_up(
    database_url: str, how: str
) -> None:
    async with two_bells(database_url) as (held, _, _):
        await held.sleep("90s")
        found = await held.audit()
        assert (wrong(found), found.pending) == ({}, 2)
        if how == "it is gone":
            await held.rows("update sexton.node set gone_at = now(), gone_why = 'lost'")
        else:
            await held.rows("update sexton.leader set lease_until = now() - interval '1 s'")
        found = await held.audit()
        assert (wrong(found), found.pending) == ({"missing": 2}, 0)
        assert "nobody catches up" in found.violations[0].why
        missed = datetime(2026, 1, 5, 12, 11, tzinfo=UTC)
        assert (await held.explain(missed)).verdict == "missing"


async def test_the_last_fires_of_a_schedule_with_a_limit_are_missed_too(database_url: str) -> None:
    """It ended with its rule, and had fires left; or its fires were used up."""
    async with tower(database_url) as held:
        ends = held.clock.now + timedelta(seconds=330)
        ids = [
            await held.add("ends", cron="* * * * *", max_fires=10, ends_at=ends),
            await held.add("used", cron="* * * * *", max_fires=5),
            await held.add("noisy", cron="* * * * *", max_fires=5, jitter=50),
            await held.add(*("fixed",), every=60, max_fires=5, jitter=500, jitter_kind="fixed"),
        ]
        await held.turn("30m")
        states = await held.rows("select distinct state from sexton.schedule")
        assert [row["state"] for row in states] == ["ended"]
        found = await held.audit()
        assert (wrong(found), found.expected) == ({}, 20)
        for id in ids:
            for table in ("fire", "job"):
                await held.rows(
                    f"""
                    delete from sexton.{table} where schedule_id = $1 and fire_at in (
                        select fire_at from sexton.{table} where schedule_id = $1
                        order by fire_at desc limit 2)""",
                    id,
                )
        found = await held.audit()
        assert (wrong(found), found.expected) == ({"missing": 8}, 20)


async def test_a_schedule_whose_rule_cannot_be_read_is_said_so_and_the_others_checked(
    database_url: str,
) -> None:
    async with two_bells(database_url) as (held, id, _):
        await held.rows(
            """
            with bad as (insert into sexton.rule (definition) values ('{"when": 3}') returning id)
            update sexton.schedule set rule_id = bad.id from bad where schedule.id = $1""",
            id,
        )
        found = await held.audit()
        assert (wrong(found), found.expected, found.fired) == ({}, 10, 10)
        [unchecked] = found.unchecked
        assert unchecked.schedule == "bell"
        assert "rule cannot be" in unchecked.why
