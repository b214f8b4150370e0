"""The past, fired once, by what the schedule said then, at the rate that was asked for."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from sexton import InvalidSchedule
from sexton.domain.backfill import BackfillView, PastFire, past_fires
from sexton.domain.when.timetable import Planned
from sexton.flow import backfill
from sexton.flow.backfill import Backfiller
from sexton.store.connection import Address
from sexton.store.due import Guard

from .desk import Desk, desk

MINUTE = timedelta(minutes=1)


async def run(d: Desk, id: int, guard: Guard | None = None) -> BackfillView:
    """Until it is done, or does nothing any more; time between the rounds does not matter here."""
    backfiller = Backfiller()
    for _ in range(100):
        for pace in backfiller._paces.values():
            pace.allowance = 7.0
        await backfiller.run_once(d.hands.store, d.hands.rules, guard or d.hands.lead)
        [view] = await d.schedules.backfills(id=id)
        if view.finished_at is not None:
            break
    return view


async def jobs(d: Desk) -> list[tuple[datetime, Any]]:
    rows = await d.hands.rows(
        "select fire_at, payload::text, task from sexton.job order by fire_at"
    )
    return [(row[0], row[1]) for row in rows]


async def test_what_was_not_fired_is_fired_once_and_what_was_is_not_fired_again(
    address: Address,
) -> None:
    async with desk(address) as d:
        start = d.now
        await d.add(cron="* * * * *", overlap="allow")
        await d.hands.fire_until(start + 3 * MINUTE, 30)
        await d.schedules.pause("beat")
        d.clock.advance("5m")
        await d.schedules.resume("beat")
        id = await d.schedules.backfill("beat", start - 2 * MINUTE, start + 8 * MINUTE, rate=1000)
        done = await run(d, id)
        assert (done.fired, done.skipped, done.cancelled) == (7, 3, False)
        assert (done.finished_at, done.next_at) == (d.now, start + 8 * MINUTE)
        found = [at for at, _ in await jobs(d)]
        assert found == [start + n * MINUTE for n in range(-2, 8)], "until before its end"
        kinds = [row[1:] for row in await d.ledger()]
        assert kinds.count(("fired", "backfill")) == 7
        assert kinds.count(("fired", "due")) == 3
        again = await d.schedules.backfill("beat", start - 2 * MINUTE, start + 8 * MINUTE)
        done = await run(d, again)
        assert (done.fired, done.skipped) == (0, 10)


async def test_a_fire_that_was_decided_otherwise_becomes_fired(address: Address) -> None:
    async with desk(address) as d:
        start = d.now
        await d.add(cron="* * * * *")
        assert await d.hands.fire_until(start + 3 * MINUTE, 30) == 1
        assert [row[1] for row in await d.ledger()] == ["fired", "overlap", "overlap"]
        id = await d.schedules.backfill("beat", start, d.now, rate=50)
        assert (await run(d, id)).fired == 2, "12:00 was before it, 12:03 is not in it"
        assert [row[1:] for row in await d.ledger()] == [
            ("fired", "backfill"),
            ("fired", "due"),
            ("fired", "backfill"),
            ("overlap", "due"),
        ]
        assert len(await jobs(d)) == 3


async def test_each_fire_goes_by_what_the_schedule_said_then(address: Address) -> None:
    async with desk(address) as d:
        start = d.now
        await d.add(cron="* * * * *", arguments={"n": 1})
        d.clock.advance("2m30s")
        await d.schedules.update("beat", cron="*/2 * * * *", arguments={"n": 2})
        d.clock.advance("3m")
        await d.schedules.cancel("beat")
        d.clock.advance("3m")
        await d.schedules.add("beat", "ring", {"n": 3}, cron="*/3 * * * *")
        d.clock.advance("4m30s")
        id = await d.schedules.backfill("beat", start - 6 * MINUTE, d.now, rate=1000)
        await run(d, id)
        found = [((at - start) // MINUTE, payload) for at, payload in await jobs(d)]
        assert found == [
            *((n, '{"n":3}') for n in (-6, -3, 0)),  # before it was there: as it is now
            *((n, '{"n":1}') for n in (1, 2)),
            (4, '{"n":2}'),
            *((n, '{"n":3}') for n in (9, 12)),  # cancelled in between
        ]


async def test_jitter_is_the_same_as_it_would_have_been(address: Address) -> None:
    async with desk(address) as d:
        start = d.now
        await d.add(cron="* * * * *", jitter=30, overlap="allow")
        await d.hands.fire_until(start + 5 * MINUTE, 1)
        fired = len(await d.ledger())
        id = await d.schedules.backfill("beat", start + MINUTE, d.now, rate=1000)
        done = await run(d, id)
        assert done.skipped == fired == len(await d.ledger())


async def test_a_rate_is_kept(address: Address) -> None:
    clock = [1000.0]
    async with desk(address) as d:
        await d.add(cron="* * * * *")
        await d.schedules.backfill("beat", d.at(-86400), d.at(0), rate=8)
        backfiller = Backfiller(lambda: clock[0])
        fired = []
        for _ in range(8):
            fired.append(await backfiller.run_once(d.hands.store, d.hands.rules, d.hands.lead))
            clock[0] += 0.25
        assert fired == [1, 2, 2, 2, 2, 2, 2, 2]
        clock[0] += 3600
        held_up = await backfiller.run_once(d.hands.store, d.hands.rules, d.hands.lead)
        assert held_up == 8, "a leader that was away makes up for a second, not for an hour"


async def test_who_does_not_lead_any_more_fires_nothing(address: Address) -> None:
    async with desk(address) as d:
        await d.add(cron="* * * * *")
        id = await d.schedules.backfill("beat", d.at(-600), d.at(0))
        stale = d.hands.lead
        await d.hands.elect()
        view = await run(d, id, stale)
        assert (view.fired, view.finished_at, await jobs(d)) == (0, None, [])
        assert (await run(d, id)).fired == 10


async def test_two_that_go_on_with_the_same_one_fire_nothing_twice(address: Address) -> None:
    async with desk(address) as d:
        await d.add(cron="* * * * *")
        await d.schedules.backfill("beat", d.at(-600), d.at(0))
        store, lead = d.hands.store, d.hands.lead
        [read] = await store.backfills.under_way(10)
        eras = await backfill._eras(store, d.hands.rules, read)
        fires, _ = past_fires(eras, read.next_at, read.to_at, 3, read.schedule_id)
        next_at = fires[-1].planned.scheduled_at
        for expected in (3, None):
            done = await store.backfills.fire(lead, read, fires, next_at=next_at, over=False)
            assert done == expected
        assert len(await jobs(d)) == 3


async def test_a_backfill_can_be_stopped_and_ends_with_its_schedule(address: Address) -> None:
    async with desk(address) as d:
        await d.add(cron="* * * * *")
        one = await d.schedules.backfill("beat", d.at(-6000), d.at(0))
        two = await d.schedules.backfill("beat", d.at(-6000), d.at(0))
        assert await d.schedules.cancel_backfill(one)
        assert not await d.schedules.cancel_backfill(one)
        assert not await d.schedules.cancel_backfill(99)
        await d.schedules.cancel("beat")
        done = await run(d, two)
        assert (done.cancelled, done.fired) == (True, 0)
        listed = await d.schedules.backfills("beat")
        assert [(each.id, each.cancelled) for each in listed] == [(two, True), (one, True)]
        assert await d.schedules.backfills("other") == []


async def test_days_of_long_ago_have_room_in_the_ledger(address: Address) -> None:
    async with desk(address) as d:
        await d.add(cron="0 0 1 1 *")
        id = await d.schedules.backfill("beat", "2019-06-01T00:00:00Z", d.now, rate=1000)
        assert (await run(d, id)).fired == 7
        assert {at.year for at, _ in await jobs(d)} == set(range(2020, 2027))


async def test_a_backfill_of_more_days_than_the_ledger_can_have_tables_for_is_refused(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.add(cron="0 0 * * *")
        with pytest.raises(InvalidSchedule, match="from_: it has fires on more than 1,000 days"):
            await d.schedules.backfill("beat", "1990-01-01T00:00:00Z", d.now)


async def test_what_the_ledger_has_forgotten_is_not_fired_a_second_time(address: Address) -> None:
    """Neither what the schedule fired itself, nor what an earlier backfill did."""
    async with desk(address) as d:
        began = d.now
        await d.hands.store.history.set_retention(86400.0, None, False)
        await d.add(cron="0 * * * *", overlap="allow")
        old = await d.schedules.backfill("beat", d.at(-7200), d.now, rate=1000)
        assert (await run(d, old)).fired == 2
        for _ in range(5 * 24):
            d.clock.advance(3600)
            await d.hands.fire()
        while await d.hands.store.history.drop_bucket():
            pass
        for first, end in ((began, began + timedelta(hours=5)), (d.at(-6 * 86400), began)):
            with pytest.raises(InvalidSchedule, match="is not known any more"):
                await d.schedules.backfill("beat", first, end)
        known = d.now - timedelta(hours=20)
        again = await d.schedules.backfill("beat", known, d.now, rate=1000)
        assert (await run(d, again)).fired == 0


async def test_what_has_had_its_fires_has_no_past_after_the_last_of_them(address: Address) -> None:
    async with desk(address) as d:
        start = d.now
        await d.add(cron="* * * * *", overlap="allow", max_fires=3)
        await d.hands.fire_until(start + 6 * MINUTE, 30)
        assert (await d.schedules.get("beat")).state == "ended"
        id = await d.schedules.backfill("beat", start - MINUTE, d.now, rate=1000)
        done = await run(d, id)
        assert (done.fired, done.skipped) == (2, 3), "two before it was made, none after the third"
        await d.schedules.update("beat", cron="*/2 * * * *", max_fires=10)
        d.clock.advance("4m")
        id = await d.schedules.backfill("beat", start, d.now, rate=1000)
        await run(d, id)
        found = [(at - start) // MINUTE for at, _ in await jobs(d)]
        assert found == [-1, 0, 1, 2, 3, 8], "nor when it begins again"


async def test_a_backfill_read_before_a_cancel_fires_nothing_after_it(address: Address) -> None:
    async with desk(address) as d:
        await d.add(cron="* * * * *")
        await d.schedules.backfill("beat", d.at(-3600), d.now, rate=1000)
        [read] = await d.hands.store.backfills.under_way(1)
        await d.schedules.cancel("beat")
        planned = Planned(d.at(-60), d.at(-60))
        fires = [PastFire(planned, "ring", "{}")]
        fired = await d.hands.store.backfills.fire(
            d.hands.lead, read, fires, next_at=read.to_at, over=True
        )
        assert fired is None
        assert await jobs(d) == []


@pytest.mark.parametrize(
    ("first", "end", "rate", "why"),
    [
        (-60, 60, 1, "to: .* is not in the past"),
        (-60, -60, 1, "to: must be later than from_"),
        (-60, 0, 0, "rate: 0 is not"),
        (-60, 0, float("nan"), "rate: nan is not"),
        (-60, 0, True, "rate: True is not"),
    ],
)
async def test_a_backfill_that_cannot_be_right_is_refused(
    address: Address, first: float, end: float, rate: Any, why: str
) -> None:
    async with desk(address) as d:
        await d.add()
        with pytest.raises(InvalidSchedule, match=why):
            await d.schedules.backfill("beat", d.at(first), d.at(end), rate=rate)
        with pytest.raises(InvalidSchedule, match="from_: 'x' is not an instant"):
            await d.schedules.backfill("beat", "x", d.at(0))
        assert await d.schedules.backfills() == []


async def test_days_that_are_to_be_kept_again_do_not_make_the_ledger_know_what_it_forgot(
    address: Address,
) -> None:
    async with desk(address) as d:
        began, history = d.now, d.hands.store.history
        await d.add(cron="0 * * * *", overlap="allow")
        for _ in range(5 * 24):
            d.clock.advance(3600)
            await d.hands.fire()
        fired = len(await jobs(d))
        await history.set_retention(86400.0, None, False)
        while await history.drop_bucket():
            pass
        await history.set_retention(30 * 86400.0, None, False)
        with pytest.raises(InvalidSchedule, match="is not known any more") as refused:
            await d.schedules.backfill("beat", began, d.now, rate=1000)
        known = datetime.fromisoformat(str(refused.value).split()[5])
        assert d.now - timedelta(days=2) < known < d.now
        done = await run(d, await d.schedules.backfill("beat", known, d.now, rate=1000))
        assert (done.fired, len(await jobs(d))) == (0, fired)
