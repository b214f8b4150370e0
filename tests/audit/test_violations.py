"""Ledgers that somebody tampered with: each violation is found, and only it."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from .tower import Tower, tower, wrong


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
        job = """
            insert into sexton.job (id, created_at, due_at, task, schedule_id, fire_at)
            values ($3, $2, $2, 'ring', $1, $2)"""
        await held.rows(job, id, never, 777)
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
        assert wrong(found) == {"missing": 69, "early": 71}
        assert len(found.violations) == 20
        assert {each.what for each in found.violations} == {"missing", "early"}


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
