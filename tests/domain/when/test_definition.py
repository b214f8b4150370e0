"""Definitions: what a user may write, what is kept of it, and what is refused with a reason."""

import json
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from sexton.domain.spec import Terms
from sexton.domain.when import CalendarRef, Definition
from sexton.errors import InvalidSchedule

PARIS = ZoneInfo("Europe/Paris")
EVERYTHING: list[dict[str, object]] = [
    {"cron": "0 6 * * *"},
    {"cron": " 0  6 * *\t* ", "timezone": "Europe/Paris", "dst": "shift"},
    {"cron": "0 0 14 ? * 2#1", "dialect": "quartz"},
    {"cron": "@daily", "jitter": "10m", "jitter_kind": "fixed"},
    {"every": 90},
    {"every": "1h30m", "anchor": "2026-01-01T00:00:00Z", "jitter": timedelta(seconds=5)},
    {"every": 0.1, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2026-02-01T00:00:00+01:00"},
    {"at": datetime(2026, 3, 29, 3, tzinfo=PARIS)},
    {"rrule": "RRULE:FREQ=WEEKLY;BYDAY=MO", "timezone": "Asia/Tokyo"},
    {"rrule": "DTSTART;TZID=Europe/Paris:20260101T090000\nRRULE:FREQ=DAILY", "dst": "both"},
    {"any": ["0 9 * * *", {"every": "1h"}, {"rrule": "FREQ=DAILY;BYHOUR=9"}]},
    {"cron": "0 6 * * *", "exclude": "holidays", "only": ["office", "weekends"]},
    {"cron": "0 6 * * *", "exclude": [CalendarRef("holidays", 7)], "when_excluded": "next_day"},
]


def define(**when: object) -> Definition:
    return Definition.of(**when)  # type: ignore[arg-type]


@pytest.mark.parametrize("when", EVERYTHING, ids=str)
def test_what_is_written_down_reads_back(when: dict[str, object]) -> None:
    definition = define(**when)
    text = definition.to_json()
    assert Definition.from_json(text) == definition
    assert Definition.from_json(text).to_json() == text
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert hash(Definition.from_json(text)) == hash(definition)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ({"cron": "0  6 * * *"}, '{"cron":"0 6 * * *"}'),
        ({"cron": "@daily"}, '{"cron":"@daily"}'),
        ({"every": "1m"}, '{"every":60.0}'),
        ({"at": "2026-03-29T03:00+02:00"}, '{"at":"2026-03-29T01:00:00Z"}'),
        ({"rrule": " RRULE:FREQ=DAILY "}, '{"rrule":"FREQ=DAILY"}'),
        ({"any": ["0 9 * * *", "0  9 * * *"]}, '{"cron":"0 9 * * *"}'),
        ({"any": ["@daily", {"every": 60}]}, '{"any":[{"cron":"@daily"},{"every":60.0}]}'),
        (
            {"rrule": "DTSTART;TZID=Europe/Paris:20260101T090000\r\nRRULE:FREQ=DAI\r\n LY"},
            '{"rrule":"DTSTART;TZID=Europe/Paris:20260101T090000\\nRRULE:FREQ=DAILY",'
            '"timezone":"Europe/Paris"}',
        ),
        (
            {"every": 60, "exclude": ["b", "a", "a"]},
            '{"every":60.0,"exclude":[{"name":"a","version":0},{"name":"b","version":0}]}',
        ),
    ],
    ids=str,
)
def test_what_is_by_default_is_left_out_and_the_rest_is_written_one_way(
    when: dict[str, object], text: str
) -> None:
    assert define(**when).to_json() == text
    # Said in so many words, and with texts that no other place holds, it is the same.
    said = {"timezone": "UTC", "dst": "default", "jitter": "0s"}
    if "DTSTART" not in text:
        again = define(**when, **{name: "".join(value) for name, value in said.items()})
        assert again.to_json() == text


def test_h_is_spread_by_the_name_and_kept_as_what_it_became() -> None:
    one, other = define(cron="H H * * *", name="a"), define(cron="H H * * *", name="b")
    assert one != other
    assert one.cron is not None
    assert "H" not in one.cron
    assert define(cron=one.cron, name="another") == one
    assert define(cron="0 6 * * THU", name="a") == define(cron="0 6 * * THU", name="b")


def test_instants_without_an_offset_are_walls_of_the_zone_that_was_given() -> None:
    local = define(at="2026-03-28T12:00", timezone="Europe/Paris")
    assert local.at == datetime(2026, 3, 28, 11, tzinfo=UTC)
    naive = define(at=datetime(2026, 3, 28, 12), timezone="Europe/Paris")  # noqa: DTZ001
    assert naive == local
    twice = define(at="2026-10-25T02:30", timezone="Europe/Paris")
    assert twice.at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    east = timezone(timedelta(hours=2))
    assert define(at=datetime(2026, 3, 28, 13, tzinfo=east)).at == local.at


def test_calendars_are_pinned_to_their_versions() -> None:
    definition = define(cron="0 6 * * *", exclude="holidays", only=["office"])
    assert definition.calendars == {CalendarRef("holidays"), CalendarRef("office")}
    pinned = definition.pinned({"holidays": 3, "office": 1, "other": 9})
    assert pinned.exclude == (CalendarRef("holidays", 3),)
    assert pinned.pinned({"holidays": 4, "office": 1}).exclude == (CalendarRef("holidays", 4),)
    with pytest.raises(InvalidSchedule, match=r"'office' does not exist; did you mean 'offices'\?"):
        definition.pinned({"holidays": 3, "offices": 1})


