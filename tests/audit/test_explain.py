"""What became of a fire, in one word and in sentences."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sexton.domain.explain import Explanation
from sexton.errors import InvalidSchedule, UnknownSchedule

from .tower import Tower, tower, wrong


def at(clock: str, day: str = "2026-01-05") -> datetime:
    return datetime.fromisoformat(f"{day}T{clock}+00:00")


def demand(found: Explanation, verdict: str, *words: str) -> None:
    said = " ".join(found.sentences)
    assert found.verdict == verdict, said
    for word in words:
        assert word in said


async def settle(held: Tower, job: int, outcome: str, **columns: Any) -> None:
    """End a job as a worker would."""
    worker = await held.store.workers.register("will", ["default"], "test", 60.0)
    lanes = list(range(-5, 6))
    begin = datetime(2000, 1, 1, tzinfo=UTC)
    claims = await held.store.jobs.claim("default", 100, worker, lanes, [begin] * len(lanes))
    [claim] = [each for each in claims if each.id == job]
    await held.rows(
        """
        with ended as (delete from sexton.job where id = $1 returning *),
        buried as (
            insert into sexton.dead (
                job_id, died_at, created_at, attempt, attempts_before, priority, reason, task,
                queue, payload, error, schedule_id, fire_at)
            select id, $5, created_at, attempt, 0, 0, 'permanent', task, queue, payload, $4,
                schedule_id, fire_at
            from ended where $2 = 'dead')
        insert into sexton.attempt (
            job_id, fence, worker_id, created_at, due_at, claimed_at, finished_at, attempt, outcome,
            next, task, queue, payload, result, error, schedule_id, fire_at)
        select id, fence, claimed_by, created_at, due_at, claimed_at, $5, attempt,
            case when $2 = 'dead' then 'failed' else $2 end::sexton.outcome,
            $2::text::sexton.next_state, task, queue, payload, $3::json, $4, schedule_id, fire_at
        from ended""",
        *(claim.id, outcome, columns.get("result"), columns.get("error"), held.clock.now),
    )


async def test_a_fire_is_told_with_its_node_its_lag_and_its_job(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", timezone="Europe/Paris")
        await held.turn("3m")
        found = await held.explain(at("12:02:00"))
        demand(found, "fired", "13:02:00.004+01:00 by node 7 (tower) in term 2, 4 ms after")
        demand(found, "fired", "which is ready after no attempts", "Version 1 is in effect since")
        assert found.entry is not None
        assert found.job is not None
        assert found.job.id == found.entry.job
        await settle(held, found.job.id, "succeeded", result='{"rung": 3}')
        demand(
            await held.explain(at("12:02:00")), "fired", "succeeded after 1 attempt", '{"rung":3}'
        )
        await held.turn("1m")
        other = await held.explain(at("12:04:00"))
        assert other.job is not None
        await settle(held, other.job.id, "dead", error="BellError: cracked\n  at tower.py")
        demand(
            await held.explain(at("12:04:00")), "fired", "dead after 1 attempt: BellError: crack"
        )


async def test_a_trigger_is_told_from_a_fire_of_the_rule(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.turn("90s")
        job = await held.app.schedules.trigger("bell")
        found = await held.explain(held.clock.now.replace(microsecond=0))
        demand(found, "fired", "triggered by hand", f"job {job}")


async def test_jitter_is_told_from_both_its_ends(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", jitter=40)
        await held.turn("3m")
        found = await held.explain(at("12:02:00"))
        demand(found, "fired", "It stands for 2026-01-05 12:02:00+00:00; its jitter of")
        assert found.fire_at is not None
        assert found.fire_at > at("12:02:00")
        other = await held.explain(found.fire_at)
        assert (other.verdict, other.scheduled_at) == ("fired", at("12:02:00"))
        other = await held.explain(found.fire_at.replace(microsecond=0))
        assert (other.verdict, other.scheduled_at) == ("fired", at("12:02:00"))


async def test_an_overlap_names_the_job_that_lived(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", overlap="skip")
        await held.turn("3m")
        first = await held.explain(at("12:01:00"))
        assert first.job is not None
        found = await held.explain(at("12:02:00"))
        demand(found, "overlap", "overlap=skip", f"Job {first.job.id}, of the fire at")
        demand(found, "overlap", "lives still")
        await settle(held, first.job.id, "succeeded")
        await held.turn("10m")
        demand(await held.explain(at("12:02:00")), "overlap", "ended at 2026-01-05 12:03:00.500")


async def test_misfires_are_told_with_the_policy_that_decided_them(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.add("strict", cron="* * * * *", misfire="skip")
        await held.turn("1m")
        await held.sleep("2h")
        demand(await held.explain(at("13:00:00")), "pending", "being caught up")
        await held.catch_up()
        demand(await held.explain(at("12:05:00")), "missed", "beyond its grace of 60 min")
        demand(await held.explain(at("12:05:00")), "missed", "one of 60 fires", "node 7 (tower)")
        found = await held.explain(at("13:30:00"))
        demand(found, "coalesced", "misfire=latest", "The fire at 2026-01-05 14:01:00+00:00 stands")
        demand(await held.explain(at("14:01:00")), "fired", "as a catch-up")
        demand(await held.explain(at("13:30:00"), "strict"), "missed", "misfire=skip")


async def test_how_late_a_fire_was_is_told_from_its_own_instant(database_url: str) -> None:
    """And not from before its jitter, by which it would be beyond its grace."""
    async with tower(database_url) as held:
        id = await held.add(cron="0 13 * * *", jitter="1h", misfire="skip")
        fire_at = await held.value("select next_fire_at from sexton.due where schedule_id = $1", id)
        await held.sleep((fire_at - held.clock.now).total_seconds() + 50 * 60)
        await held.catch_up()
        assert fire_at > at("13:12:00"), "so that it matters"
        found = await held.explain(at("13:00:00"))
        demand(found, "missed", "found 50 min late, and misfire=skip makes up for nothing")
        assert wrong(await held.audit()) == {}


async def test_a_missed_fire_between_what_calendars_took_out_is_told_as_missed(
    database_url: str,
) -> None:
    async with tower(database_url) as held:
        await held.app.calendars.put("breaks", windows=["12:10-12:20", "12:40-12:50"])
        await held.add(cron="*/5 * * * *", exclude="breaks", misfire="skip")
        await held.sleep("2h")
        await held.catch_up()
        demand(await held.explain(at("12:30:00")), "missed", "beyond its grace")
        demand(await held.explain(at("12:15:00")), "excluded", "breaks")


async def test_a_pause_is_told_with_its_reason_and_its_end(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.turn("1m")
        held.clock.advance("61s")
        await held.app.schedules.pause("bell", "the ringer is ill", until=at("18:00:00"))
        demand(await held.explain(at("12:02:00")), "paused", "was due, and not fired yet")
        demand(await held.explain(at("12:02:00")), "paused", "the ringer is ill")
        await held.turn("10m")
        found = await held.explain(at("12:05:00"))
        demand(found, "paused", "since 2026-01-05 12:02:01.500+00:00, until 2026-01-05 18:00:00")
        demand(found, "paused", "the ringer is ill", "Version 2 is in effect")
        await held.app.schedules.resume("bell")
        demand(await held.explain(at("12:05:00")), "paused", "one of 10 fires")


async def test_what_a_calendar_takes_out_is_told_with_its_entry(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.app.calendars.put(
            "freeze", dates=["2026-01-06", "--12-25"], windows=["12:30-12:40"]
        )
        await held.app.calendars.put("office", windows=["mon-fri 09:00-17:00"])
        await held.add("out", cron="0,35 * * * *", exclude="freeze")
        await held.add("moved", cron="0 9 * * *", exclude="freeze", when_excluded="next_day")
        await held.add("only", cron="0 * * * *", only="office")
        await held.turn("1h")
        found = await held.explain(at("12:35:00"), "out")
        demand(found, "excluded", "calendar 'freeze' has 12:30-12:40")
        found = await held.explain(at("08:00:00", "2026-01-06"), "out")
        demand(found, "excluded", "calendar 'freeze' has 2026-01-06")
        found = await held.explain(at("09:00:00", "2026-01-06"), "moved")
        demand(found, "excluded", "has 2026-01-06", "oved to 2026-01-07 09:00")
        found = await held.explain(at("20:00:00"), "only")
        demand(found, "excluded", "not within calendar 'office'")


async def test_an_edit_is_told_with_the_version_it_made(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.turn("1m")
        held.clock.advance("200s")
        await held.app.schedules.update("bell", cron="*/5 * * * *")
        await held.turn("5m")
        found = await held.explain(at("12:02:00"))
        demand(found, "superseded", "update made version 2 at 2026-01-05 12:04:20.500+00:00")
        assert found.version is not None
        assert (found.version.version, found.version.ended_by) == (1, "update")
        demand(await held.explain(at("12:03:00")), "superseded", "version 2")
        demand(await held.explain(at("12:05:00")), "fired", "Version 2 is in effect")
        await held.app.schedules.cancel("bell", "no more bells")
        demand(await held.explain(at("12:30:00")), "cancelled", "cancelled: no more bells")


async def test_where_nothing_is_scheduled_the_fires_around_are_told(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="*/10 * * * *")
        await held.turn("15m")
        found = await held.explain(at("12:13:00"))
        demand(found, "not_scheduled", "Nothing was scheduled", "Version 1")
        assert found.before is not None
        assert found.after is not None
        assert (found.before.fire_at, found.before.verdict) == (at("12:10:00"), "fired")
        assert (found.after.fire_at, found.after.verdict) == (at("12:20:00"), "not_yet")
        demand(await held.explain(at("12:20:00")), "not_yet", "in 5 min")
        found = await held.explain(at("11:00:00"))
        demand(found, "not_created", "did not exist yet")
        assert found.before is None
        assert found.after is not None
        assert found.after.fire_at == at("12:10:00")


async def test_a_change_of_clocks_is_told(database_url: str) -> None:
    start = datetime(2026, 3, 28, 20, tzinfo=UTC)
    async with tower(database_url, start) as held:
        await held.add(cron="30 2 * * *", timezone="Europe/Paris")
        await held.turn("8h")
        found = await held.explain("2026-03-29T03:00:00+02:00")
        demand(found, "fired", "02:30 does not exist on 2026-03-29 in Europe/Paris")
        found = await held.explain("2026-03-29T03:30:00+02:00")
        demand(found, "not_scheduled")
        assert found.before is not None
        assert found.before.note is not None
        assert "moved to 03:00" in found.before.note
        await held.add("never", cron="30 2 * * *", timezone="Europe/Paris", dst="skip")
        found = await held.explain("2026-03-29T03:00:00+02:00", "never")
        assert found.verdict == "not_created"


async def test_a_violation_is_told_as_one(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        await held.turn("3m")
        await held.rows("delete from sexton.fire where fire_at = $1", at("12:02:00"))
        demand(await held.explain(at("12:02:00")), "missing", "no decision about it")
        held.clock.advance("70s")
        demand(await held.explain(at("12:04:00")), "pending", "its node is about to")
        held.clock.advance("70s")
        demand(await held.explain(at("12:04:00")), "missing")


async def test_what_has_ended_or_cannot_be_read_is_told(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", max_fires=2)
        await held.turn("5m")
        demand(await held.explain(at("12:02:00")), "fired")
        demand(await held.explain(at("12:03:00")), "ended", "had ended")
        await held.rows("update sexton.rule set definition = '{}'")
        demand(await held.explain(at("12:03:00")), "unknown", "rule cannot be used")
        demand(await held.explain(at("12:02:00")), "fired", "node 7 (tower)")


async def test_a_quarantine_is_told_with_its_reason(database_url: str) -> None:
    async with tower(database_url) as held:
        id = await held.add(cron="* * * * *")
        await held.turn("1m")
        held.clock.advance("65s")
        await held.quarantine(id, "its fire cannot be written: too heavy")
        await held.turn("5m")
        demand(await held.explain(at("12:01:00")), "fired")
        demand(await held.explain(at("12:02:00")), "quarantined", "too heavy", "Version 1")
        demand(await held.explain(at("12:04:00")), "quarantined", "too heavy", "Version 2")


async def test_a_day_that_is_not_kept_is_told_so(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="0 0 * * *")
        await held.app.keep_history("1d")
        await held.turn("3d")
        while await held.store.history.drop_bucket():
            pass
        demand(await held.explain(at("00:00:00", "2026-01-06")), "not_kept", "from 2026-01-07")
        demand(await held.explain(at("00:00:00", "2026-01-07")), "fired")


async def test_what_is_not_there_is_refused(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *")
        with pytest.raises(UnknownSchedule, match="did you mean 'bell'"):
            await held.explain(at("12:00:00"), "bel")
        with pytest.raises(InvalidSchedule, match="at: "):
            await held.app.explain("bell", at("12:00:00").replace(tzinfo=None))
        assert held.clock.now - held.begun == timedelta(0)
