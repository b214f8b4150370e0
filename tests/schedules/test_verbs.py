"""Adding, changing, pausing, cancelling, triggering: each at an instant, each fire decided."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sexton import InvalidSchedule, Sexton, UnknownSchedule
from sexton.domain.outcome import Succeeded
from sexton.flow.verbs import resume_all_over
from sexton.store.connection import Address

from .desk import desk

# ── adding ──────────────────────────────────────────────────────────────────


async def test_a_new_schedule_fires_first_after_the_instant_it_was_added(address: Address) -> None:
    async with desk(address) as d:
        d.clock.advance(0.25)
        made = await d.schedules.add(
            "beat", "ring", {"n": 1}, every="90s", tags=["a", "b"], queue="q", priority=2
        )
        assert (made.state, made.version, made.next_fire_at) == ("active", 1, d.at(89.75))
        assert (made.task, made.payload, made.tags) == ("ring", {"n": 1}, ("a", "b"))
        assert (made.queue, made.priority, made.created_at) == ("q", 2, d.now)
        assert made.said == {"every": "90s", "tags": ["a", "b"], "queue": "q", "priority": 2}
        assert await d.schedules.get("beat") == made
        due = await d.due()
        assert (due["partition"], due["stamp"], due["anchor"]) == (made.id % 256, 0, d.at(-0.25))
        d.clock.advance(89.75)
        assert (await d.hands.fire()).jobs == 1
        [job] = await d.jobs()
        assert (job["task"], job["payload"], job["queue"]) == ("ring", '{"n":1}', "q")
        assert (job["priority"], job["tags"], job["schedule_id"]) == (2, ["a", "b"], made.id)
        assert (await d.schedules.get("beat")).last_fire_at == d.now


async def test_a_name_is_added_once(address: Address) -> None:
    async with desk(address) as d:
        made = await d.schedules.add("beat", "ring", every=60)
        with pytest.raises(InvalidSchedule, match="there is a schedule 'beat' already"):
            await d.schedules.add("beat", "ring", every=5)
        kept = await d.schedules.add("beat", "ring", every=5, exist_ok=True)
        assert kept == made


@pytest.mark.parametrize(
    "options",
    [
        {"at": "2026-01-05T11:00:00Z"},
        {"every": 60, "ends_at": "2026-01-05T11:00:00Z"},
        {"cron": "0 0 6 1 *", "ends_at": "2026-01-05T13:00:00Z"},
    ],
)
async def test_what_would_never_fire_is_refused(address: Address, options: dict[str, Any]) -> None:
    async with desk(address) as d:
        with pytest.raises(InvalidSchedule, match="never fires"):
            await d.schedules.add("late", "ring", **options)
        assert await d.schedules.list() == []


async def test_schedules_with_the_same_rule_share_it(address: Address) -> None:
    async with desk(address) as d:
        for name, grace in (("a", "1h"), ("b", 3600), ("c", "2h")):
            await d.schedules.add(name, "ring", cron="0 6  * * *", grace=grace)
        assert await d.hands.value("select count(*) from sexton.rule") == 2


async def test_jitter_moves_the_fire_and_not_the_instant_it_stands_for(address: Address) -> None:
    async with desk(address) as d:
        made = await d.schedules.add("soft", "ring", cron="0 13 * * *", jitter="10m")
        due = await d.due()
        assert due["scheduled_at"] == d.at(3600)
        assert d.at(3600) < due["next_fire_at"] < d.at(4200)
        [planned] = await d.schedules.preview("soft", count=1)
        assert (planned.scheduled_at, planned.fire_at) == (d.at(3600), made.next_fire_at)


# ── updating ────────────────────────────────────────────────────────────────


async def test_an_update_holds_from_its_instant_on_and_the_old_version_is_kept(
    address: Address,
) -> None:
    async with desk(address) as d:
        created = d.now
        await d.add(cron="0 * * * *", arguments={"n": 1})
        d.clock.advance(60)
        changed = await d.schedules.update("beat", cron="*/7 * * * *", arguments={"n": 2})
        assert (changed.version, changed.since, changed.created_at) == (2, d.now, created)
        assert changed.next_fire_at == d.at(6 * 60)
        new, old = await d.schedules.versions("beat")
        assert (new.version, new.since, new.until, new.ended_by) == (2, d.now, None, None)
        assert (old.version, old.since, old.until, old.ended_by) == (1, created, d.now, "update")
        assert (old.said, old.payload) == ({"cron": "0 * * * *"}, {"n": 1})
        assert (new.said, new.payload) == ({"cron": "*/7 * * * *"}, {"n": 2})


async def test_a_rule_replaces_the_rule_before_and_none_takes_an_option_back(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add(cron="0 * * * *", dst="skip", timezone="Europe/Paris", jitter=5)
        changed = await d.schedules.update("beat", every="5m", jitter=None)
        assert changed.said == {"timezone": "Europe/Paris", "every": "5m"}
        changed = await d.schedules.update("beat", overlap="queue_all", max_queued=3)
        changed = await d.schedules.update("beat", overlap="skip")
        assert changed.said == {"timezone": "Europe/Paris", "every": "5m", "overlap": "skip"}


async def test_intervals_are_counted_from_the_same_anchor_unless_they_change(
    address: Address,
) -> None:
    async with desk(address) as d:
        start = d.now
        await d.add(every=60)
        d.clock.advance(90)
        assert (await d.schedules.update("beat", queue="q")).next_fire_at == start + timedelta(
            seconds=120
        )
        assert (await d.schedules.update("beat", overlap="allow")).next_fire_at == d.at(30)
        assert (await d.schedules.update("beat", every=61)).next_fire_at == d.at(61)
        anchored = await d.schedules.update("beat", anchor="2026-01-05T00:00:07Z")
        assert anchored.next_fire_at is not None
        assert (anchored.next_fire_at - datetime(2026, 1, 5, 0, 0, 7, tzinfo=UTC)).total_seconds(
        ) % 61 == 0  # fmt: skip


async def test_nothing_is_written_when_nothing_changes(address: Address) -> None:
    async with desk(address) as d:
        made = await d.schedules.put("beat", "ring", {"n": 1}, every="1m", grace="1h", tags=["a"])
        d.clock.advance(5)
        same = await d.schedules.put("beat", "ring", {"n": 1}, every=60, grace=3600, tags=("a",))
        assert same == made
        assert await d.schedules.update("beat", every="60s") == made
        assert (await d.due())["stamp"] == 0
        other = await d.schedules.put("beat", "ring", {"n": 2}, every=60)
        assert (other.version, other.tags, other.payload) == (2, (), {"n": 2})


async def test_putting_what_is_over_already_changes_nothing(address: Address) -> None:
    async with desk(address) as d:
        at = d.at(1)
        await d.schedules.put("once", "ring", at=at)
        d.clock.advance(1)
        assert (await d.hands.fire()).jobs == 1
        again = await d.schedules.put("once", "ring", at=at)
        assert (again.state, again.version) == ("ended", 1)
        later = await d.schedules.update("once", at=d.at(5))
        assert (later.state, later.reason, later.next_fire_at) == ("active", None, d.at(5))


async def test_a_fire_that_was_due_before_an_update_is_superseded_and_never_fired(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        planned = d.at(60)
        d.clock.advance(61)
        changed = await d.schedules.update("beat", arguments={"n": 7})
        assert await d.ledger() == [(planned, "superseded", "due")]
        assert (changed.next_fire_at, await d.gaps()) == (d.at(59), [])
        assert (await d.hands.fire()).moved == 0
        d.clock.advance(59)
        assert (await d.hands.fire()).jobs == 1
        assert [row[1] for row in await d.ledger()] == ["superseded", "fired"]


async def test_of_many_that_were_due_each_has_its_decision(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        first = d.at(60)
        d.clock.advance(600)
        await d.schedules.update("beat", every=3600)
        assert await d.ledger() == [(first, "superseded", "due")]
        assert await d.gaps() == [(first + timedelta(seconds=60), d.now, 9, "superseded")]


async def test_with_jitter_what_is_still_on_its_way_is_superseded_too(address: Address) -> None:
    async with desk(address) as d:
        minute = timedelta(minutes=1)
        start = d.now
        await d.add(every=60, jitter=59)
        fire_at = (await d.due())["next_fire_at"]
        assert start + minute < fire_at < start + 2 * minute
        d.clock.advance(60)
        await d.schedules.update("beat", queue="q")
        assert (await d.due())["next_fire_at"] >= start + 2 * minute
        assert await d.ledger() == []
        assert await d.gaps() == [(start + minute, start + minute, 1, "superseded")]
        d.clock.advance(600)
        await d.schedules.pause("beat")
        [(fire_at, decision, _)] = await d.ledger()
        assert (decision, start + 2 * minute <= fire_at < start + 3 * minute) == ("paused", True)
        assert (await d.gaps())[1:] == [(start + 3 * minute, start + 11 * minute, 9, "paused")]


async def test_no_fire_is_ever_earlier_than_the_edit_that_made_it(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=7)
        edits = []
        for n in range(30):
            d.clock.advance((n * 37 % 11) + 0.5)
            await d.hands.fire()
            every = 3 + n % 5
            edits.append((d.now, every))
            changed = await d.schedules.update("beat", every=every, anchor="2026-01-01T00:00:00Z")
            assert changed.next_fire_at is not None
            assert d.now < changed.next_fire_at <= d.at(every)
        for fire_at, decision, _ in await d.ledger():
            if decision == "fired":
                assert not any(at == fire_at for at, _ in edits)


async def test_what_calendars_were_to_take_out_is_taken_back_by_an_edit(address: Address) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("lunch", windows=["12:00-13:00"])
        await d.schedules.add("beat", "ring", cron="*/10 * * * *", exclude="lunch")
        start = d.now
        minutes = timedelta(minutes=1)
        assert await d.gaps() == [(start + 10 * minutes, start + 50 * minutes, 5, "excluded")]
        d.clock.advance("25m")
        changed = await d.schedules.update("beat", exclude=None)
        assert changed.next_fire_at == start + 30 * minutes
        assert await d.gaps() == [(start + 10 * minutes, d.now, None, "excluded")]
        await d.schedules.update("beat", exclude=["lunch"])
        d.clock.advance("1m")
        await d.schedules.update("beat", cron="0 6 * * *", exclude=None)
        assert [gap[3] for gap in await d.gaps()] == ["excluded"], "what lay ahead is gone"


async def test_a_maximum_of_fires_counts_those_that_were_made(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=1, overlap="allow", max_fires=3)
        assert await d.hands.fire_until(d.at(2)) == 2
        with pytest.raises(InvalidSchedule, match="fired 2 times already"):
            await d.schedules.update("beat", max_fires=2)
        await d.schedules.update("beat", max_fires=4)
        assert await d.hands.fire_until(d.at(5)) == 2
        assert (await d.schedules.get("beat")).state == "ended"
        more = await d.schedules.update("beat", max_fires=None)
        assert (more.state, more.next_fire_at) == ("active", d.at(1))


# ── pausing and resuming ────────────────────────────────────────────────────


async def test_a_paused_schedule_does_not_fire_and_says_why(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        due = d.at(60)
        d.clock.advance(60)
        paused = await d.schedules.pause("beat", "the bell is broken")
        assert (paused.state, paused.reason) == ("paused", "the bell is broken")
        assert (paused.next_fire_at, await d.ledger()) == (None, [(due, "paused", "due")])
        assert (await d.hands.fire()).moved == 0
        assert await d.hands.fire_until(d.at(300), 60) == 0
        again = await d.schedules.pause("beat", "the bell is broken")
        assert again.version == paused.version == 2
        assert (await d.schedules.pause("beat", "still")).version == 3


async def test_resuming_goes_on_after_now_and_records_what_the_pause_left_out(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        d.clock.advance(30)
        await d.schedules.pause("beat")
        start = d.now
        d.clock.advance(200)
        resumed = await d.schedules.resume("beat")
        assert (resumed.state, resumed.reason, resumed.next_fire_at) == ("active", None, d.at(10))
        first, last = start + timedelta(seconds=30), start + timedelta(seconds=150)
        assert await d.gaps() == [(first, last, 3, "paused")]
        assert (await d.schedules.resume("beat")).version == resumed.version, "nothing to do"
        await d.schedules.pause("beat")
        d.clock.advance(5)
        await d.schedules.resume("beat")
        assert len(await d.gaps()) == 1, "nothing was left out"
        assert await d.hands.fire_until(d.at(65), 5) == 1


async def test_a_long_pause_is_not_counted(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=1)
        await d.schedules.pause("beat")
        begun = d.now
        d.clock.advance("30d")
        await d.schedules.resume("beat")
        assert await d.gaps() == [(begun + timedelta(seconds=1), d.now, None, "paused")]


async def test_an_update_of_a_paused_schedule_leaves_it_paused(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        await d.schedules.pause("beat", "why", until=d.at(3600))
        d.clock.advance(120)
        changed = await d.schedules.update("beat", every=10)
        assert (changed.state, changed.reason, changed.next_fire_at) == ("paused", "why", None)
        assert changed.until == d.at(3480)
        d.clock.advance(30)
        resumed = await d.schedules.resume("beat")
        assert resumed.next_fire_at == d.at(10)
        assert [gap[2:] for gap in await d.gaps()] == [(2, "paused"), (3, "paused")]


async def test_a_pause_ends_by_itself_at_its_instant_not_when_somebody_looks(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        until = d.at(90)
        await d.schedules.pause("beat", until=until)
        store = d.hands.store
        d.clock.advance(89)
        assert await resume_all_over(store, d.hands.rules, d.hands.lead) == 0
        d.clock.advance(40)
        assert await resume_all_over(store, d.hands.rules, d.hands.lead) == 1
        resumed = await d.schedules.get("beat")
        assert (resumed.state, resumed.since, resumed.until) == ("active", until, None)
        assert resumed.next_fire_at == until + timedelta(seconds=30), "late, but not left out"
        assert [gap[2:] for gap in await d.gaps()] == [(1, "paused")]
        assert (await d.hands.fire()).jobs == 1


async def test_a_pause_that_ends_on_a_broken_rule_ends_in_quarantine_and_holds_up_nobody(
    address: Address,
) -> None:
    async with desk(address) as d:
        for name, every in (("broken", 60), ("sound", 61)):
            await d.add(name, every=every)
            await d.schedules.pause(name, until=d.at(every))
        await d.hands.rows(
            "update sexton.rule set definition = 'odd' where definition like '%60.0%'"
        )
        d.clock.advance(100)
        assert await resume_all_over(d.hands.store, d.hands.rules, d.hands.lead) == 2
        broken = await d.schedules.get("broken")
        assert (broken.state, broken.reason) == ("quarantined", "its rule cannot be used")
        assert (await d.schedules.get("sound")).state == "active"


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("state", ["cancelled", "ended"])
async def test_what_is_over_is_neither_paused_nor_resumed(
    address: Address, verb: str, state: str
) -> None:
    async with desk(address) as d:
        await d.schedules.add("beat", "ring", at=d.at(1))
        if state == "cancelled":
            await d.schedules.cancel("beat")
        else:
            d.clock.advance(1)
            await d.hands.fire()
        with pytest.raises(InvalidSchedule, match=f"is {state}: nothing to {verb}"):
            await getattr(d.schedules, verb)("beat")
    with pytest.raises(InvalidSchedule, match="is over already"):
        async with desk(address) as d:
            await d.add("other")
            await d.schedules.pause("other", until=d.at(-1))


async def test_what_ends_during_its_pause_has_ended_when_it_is_resumed(address: Address) -> None:
    async with desk(address) as d:
        await d.schedules.add("beat", "ring", at=d.at(10))
        await d.schedules.pause("beat")
        d.clock.advance(20)
        resumed = await d.schedules.resume("beat")
        assert (resumed.state, resumed.reason) == ("ended", "it has no more fires")
        assert [gap[2:] for gap in await d.gaps()] == [(1, "paused")]


@pytest.mark.parametrize("broken", [False, True])
async def test_a_quarantine_ends_when_it_is_resumed_or_updated(
    address: Address, broken: bool
) -> None:
    async with desk(address) as d:
        id = await d.add(every=60)
        assert await d.hands.store.due.quarantine(d.hands.guard, id, 0, "it is odd") == "beat"
        if broken:
            await d.hands.rows("update sexton.rule set definition = '{\"odd\": 1}'")
            with pytest.raises(InvalidSchedule, match="its rule cannot be used: update it"):
                await d.schedules.resume("beat")
            healed = await d.schedules.update("beat", every=30)
        else:
            healed = await d.schedules.resume("beat")
        assert (healed.state, healed.reason, healed.version) == ("active", None, 3)
        assert healed.next_fire_at == d.at(30 if broken else 60)


# ── cancelling ──────────────────────────────────────────────────────────────


async def test_jobs_in_flight_finish_after_a_cancel(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60, overlap="allow")
        d.clock.advance(60)
        await d.hands.fire()
        [claim] = await d.hands.claim()
        d.clock.advance(60)
        cancelled = await d.schedules.cancel("beat", "not needed")
        assert (cancelled.state, cancelled.reason) == ("cancelled", "not needed")
        assert cancelled.next_fire_at is None
        assert [row[1] for row in await d.ledger()] == ["fired", "superseded"]
        assert await d.hands.end(claim, Succeeded("1"))
        assert (await d.app.job(claim.id)).state == "succeeded"
        assert await d.hands.fire_until(d.at(300), 60) == 0
        with pytest.raises(InvalidSchedule, match="is cancelled: add it again first"):
            await d.schedules.update("beat", every=5)
        assert (await d.schedules.cancel("beat", "twice")).version == cancelled.version


async def test_a_cancelled_name_begins_again_as_the_next_version_of_the_same_schedule(
    address: Address,
) -> None:
    async with desk(address) as d:
        id = await d.add(every=60, max_fires=5)
        await d.schedules.cancel("beat")
        d.clock.advance(1000)
        again = await d.schedules.add("beat", "ring", every=5, max_fires=1)
        assert (again.id, again.version, again.state) == (id, 3, "active")
        assert (again.next_fire_at, again.reason) == (d.at(5), None)
        assert [each.ended_by for each in await d.schedules.versions("beat")] == [
            None, "add", "cancel",
        ]  # fmt: skip
        d.clock.advance(5)
        assert (await d.hands.fire()).jobs == 1
        assert (await d.schedules.get("beat")).state == "ended"
        assert await d.gaps() == []


# ── triggering ──────────────────────────────────────────────────────────────


async def test_a_trigger_is_a_job_at_once_and_recorded_as_such(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60, arguments={"n": 1}, queue="q", tags=["t"])
        first = await d.schedules.trigger("beat")
        second = await d.schedules.trigger("beat", arguments={"n": 2})
        assert second > first
        one, two = await d.jobs()
        assert (one["payload"], one["queue"], one["tags"]) == ('{"n":1}', "q", ["t"])
        assert two["payload"] == '{"n":2}'
        ledger = await d.ledger()
        assert [row[1:] for row in ledger] == [("fired", "trigger")] * 2
        assert one["fire_at"] == ledger[0][0] != ledger[1][0] == two["fire_at"]
        assert (await d.due())["next_fire_at"] == d.at(60), "its own time stays"


async def test_a_trigger_on_the_instant_of_a_fire_takes_nothing_from_it(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60, overlap="allow")
        d.clock.advance(60)
        await d.schedules.trigger("beat")
        assert (await d.hands.fire()).jobs == 1
        assert sorted(row[2] for row in await d.ledger()) == ["due", "trigger"]


async def test_a_triggered_job_counts_for_the_overlap_of_later_fires(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60)
        d.clock.advance(60)
        batch = await d.hands.plan()
        await d.schedules.trigger("beat")
        refused = await d.hands.firer.fire(d.hands.guard, batch)
        assert refused.moved == 0, "it was decided before the trigger"
        assert ((await d.hands.fire()).moved, [row[1] for row in await d.ledger()]) == (
            1, ["overlap", "fired"],
        )  # fmt: skip


async def test_the_jobs_that_lived_before_a_trigger_still_count(address: Address) -> None:
    async with desk(address) as d:
        await d.add(every=60, overlap="allow", max_running=2)
        d.clock.advance(60)
        await d.hands.fire()
        await d.schedules.trigger("beat")
        d.clock.advance(60)
        assert (await d.hands.fire()).jobs == 0
        assert len(await d.jobs()) == 2


async def test_a_paused_schedule_can_be_triggered_and_a_cancelled_one_cannot(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add()
        await d.schedules.pause("beat")
        assert await d.schedules.trigger("beat") > 0
        await d.schedules.cancel("beat")
        with pytest.raises(InvalidSchedule, match="cancelled: add it again"):
            await d.schedules.trigger("beat")
        with pytest.raises(UnknownSchedule, match="did you mean 'beat'"):
            await d.schedules.trigger("beet")


# ── looking ─────────────────────────────────────────────────────────────────


async def test_schedules_are_listed_by_name_and_filtered(address: Address) -> None:
    async with desk(address) as d:
        for n in range(5):
            await d.add(f"beat {n}", tags=["even"] if n % 2 == 0 else None)
        await d.schedules.add("other", "toll", every=5)
        await d.schedules.pause("beat 2")

        async def names(**filters: Any) -> list[str]:
            return [each.name for each in await d.schedules.list(**filters)]

        assert await names(text="beat") == [f"beat {n}" for n in range(5)]
        assert await names(tag="even") == ["beat 0", "beat 2", "beat 4"]
        assert await names(state="paused") == ["beat 2"]
        assert await names(task="toll") == ["other"]
        assert await names(limit=2) == ["beat 0", "beat 1"]
        assert await names(limit=2, after="beat 1") == ["beat 2", "beat 3"]
        with pytest.raises(InvalidSchedule, match="did you mean 'paused'"):
            await names(state="pause")
        with pytest.raises(UnknownSchedule, match="no schedule 'othr'; did you mean 'other'"):
            await d.schedules.get("othr")


async def test_every_change_wakes_the_nodes(address: Address) -> None:
    async with desk(address) as d:
        ear = await d.hands.connect()
        heard: list[str] = []
        await ear.add_listener("sexton.wake", lambda *words: heard.append(words[3]))
        await d.add()
        await d.schedules.update("beat", every=5)
        await d.schedules.pause("beat")
        await d.schedules.resume("beat")
        await d.schedules.cancel("beat")
        await ear.fetch("select 1")
        assert heard.count("schedule") == 5


async def test_an_unknown_tenant_is_refused(address: Address) -> None:
    async with desk(address) as d:
        with pytest.raises(InvalidSchedule, match="tenant: there is no 'acme'"):
            await d.schedules.add("beat", "ring", every=5, tenant="acme")
        await d.hands.rows("insert into sexton.tenant (name) values ('acme')")
        await d.add()
        theirs = await d.schedules.add("beat", "ring", every=5, tenant="acme")
        assert theirs.tenant == "acme"
        assert len(await d.schedules.list()) == len(await d.schedules.list(tenant="acme")) == 1


def test_callers_without_an_event_loop_have_the_verbs_they_need(app: Sexton) -> None:
    made = app.schedules.add_sync("beat", "ring", {"n": 1}, every=60)
    assert app.schedules.put_sync("beat", "ring", {"n": 1}, every="1m") == made
    assert app.schedules.update_sync("beat", every=5).version == 2
    assert app.schedules.trigger_sync("beat", arguments={"n": 2}) == 1
    assert app.schedules.cancel_sync("beat", "over").reason == "over"
    app.close_sync()


@pytest.mark.parametrize("verb", ["resume", "pause", "update", "put", "cancel"])
async def test_a_pause_that_is_over_ends_when_it_was_to_whoever_comes_first(
    address: Address, verb: str
) -> None:
    """Before the leader has seen that it is over, somebody does something else to the schedule."""
    async with desk(address) as d:
        begun = d.now
        await d.add(every=60, misfire="all", overlap="allow")
        await d.schedules.pause("beat", until=d.at(100))
        d.clock.advance(130)
        match verb:
            case "resume":
                await d.schedules.resume("beat")
            case "pause":
                await d.schedules.pause("beat", "another reason")
            case "update":
                await d.schedules.update("beat", every=90)
            case "put":
                await d.schedules.put("beat", "ring", every=45)
            case "cancel":
                await d.schedules.cancel("beat")
        after = timedelta(seconds=100)
        versions = await d.schedules.versions("beat")
        [paused] = [each for each in versions if each.ended_by == "resume"]
        assert (paused.state, paused.until) == ("paused", begun + after)
        [gap] = await d.gaps()
        assert gap == (begun + timedelta(seconds=60), begun + timedelta(seconds=60), 1, "paused")
        if verb == "resume":
            assert (await d.schedules.get("beat")).next_fire_at == begun + timedelta(seconds=120)
            await d.hands.mark_late()
            await d.hands.catch_up()
            assert await d.ledger() == [(begun + timedelta(seconds=120), "fired", "catch_up")]
        else:
            word = "paused" if verb == "pause" else "superseded"
            assert await d.ledger() == [(begun + timedelta(seconds=120), word, "due")]
        assert (await d.app.audit(begun, d.now)).clean