@pytest.mark.parametrize(
    ("when", "says"),
    [
        ({}, "give one of cron=, every=, at=, rrule= and any=, not none"),
        ({"cron": "* * * * *", "every": 60}, "not cron= and every="),
        ({"cron": "0 0 31 2 *"}, "cron '0 0 31 2 \\*': day of month 31 never comes"),
        ({"cron": 7}, "cron: an expression"),
        ({"cron": "* * * * *", "dialect": "quarz"}, r"did you mean 'quartz'\?"),
        ({"cron": "* * * * *", "anchor": "2026-01-01T00:00Z"}, "anchor: says where the intervals"),
        ({"every": "5x"}, "every: '5x' is not a duration"),
        ({"every": 0}, "every: 0 is shorter than 0.1 s"),
        ({"every": -1}, "every: -1 is not a duration"),
        ({"every": True}, "every: True is not a duration"),
        ({"every": 60, "dialect": "quartz"}, "dialect: says something about cron= only"),
        ({"every": 60, "dst": "skip"}, "dst: says something about cron= and rrule= only"),
        ({"at": "tomorrow"}, "at: 'tomorrow' is not an instant; write it like"),
        ({"at": 7}, "at: 7 is not an instant"),
        ({"at": "2026-03-28T12:00"}, "at: 2026-03-28T12:00 has no offset; .*or give timezone="),
        (
            {"at": "2026-03-29T02:30", "timezone": "Europe/Paris"},
            "at: 2026-03-29T02:30 does not exist in Europe/Paris",
        ),
        ({"at": "9500-01-01T00:00Z"}, "not between the years 1970 and 9000"),
        ({"at": "9999-12-31T23:59:59-14:00"}, "not between the years 1970 and 9000"),
        ({"rrule": "FREQ=DAYLY"}, r"rrule: .*did you mean 'DAILY'\?"),
        ({"rrule": 7}, "rrule: 7 is not a rule"),
        (
            {"rrule": "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY", "timezone": "Europe/Paris"},
            "timezone: one schedule is in one time zone, not in Europe/Paris and UTC",
        ),
        ({"any": []}, "any: is a list of rules"),
        ({"any": "0 9 * * *"}, "any: is a list of rules"),
        ({"any": [7]}, "any: 7 is not a rule"),
        ({"any": [{"cron": "0 9 * * *", "every": 5}]}, "needs exactly one of"),
        ({"any": [{"dialect": "quartz"}]}, "needs exactly one of"),
        ({"any": [{"evry": 5}]}, r"any: 'evry' is not part of a rule; did you mean 'every'\?"),
        ({"any": [{"any": []}]}, "'any' is not part of a rule"),
        ({"any": ["0 9 * * *"] * 101}, "any: has more than 100 rules"),
        ({"cron": "0 6 * * *", "timezone": "Europe/Pari"}, r"did you mean 'Europe/Paris'\?"),
        ({"cron": "0 6 * * *", "dst": "skp"}, r"dst: 'skp' is none of .*did you mean 'skip'\?"),
        (
            {"every": 60, "starts_at": "2026-01-02T00:00Z", "ends_at": "2026-01-02T00:00Z"},
            "ends_at: must be later than starts_at",
        ),
        ({"every": 60, "starts_at": "2026-01-02"}, "starts_at: 2026-01-02 has no offset"),
        ({"every": 60, "jitter": "soon"}, "jitter: 'soon' is not a duration"),
        ({"every": 60, "jitter_kind": "fixed"}, "jitter_kind: needs jitter="),
        ({"every": 60, "jitter": 5, "jitter_kind": "fix"}, r"did you mean 'fixed'\?"),
        ({"every": 60, "when_excluded": "skip"}, "when_excluded: needs exclude= or only="),
        ({"every": 60, "only": "a", "when_excluded": "nextday"}, r"did you mean 'next_day'\?"),
        ({"every": 60, "exclude": [""]}, "exclude: .* is not a calendar's name"),
        ({"every": 60, "exclude": [7]}, "exclude: 7 is not a calendar's name"),
        ({"every": 60, "exclude": [{"name": "a"}]}, "exclude: .* is not a calendar's name"),
        ({"every": 60, "exclude": 7}, "exclude: is a list of calendars' names, not 7"),
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_with_the_field_and_the_reason(
    when: dict[str, object], says: str
) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        define(**when)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"crno":"* * * * *"}', '{"cron":7}', '{"at":"2026-01-01T00:00:00"}'],
)
def test_text_that_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="when: cannot be read"):
        Definition.from_json(text)


def test_the_second_time_of_a_reading_that_comes_twice_is_not_taken_for_the_first() -> None:
    """Both datetimes are equal to Python, whichever is said first."""
    first = datetime(2026, 10, 25, 2, 30, tzinfo=PARIS)
    second = first.replace(fold=1)
    assert first == second
    for field in ("at", "starts_at", "ends_at"):
        rule = {} if field == "at" else {"every": 60}
        early, late = (Terms.of("x", {**rule, field: each}) for each in (first, second))
        assert getattr(early.when, field) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
        assert getattr(late.when, field) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
        for each in (early, late):
            assert Terms.of("x", each.options).when == each.when, "and so it is read again"


def test_a_local_time_that_comes_twice_is_written_down_as_the_one_that_was_meant() -> None:
    wall = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001
    for fold, hour in ((0, 0), (1, 1)):
        terms = Terms.of("x", {"at": wall.replace(fold=fold), "timezone": "Europe/Paris"})
        assert terms.when.at == datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
        assert Terms.of("x", terms.options).when == terms.when


def test_equal_instants_are_kept_as_they_were_written() -> None:
    utc = datetime(2026, 6, 1, 12, tzinfo=UTC)
    texts = [Terms.of("x", {"at": each}).options["at"] for each in (utc, utc.astimezone(PARIS))]
    assert texts == ["2026-06-01T12:00:00+00:00", "2026-06-01T14:00:00+02:00"]
