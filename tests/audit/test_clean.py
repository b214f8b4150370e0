"""Ledgers as schedules, operators and outages leave them: every fire has its one decision."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from .tower import LAG, tower, wrong


async def test_every_kind_of_rule_gives_a_clean_audit(database_url: str) -> None:
    async with tower(database_url) as held:
        minutely = await held.add("minutely", cron="* * * * *")
        await held.add("interval", every="90s")
        await held.add("other interval", every="90s", anchor="2026-01-01T00:00:07Z")
        await held.add("zoned", cron="*/10 * * * *", timezone="Asia/Kolkata")
        await held.add("several", any=["5 * * * *", {"every": "20m"}])
        await held.add("recurring", rrule="FREQ=HOURLY;BYMINUTE=15")
        await held.add("once", at="2026-01-05T12:30:00Z")
        await held.add("random", cron="* * * * *", jitter=45)
        await held.add("fixed", every="5m", jitter="2m", jitter_kind="fixed")
        await held.add("bounded", cron="* * * * *", ends_at="2026-01-05T12:10:00Z")
        await held.add("thrice", cron="* * * * *", max_fires=3)
        await held.turn("2h")
        found = await held.audit()
        assert wrong(found) == {}
        assert (found.pending, found.unchecked) == (0, ())
        assert found.expected == found.fired == await held.value("select count(*) from sexton.fire")
        assert found.lag.p50 == found.lag.max == pytest.approx(LAG.total_seconds())
        assert found.schedules == 11
        alone = await held.audit(schedule="minutely")
        assert (alone.expected, alone.fired, alone.schedules) == (120, 120, 1)
        counted = "select count(*) from sexton.fire where schedule_id = $1"
        assert await held.value(counted, minutely) == 120


async def test_a_schedule_that_was_changed_in_every_way_is_whole(database_url: str) -> None:
    async with tower(database_url) as held:
        schedules = held.app.schedules
        await held.add(cron="* * * * *", jitter=30)
        await held.turn("3m20s")
        await schedules.update("bell", cron="*/20 * * * * *", jitter=None)
        await held.turn("2m")
        held.clock.advance("61s")  # three are due, and will not be fired any more
        await schedules.update("bell", every="15s")
        await held.turn("1m")
        held.clock.advance("5s")
        await schedules.pause("bell", "maintenance")
        await held.turn("4m")
        await schedules.resume("bell")
        await held.turn("2m")
        await schedules.trigger("bell")
        await schedules.cancel("bell")
        await held.turn("2m")
        await held.add(cron="* * * * *")
        await held.turn("2m")
        found = await held.audit()
        assert wrong(found) == {}
        assert found.decisions["superseded"] == 3
        assert found.passed_over == {"paused": 16}
        assert found.kinds["trigger"] == 1
        assert found.expected == found.fired + found.decisions["superseded"]


@pytest.mark.parametrize(
    ("misfire", "fired", "others"),
    [
        ("latest", 6, {"missed": 60, "coalesced": 59}),
        ("skip", 5, {"missed": 120}),
        ("all", 65, {"missed": 60}),
    ],
)
async def test_what_is_late_is_pending_until_it_is_caught_up(
    database_url: str, misfire: str, fired: int, others: dict[str, int]
) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", misfire=misfire)
        await held.turn("5m")
        await held.sleep("2h")
        found = await held.audit()
        assert wrong(found) == {}
        assert (found.fired, found.pending) == (5, 120)
        await held.catch_up()
        found = await held.audit()
        assert wrong(found) == {}
        assert (found.expected, found.pending) == (125, 0)
        assert found.decisions == {"fired": fired, **others}
        assert (found.catch_up_lag.max is None) == (misfire == "skip")


async def test_overlapping_fires_are_decided_too(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", overlap="skip")
        await held.turn("10m")
        found = await held.audit()
        assert wrong(found) == {}
        assert found.decisions == {"fired": 1, "overlap": 9}


@pytest.mark.parametrize("when_excluded", ["skip", "next_day"])
async def test_what_calendars_take_out_is_not_expected(
    database_url: str, when_excluded: str
) -> None:
    async with tower(database_url) as held:
        await held.app.calendars.put("lunch", windows=["12:30-13:00"])
        await held.add("often", cron="*/10 * * * *", exclude="lunch")
        await held.add("twice", cron="45 12,18 * * *", exclude="lunch", when_excluded=when_excluded)
        await held.app.calendars.put("tuesday", dates=["2026-01-06"])
        await held.add(
            "six-hourly", cron="0 */6 * * *", exclude="tuesday", when_excluded=when_excluded
        )
        await held.turn("2h")
        found = await held.audit()
        assert wrong(found) == {}
        assert found.passed_over["excluded"] >= 3
        alone = await held.audit(schedule="often")
        assert alone.expected == alone.fired == 9
        await held.turn("1d")
        await held.app.calendars.put("lunch", windows=["12:00-12:20", "20:00-02:00"])
        await held.turn("1d")
        assert wrong(await held.audit()) == {}


@pytest.mark.parametrize(
    "start",
    [datetime(2026, 3, 28, 22, 0, tzinfo=UTC), datetime(2026, 10, 24, 22, 0, tzinfo=UTC)],
    ids=["spring", "autumn"],
)
async def test_the_days_on_which_clocks_change_are_audited_as_they_were_fired(
    database_url: str, start: datetime
) -> None:
    async with tower(database_url, start) as held:
        for dst in ("default", "skip", "shift", "first", "both"):
            await held.add(dst, cron="30 2 * * *", timezone="Europe/Paris", dst=dst)
        await held.add("often", cron="*/15 * * * *", timezone="Europe/Paris", jitter=600)
        await held.turn("6h")
        found = await held.audit()
        assert wrong(found) == {}
        in_spring = start.month == 3
        daily = found.fired - (await held.audit(schedule="often")).fired
        assert daily == (4 if in_spring else 6)


async def test_what_has_used_up_its_fires_promises_no_more(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", max_fires=4)
        await held.turn("10m")
        assert (await held.app.schedules.get("bell")).state == "ended"
        found = await held.audit()
        assert (wrong(found), found.expected, found.fired) == ({}, 4, 4)
        await held.app.schedules.update("bell", max_fires=6)
        await held.turn("10m")
        found = await held.audit()
        assert (wrong(found), found.expected, found.fired) == ({}, 6, 6)


async def test_what_was_backfilled_is_fired_once_and_was_asked_for(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add(cron="* * * * *", misfire="skip", jitter=20)
        await held.turn("5m")
        await held.sleep("30m")
        await held.catch_up()
        await held.app.schedules.pause("bell")
        await held.turn("10m")
        await held.app.schedules.resume("bell")
        assert wrong(before := await held.audit()) == {}
        an_hour_before = held.begun - timedelta(hours=1)
        over = held.clock.now - timedelta(seconds=30)  # with all its jitter
        assert await held.backfill("bell", an_hour_before, over) > 90
        await held.turn("5m")
        found = await held.audit(an_hour_before)
        assert wrong(found) == {}
        assert found.fired >= before.expected
        assert found.kinds["backfill"] > 90
        assert wrong(await held.audit()) == {}


async def test_what_breaks_is_put_aside_and_said_so(database_url: str) -> None:
    async with tower(database_url) as held:
        id = await held.add(cron="* * * * *")
        await held.add("other", cron="* * * * *")
        await held.turn("5m")
        held.clock.advance("65s")
        await held.quarantine(id, "its fire cannot be written")
        await held.turn("5m")
        found = await held.audit()
        assert wrong(found) == {}
        assert [each.schedule for each in found.unchecked] == ["bell"]
        assert "quarantined at 2026-01-05T12:06:05" in found.unchecked[0].why
        await held.app.schedules.resume("bell")
        await held.turn("5m")
        found = await held.audit()
        assert wrong(found) == {}
        assert found.fired == 5 + 5 + 16


async def test_a_window_of_many_days_is_gone_through_day_by_day(database_url: str) -> None:
    async with tower(database_url) as held:
        await held.add("hourly", cron="0 * * * *", jitter=3599)
        await held.add("six", every="6h")
        await held.turn("3d")
        found = await held.audit()
        assert wrong(found) == {}
        assert found.expected == found.fired == 71 + 12 or found.fired == 72 + 12
        midnight = datetime(2026, 1, 7, tzinfo=UTC)
        parts = [
            await held.app.audit(held.begun, midnight),
            await held.app.audit(midnight, held.clock.now),
        ]
        assert sum(part.fired for part in parts) == found.fired
        assert sum(part.expected for part in parts) == found.expected


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_operators_and_outages_do_every_fire_has_its_decision(
    database_url: str, seed: int
) -> None:
    noise = random.Random(seed)
    rules: list[dict[str, Any]] = [
        {"cron": "* * * * *"},
        {"cron": "*/20 * * * * *", "jitter": 15},
        {"every": "47s"},
        {"every": "3m", "jitter": "2m", "jitter_kind": "fixed"},
        {"cron": "*/5 * * * *", "timezone": "Australia/Lord_Howe", "overlap": "skip"},
        {"cron": "* * * * *", "max_fires": 25, "misfire": "all", "grace": "5m"},
        {"any": ["*/7 * * * *", {"every": "50s"}], "misfire": "skip", "exclude": "lunch"},
    ]

    def rule() -> dict[str, Any]:
        options = noise.choice(rules)
        return {"cron": None, "every": None, "any": None, "jitter": None, "jitter_kind": None,
                "timezone": None, "max_fires": None, "exclude": None, **options}  # fmt: skip

    async with tower(database_url) as held:
        schedules = held.app.schedules
        await held.app.calendars.put("lunch", windows=["12:10-12:20", "12:40:30-13:00"])
        for name in "abcd":
            await held.add(name, **noise.choice(rules))
        for _ in range(30):
            name = noise.choice("abcd")
            state = (await schedules.get(name)).state
            match noise.choice("ttttuuprcxsl"):
                case "t":
                    await held.turn(noise.uniform(1, 300))
                case "u" if state != "cancelled":
                    await schedules.update(name, **rule())
                case "p" if state in ("active", "paused"):
                    await schedules.pause(name, noise.choice([None, "because"]))
                case "r" if state == "paused":
                    await schedules.resume(name)
                case "c" if state != "cancelled":
                    await schedules.cancel(name)
                    await held.turn(noise.uniform(1, 100))
                    await held.add(name, **noise.choice(rules))
                case "x" if state != "cancelled":
                    await schedules.trigger(name)
                case "s":
                    held.clock.advance(noise.uniform(0.1, 9))  # late, but not very
                case "l":
                    await held.sleep(noise.uniform(11, 1000))
                    if state == "active" and noise.random() < 0.3:
                        await schedules.pause(name)
                    await held.catch_up()
                case _:
                    pass
        await held.turn(60)
        await held.sleep(0)
        await held.catch_up()
        found = await held.audit()
        assert (wrong(found), found.pending) == ({}, 0), found.violations
        assert found.expected == sum(found.decisions.values())
        assert found.fired > 10
