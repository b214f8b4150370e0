"""Names, arguments and options that cannot be right are refused with the field and the reason."""

from datetime import UTC, datetime, timedelta
from time import process_time
from typing import Any

import pytest

from sexton import Call, ConfigurationError, InvalidSchedule, Sexton, UnknownSchedule


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must be a string that is not empty"),
        (None, "must be a string that is not empty"),
        (7, "must be a string that is not empty"),
        ("a\x00b", "NUL character"),
        ("\ud800", "half a character"),
        ("x" * 201, "is 201 bytes long; at most 200"),
        ("é" * 101, "is 202 bytes long; at most 200"),
    ],
)
async def test_a_name_that_cannot_be_kept_is_refused(app: Sexton, name: Any, why: str) -> None:
    async with app:
        for refused in (
            app.schedules.add(name, "ring", every=5),
            app.schedules.get(name),
            app.schedules.pause(name),
            app.schedules.resume(name),
            app.schedules.update(name, every=5),
            app.schedules.cancel(name),
            app.schedules.trigger(name),
            app.schedules.backfill(name, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            app.schedules.versions(name),
            app.explain(name, datetime(2026, 1, 1, tzinfo=UTC)),
            app.calendars.put(name, dates=["2026-01-01"]),
        ):
            with pytest.raises(InvalidSchedule, match=f"^name: .*{why}"):
                await refused


@pytest.mark.parametrize(
    "name", ["é" * 100, "a'b\"c\\", "日本; drop table sexton.job", "x/y?z=%00", " ", "\n", "{}"]
)
async def test_an_odd_name_is_a_name(app: Sexton, name: str) -> None:
    async with app:
        assert (await app.schedules.add(name, "ring", every=60)).name == name
        await app.schedules.pause(name)
        await app.schedules.resume(name)
        assert await app.schedules.trigger(name) > 0
        assert [each.name for each in await app.schedules.list(text=name)] == [name]
        assert (await app.schedules.cancel(name)).state == "cancelled"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "when: give one of"),
        ({"cron": "0 6 * * *", "every": 5}, "not cron= and every="),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"cron": 5}, "cron"),
        ({"every": 0}, "every: 0 is shorter"),
        ({"every": -5}, "every: -5 is not a duration"),
        ({"every": "soon"}, "every: 'soon' is not a duration"),
        ({"at": "tomorrow"}, "at: 'tomorrow' is not an instant"),
        ({"at": "2030-01-01T00:00"}, "at: .* has no offset"),
        ({"every": 60, "timezone": "Mars/Base"}, "Mars/Base"),
        ({"every": 60, "overlop": "skip"}, "no option 'overlop'; did you mean 'overlap'"),
        ({"every": 60, "overlap": "skipp"}, "overlap: 'skipp' is none of .*did you mean 'skip'"),
        ({"every": 60, "misfire": None, "grace": "x"}, "grace: 'x' is not a duration"),
        ({"every": 60, "max_queued": 5}, "max_queued: says something about overlap='queue_all'"),
        ({"every": 60, "priority": 9}, "priority: must be a whole number from -5 to 5"),
        ({"every": 60, "priority": True}, "priority: must be a whole number"),
        ({"every": 60, "tags": "a"}, "tags: must be a list of strings"),
        ({"every": 60, "tags": [""]}, "tag: must be a string that is not empty"),
        ({"every": 60, "queue": ""}, "queue: must be a string that is not empty"),
        ({"every": 60, "expires_in": "x"}, "expires_in: 'x' is not a duration"),
        ({"every": 60, "max_fires": 0}, "max_fires: 0 is not a whole number of at least 1"),
        ({"every": 60, "exclude": "nosuch"}, "calendar 'nosuch' does not exist"),
        ({"every": 60, "jitter": object()}, "jitter"),
        ({"every": 10**400}, "every: 1000+ is not a duration"),
        ({"every": 60, "grace": 10**400}, "grace: 1000+ is not a duration"),
        ({"every": 60, "expires_in": 10**400}, "expires_in: 1000+ is not a duration"),
        ({"any": [{"cron": None}]}, "any: .* needs exactly one of cron"),
        ({"every": 60, "exclude": "a\x00"}, "exclude: .* is not a calendar's name"),
        ({"every": 60, "only": ["\ud800"]}, "only: .* is not a calendar's name"),
        (
            {"at": "9999-12-31T23:59:59", "timezone": "America/New_York"},
            "at: .* is not between the years 1970 and 9000",
        ),
        ({"at": "0001-01-01T00:00:00", "timezone": "Asia/Tokyo"}, "at: .* not between the years"),
        (
            {"rrule": "RDATE:99991231T235959Z", "timezone": "Asia/Tokyo"},
            "rrule: RDATE: .* is at the end of time",
        ),
        (
            {"rrule": "RRULE:FREQ=DAILY\nEXDATE:00010101T000000Z", "timezone": "America/New_York"},
            "rrule: EXDATE: .* is at the end of time",
        ),
    ],
)
async def test_an_option_that_cannot_be_right_is_refused(
    app: Sexton, options: dict[str, Any], why: str
) -> None:
    async with app:
        with pytest.raises(InvalidSchedule, match=why):
            await app.schedules.add("beat", "ring", **options)
        with pytest.raises(UnknownSchedule):
            await app.schedules.get("beat")
        await app.schedules.add("beat", "ring", every=60)
        if options:
            with pytest.raises(InvalidSchedule, match=why):
                await app.schedules.put("beat", "ring", **options)
        assert (await app.schedules.get("beat")).version == 1


