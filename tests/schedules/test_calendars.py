"""Calendars change, and with them every schedule that goes by one, in the same transaction."""

import asyncio
from datetime import timedelta

import pytest

from sexton import InvalidSchedule
from sexton.domain.when.calendar import Calendar
from sexton.flow import recalendar
from sexton.store.connection import Address

from .desk import desk

MINUTES = timedelta(minutes=1)


async def test_a_calendar_is_put_looked_at_and_removed(address: Address) -> None:
    async with desk(address) as d:
        calendars = d.app.calendars
        assert await calendars.put("holidays", dates=["2026-12-25", "--01-01"]) == 0
        await calendars.put("work", windows=["mon-fri 09:00-17:00"], timezone="Europe/Paris")
        view = await calendars.get("holidays")
        assert (view.name, view.since) == ("holidays", d.now)
        assert view.calendar == Calendar.of(dates=["--01-01", "2026-12-25"])
        assert [each.name for each in await calendars.list()] == ["holidays", "work"]
        await calendars.put("holidays", dates=["--01-01", "2026-12-25"])
        assert (await calendars.get("holidays")).version == view.version, "it says the same"
        await calendars.remove("holidays")
        assert [each.name for each in await calendars.list()] == ["work"]
        with pytest.raises(InvalidSchedule, match="calendar 'holidays' does not exist"):
            await calendars.get("holidays")
        with pytest.raises(InvalidSchedule, match="did you mean 'work'"):
            await calendars.remove("wrok")
        with pytest.raises(InvalidSchedule, match="is not a date"):
            await calendars.put("odd", dates=["soon"])


async def test_a_schedule_keeps_out_of_its_calendar_and_fires_after_it(address: Address) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("lunch", windows=["12:00-13:00"])
        made = await d.schedules.add("beat", "ring", cron="*/10 * * * *", exclude="lunch")
        assert made.next_fire_at == d.at(3600)
        with pytest.raises(InvalidSchedule, match="never fires"):
            await d.schedules.add(
                "never", "ring", cron="30 12 * * *", exclude="lunch", ends_at=d.at(7 * 86400)
            )


async def test_a_changed_calendar_is_a_new_version_of_each_schedule_that_uses_it(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalendar, "CHUNK", 2)
    async with desk(address) as d:
        start = d.now
        await d.app.calendars.put("lunch", windows=["12:00-13:00"])
        await d.app.calendars.put("other", windows=["18:00-19:00"])
        for n in range(5):
            await d.schedules.add(f"beat {n}", "ring", cron=f"{n}-59/10 * * * *", exclude="lunch")
        await d.schedules.add("paused", "ring", cron="*/10 * * * *", exclude=["lunch", "other"])
        await d.schedules.pause("paused", "why", until=d.at(9000))
        await d.schedules.add("gone", "ring", cron="*/10 * * * *", exclude="lunch")
        await d.schedules.cancel("gone")
        await d.schedules.add("without", "ring", cron="*/10 * * * *")
        d.clock.advance("15m")
        assert await d.app.calendars.put("lunch", windows=["12:00-12:30"]) == 6
        for n in range(5):
            changed = await d.schedules.get(f"beat {n}")
            assert (changed.version, changed.since, changed.state) == (2, d.now, "active")
            assert changed.next_fire_at == start + (30 + n) * MINUTES
            assert [each.ended_by for each in await d.schedules.versions(changed.name)] == [
                None, "calendar",
            ]  # fmt: skip
        paused = await d.schedules.get("paused")
        assert (paused.state, paused.reason, paused.version) == ("paused", "why", 3)
        assert paused.until == start + 150 * MINUTES
        assert (await d.schedules.get("gone")).version == 2
        assert (await d.schedules.get("without")).version == 1
        resumed = await d.schedules.resume("paused")
        assert resumed.next_fire_at == start + 30 * MINUTES


