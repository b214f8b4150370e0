"""Calendars that were changed: by nobody, in vain, or for some of the schedules that go by them."""

import json
from typing import Any

from ..diary import iso
from ..tampering import SECOND, Line, Tampered, found_by


def _put(run: Tampered) -> tuple[Line, Line]:
    """Both lines of the one request."""
    ask = next(each for each in run.acks if each.get("verb") == "put_calendar")
    return ask, next(each for each in run.acks if each["event"] == "ack" and each["n"] == ask["n"])


def _redefine(run: Tampered, ranges: list[list[int]]) -> None:
    """As if it had been asked for so, and been so."""
    _put(run)[0]["body"]["ranges_us"] = ranges
    [_, change] = run.all("calendar")
    told = [f"{iso(first)}/{iso(last)}" for first, last in ranges]
    change["now"]["definition"] = json.dumps({"ranges": told})


@found_by("calendars-followed")
def a_schedule_that_goes_on_by_the_calendar_before(run: Tampered) -> None:
    id = run.schedule("someday")
    run.drop(
        "dump/change", lambda each: (each["tab"], each["op"], each["id"]) == ("schedule", "U", id)
    )
    [row] = run.rows("schedule", name="someday")
    row["version"] = 1


@found_by("calendars-followed")
def an_acknowledged_calendar_never_was(run: Tampered) -> None:
    _put(run)[0]["body"]["ranges_us"].pop()


@found_by("calendars-followed")
def a_calendar_that_nobody_asked_for(run: Tampered) -> None:
    for line in _put(run):
        run.acks.remove(line)


@found_by("calendars-followed")
def a_calendar_that_was_refused_and_changed(run: Tampered) -> None:
    _, ack = _put(run)
    del ack["answer"]
    ack |= {"event": "error", "error": "Answered: 422: no", "unsure": False}


@found_by("calendars-followed")
def a_calendar_that_is_said_to_have_more_schedules(run: Tampered) -> None:
    _put(run)[1]["answer"]["recomputed"] += 1


@found_by("by-the-rule-in-force")
def a_fire_that_the_changed_calendar_takes_out(run: Tampered) -> None:
    ranges, fire = _put(run)[0]["body"]["ranges_us"], _after_it(run)
    _redefine(run, sorted([*ranges, [fire["now"]["scheduled"], fire["now"]["scheduled"] + 1]]))


@found_by("every-fire-decided")
def a_fire_that_the_changed_calendar_allows_again(run: Tampered) -> None:
    """There is nothing of it in the ledger: it was taken out, and that is not recorded either."""
    (first, last), *others = _put(run)[0]["body"]["ranges_us"]
    _redefine(run, others)

    def there(gap: Line) -> bool:
        overlaps: bool = gap["first"] < last and gap["last"] >= first
        return gap["decision"] == "excluded" and overlaps

    run.drop("dump/gap", there)
    inserted = ("gap", "I")
    run.drop(
        "dump/change",
        lambda each: (each["tab"], each["op"]) == inserted and there(each["now"]),
    )


def _after_it(run: Tampered) -> Any:
    [_, change] = run.all("calendar")
    return next(
        each
        for each in run.fires("open", decision="fired")
        if each["seq"] > change["seq"] and each["now"]["scheduled"] > change["at"] + SECOND
    )