async def test_arguments_are_checked_as_an_enqueue_checks_them(app: Sexton) -> None:
    @app.task
    async def ring(n: int, loud: bool = False) -> None: ...

    async with app:
        for arguments, why in (
            ({}, "also needs n"),
            ({"n": "x"}, "argument n: expected int"),
            ({"n": 1, "lout": True}, "has no argument 'lout'; did you mean 'loud'"),
            ([1], "are given by name"),
            ({1: 2}, "strings"),
            ({"n": float("nan")}, "NaN"),
        ):
            with pytest.raises(InvalidSchedule, match=f"^arguments: .*{why}"):
                await app.schedules.add("beat", ring, arguments, every=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidSchedule, match="NUL"):
            await app.schedules.add("beat", "unknown task", {"s": "\x00"}, every=5)
        with pytest.raises(InvalidSchedule, match="task: is a task or the name of one"):
            await app.schedules.add("beat", print, every=5)  # type: ignore[arg-type]
        await app.schedules.add("beat", ring, {"n": 1}, every=5)
        with pytest.raises(InvalidSchedule, match=r"^arguments: .*expected int"):
            await app.schedules.update("beat", arguments={"n": "x"})
        with pytest.raises(InvalidSchedule, match=r"^arguments: .*expected int"):
            await app.schedules.trigger("beat", arguments={"n": "x"})
        for reason, why in (("a\x00b", "NUL"), ("\ud800", "half"), ("x" * 2001, "2001 bytes")):
            with pytest.raises(InvalidSchedule, match=f"^reason: .*{why}"):
                await app.schedules.pause("beat", reason)
        with pytest.raises(InvalidSchedule, match="no option 'jiter'; did you mean 'jitter'"):
            await app.schedules.update("beat", jiter=None)
        with pytest.raises(InvalidSchedule, match="task: is a task or the name of one"):
            await app.schedules.update("beat", task=7)
        assert (await app.schedules.get("beat")).version == 1


async def test_a_call_brings_its_arguments_and_options_with_it(app: Sexton) -> None:
    @app.task(queue="bells", priority=1)
    async def ring(n: int) -> None: ...

    def call() -> Call:
        return ring.call(n=3)

    async with app:
        made = await app.schedules.add("a", call(), every=5)
        assert (made.payload, made.queue, made.priority) == ({"n": 3}, None, None)
        made = await app.schedules.add("b", call().options(queue="q", tags=["x"]), every=5)
        assert (made.queue, made.tags, made.priority) == ("q", ("x",), None)
        with pytest.raises(InvalidSchedule, match="key: is for one job"):
            await app.schedules.add("c", call().options(key="k"), every=5)
        with pytest.raises(InvalidSchedule, match="in the call already"):
            await app.schedules.add("c", call(), {"n": 1}, every=5)


def test_declarations_that_cannot_be_right_are_refused(app: Sexton) -> None:
    @app.schedule("0 6 * * *", name="early")
    @app.schedule(every="1h", arguments={"n": 2})
    @app.task
    async def ring(n: int = 1) -> None: ...

    assert sorted(app.schedules.declared) == ["early", "ring"]
    with pytest.raises(ConfigurationError, match="two schedules are called 'ring'"):
        app.schedule("* * * * *")(ring)
    with pytest.raises(ConfigurationError, match=r"@app.schedule stands above @app.task"):
        app.schedule("* * * * *")(len)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="there twice"):
        app.schedule("* * * * *", cron="* * * * *")
    with pytest.raises(InvalidSchedule, match="minute: 61"):
        app.schedule("61 * * * *", name="x")(ring)
    with pytest.raises(InvalidSchedule, match="expected int"):
        app.schedule("1 * * * *", name="x", arguments={"n": "x"})(ring)