async def test_a_fire_that_was_due_when_its_calendar_changed_is_superseded(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("night", windows=["22:00-06:00"])
        await d.schedules.add("beat", "ring", cron="*/10 * * * *", exclude="night")
        d.clock.advance("25m")
        batch = await d.hands.read()
        assert batch == [], "it is late by far"
        await d.app.calendars.put("night", windows=["21:00-06:00"])
        assert [row[1:] for row in await d.ledger()] == [("superseded", "due")]
        assert [gap[2:] for gap in await d.gaps()] == [(1, "superseded")]
        assert (await d.schedules.get("beat")).next_fire_at == d.at(300)


@pytest.mark.parametrize("change", ["update", "pause", "cancel"])
async def test_what_a_calendar_took_out_is_recorded_although_the_fire_before_it_was_superseded(
    address: Address, change: str
) -> None:
    """A fire records what is taken out between it and the next one; superseded, it does not."""
    async with desk(address) as d:
        closed = f"{d.at(11 * 60):%H:%M}-{d.at(24 * 60):%H:%M}"
        await d.app.calendars.put("closed", windows=[closed])
        await d.schedules.add("beat", "ring", every="5m", exclude="closed")
        await d.hands.fire_until(d.at(5 * 60))
        d.clock.advance("13m")
        assert [row[1] for row in await d.ledger()] == ["fired"]
        match change:
            case "update":
                await d.schedules.update("beat", priority=1)
            case "pause":
                await d.schedules.pause("beat")
            case "cancel":
                await d.schedules.cancel("beat")
        word = "paused" if change == "pause" else "superseded"
        assert [row[1] for row in await d.ledger()] == ["fired", word]
        assert (d.at(-3 * 60), d.at(-3 * 60), 1, "excluded") in await d.gaps()


async def test_a_calendar_that_leaves_no_fire_ends_a_schedule_until_it_does_again(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("days", dates=["2026-01-06"])
        await d.schedules.add(
            "beat", "ring", cron="0 6 * * *", only="days", ends_at=d.at(3 * 86400)
        )
        await d.app.calendars.put("days", dates=["2026-02-06"])
        ended = await d.schedules.get("beat")
        assert (ended.state, ended.reason) == ("ended", "it has no more fires")
        await d.app.calendars.put("days", dates=["2026-01-07"])
        assert (await d.schedules.get("beat")).state == "active"


async def test_a_calendar_in_use_is_not_removed(address: Address) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("lunch", windows=["12:00-13:00"])
        await d.schedules.add("beat", "ring", cron="*/10 * * * *", exclude="lunch")
        with pytest.raises(InvalidSchedule, match="'lunch' is used by beat: cancel or update"):
            await d.app.calendars.remove("lunch")
        await d.schedules.update("beat", exclude=None)
        await d.app.calendars.remove("lunch")
        with pytest.raises(InvalidSchedule, match="'lunch' does not exist"):
            await d.schedules.update("beat", exclude="lunch")


async def test_a_schedule_that_is_added_while_its_calendar_changes_goes_by_the_new_one(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("lunch", windows=["12:00-13:00"])
        other = await d.hands.connect()
        await other.execute("begin")
        await other.fetch(
            "select pg_advisory_xact_lock(hashtextextended('sexton.hold:' || 'calendar:1', 0))"
        )
        adding = asyncio.create_task(
            d.schedules.add("beat", "ring", cron="*/10 * * * *", exclude="lunch")
        )
        watching = await d.hands.connect()
        while not await watching.fetchval("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0.005)
        await other.execute(
            "insert into sexton.calendar (name, since, definition) values ('lunch', now(), $1)",
            Calendar.of(windows=["12:00-12:30"]).to_json(),
        )
        await other.execute("commit")
        assert (await adding).next_fire_at == d.at(1800)


async def test_what_is_over_goes_by_the_new_calendar_too(address: Address) -> None:
    """Or the calendar could never be removed, nor its next change be seen by what begins again."""
    async with desk(address) as d:
        await d.app.calendars.put("freeze", dates=["2031-01-01"])
        await d.add("once", at=d.at(60), exclude="freeze")
        await d.add("few", every=60, max_fires=1, exclude="freeze")
        await d.add("closed", at=d.at(3600), exclude="freeze")
        await d.hands.fire_until(d.at(60), 30)
        day = d.now.date().isoformat()
        assert await d.app.calendars.put("freeze", dates=[day]) == 3
        views = {each.name: each for each in await d.schedules.list()}
        assert {each.state for each in views.values()} == {"ended"}
        assert await d.app.calendars.put("freeze", dates=["2032-01-01"]) == 3
        states = {each.name: each.state for each in await d.schedules.list()}
        assert states == {"once": "ended", "few": "ended", "closed": "active"}
        pinned = await d.hands.rows(
            "select distinct substring(rule.definition from '\"version\":([0-9]+)') as version "
            "from sexton.schedule join sexton.rule on rule.id = schedule.rule_id"
        )
        assert [int(row["version"]) for row in pinned] == [
            (await d.app.calendars.get("freeze")).version
        ]
        d.clock.advance(7200)
        found = await d.app.audit(d.at(-7300), d.now)
        assert (found.missing, found.unexpected) == (1, 0), "only what nobody has fired"


async def test_a_pause_that_is_over_when_a_calendar_changes_ends_when_it_was_to(
    address: Address,
) -> None:
    async with desk(address) as d:
        await d.app.calendars.put("freeze", dates=["2031-01-01"])
        await d.add(every=60, exclude="freeze", misfire="all", overlap="allow")
        begun = d.now
        await d.schedules.pause("beat", until=d.at(100))
        d.clock.advance(150)
        await d.app.calendars.put("freeze", dates=["2032-01-01"])
        view = await d.schedules.get("beat")
        assert (view.state, view.until, view.next_fire_at) == ("active", None, d.at(30))
        versions = await d.schedules.versions("beat")
        assert [each.ended_by for each in versions] == [None, "calendar", "resume", "pause"]
        assert versions[1].since == begun + timedelta(seconds=100)
        assert [(first, decision) for first, _, _, decision in await d.gaps()] == [
            (begun + timedelta(seconds=60), "paused")
        ]
        assert [row[:2] for row in await d.ledger()] == [
            (begun + timedelta(seconds=120), "superseded")
        ]
        assert (await d.app.audit(begun, d.now)).clean