async def test_values_of_every_kind_are_written_so_that_they_read_the_same(app: Sexton) -> None:
    async with app:
        made = await app.schedules.add(
            "beat",
            "ring",
            any=["0 6 * * *", {"every": timedelta(minutes=5)}],
            grace=timedelta(hours=2),
            starts_at=datetime(2030, 1, 1, 6, 30),  # noqa: DTZ001 - a wall of its zone
            timezone="Europe/Paris",
            tags={"b", "a"},
        )
        assert made.said == {
            "any": ["0 6 * * *", {"every": 300.0}],
            "grace": 7200.0,
            "starts_at": "2030-01-01T06:30:00",
            "timezone": "Europe/Paris",
            "tags": ["a", "b"],
        }
        changed = await app.schedules.update("beat", queue="q")
        assert changed.next_fire_at == made.next_fire_at
        assert changed.said == {**made.said, "queue": "q"}


@pytest.mark.parametrize("tenant", ["a\x00b", "\ud800", "", 7])
async def test_a_tenant_that_cannot_be_one_is_refused(app: Sexton, tenant: Any) -> None:
    async with app:
        for refused in (
            app.schedules.get("x", tenant=tenant),
            app.schedules.list(tenant=tenant),
            app.schedules.add("x", "ring", every=5, tenant=tenant),
            app.calendars.list(tenant=tenant),
            app.explain("x", datetime(2026, 1, 1, tzinfo=UTC), tenant=tenant),
        ):
            with pytest.raises(InvalidSchedule, match=r"^tenant: "):
                await refused


async def test_what_is_asked_for_oddly_is_refused_with_the_field(app: Sexton) -> None:
    async with app:
        await app.schedules.add("beat", "ring", every=60)
        look = app.schedules
        for field, refused in (
            ("limit", look.list(limit=2**40)),
            ("limit", look.list(limit="5")),  # type: ignore[arg-type]
            ("limit", look.list(limit=0)),
            ("after", look.list(after="\x00")),
            ("tag", look.list(tag=7)),  # type: ignore[arg-type]
            ("text", look.list(text="\ud800")),
            ("task", look.list(task="\x00")),
            ("state", look.list(state=["active"])),  # type: ignore[arg-type]
            ("count", look.preview("beat", count="5")),  # type: ignore[arg-type]
            ("count", look.preview("beat", count=True)),
            ("limit", look.backfills(limit=-1)),
            ("name", look.backfills("a\x00b")),
            ("id", look.backfills(id=2**70)),
            ("id", look.cancel_backfill("x")),  # type: ignore[arg-type]
            ("id", look.cancel_backfill(2**70)),
        ):
            with pytest.raises(InvalidSchedule, match=f"^{field}: "):
                await refused


async def test_a_calendar_may_reach_to_the_end_of_time_in_every_zone(app: Sexton) -> None:
    async with app:
        await app.calendars.put("freeze", ranges=["2090-01-01T00:00/9999-12-31T23:59"])
        await app.calendars.put("long ago", ranges=["0001-01-01T00:00/1999-01-01T00:00"])
        for zone in ("America/New_York", "Asia/Tokyo", "UTC"):
            made = await app.schedules.add(
                zone, "ring", cron="0 0 * * *", timezone=zone, exclude=["freeze", "long ago"]
            )
            assert made.next_fire_at is not None
        with pytest.raises(InvalidSchedule, match="never fires"):
            await app.schedules.add("late", "ring", at="2091-01-01T00:00:00Z", exclude="freeze")


async def test_windows_that_take_too_long_to_search_are_refused_when_they_are_registered(
    app: Sexton,
) -> None:
    """288 windows of a second a day, an hourly rule that none of them lets through."""
    times = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(0, 60, 5)]
    brief = ",".join(f"{each}:30-{each}:31" for each in times)
    hourly = ",".join(f"{h:02}:10-{h:02}:20" for h in range(24))
    async with app:
        await app.calendars.put("brief", windows=[brief])
        await app.calendars.put("hourly", windows=[hourly])
        for name in ("brief", "hourly"):
            began = process_time()
            with pytest.raises(InvalidSchedule, match="too long"):
                await app.schedules.add(
                    "x", "ring", cron="0 * * * *", only=name, when_excluded="next_day"
                )
            with pytest.raises(InvalidSchedule, match="never fires"):
                await app.schedules.add("x", "ring", cron="0 * * * *", only=name)
            assert process_time() - began < 15, "it was minutes"


async def test_a_calendar_by_which_one_schedule_cannot_be_computed_is_changed_all_the_same(
    app: Sexton,
) -> None:
    hourly = ",".join(f"{h:02}:10-{h:02}:20" for h in range(24))
    async with app:
        await app.calendars.put("open", windows=["00:00-12:00"])
        await app.schedules.add(
            "odd", "ring", cron="0 * * * *", only="open", when_excluded="next_day"
        )
        await app.schedules.add("fine", "ring", cron="15 * * * *", only="open")
        assert await app.calendars.put("open", windows=[hourly]) == 2
        odd, fine = await app.schedules.get("odd"), await app.schedules.get("fine")
        assert (odd.state, fine.state) == ("quarantined", "active")
        assert "no fire is found in time" in (odd.reason or "")
