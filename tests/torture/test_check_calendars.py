"""The checker on calendars that change: who follows, and by which one each version goes."""

import json
from typing import Any

import pytest

from sexton.torture.check import judge
from sexton.torture.check.folder import Change
from sexton.torture.check.world import World

from .by_hand import BEGINS, SECOND, Line, Run
from .diary import iso

BEFORE, AFTER = [[BEGINS, BEGINS + SECOND]], [[BEGINS + 5 * SECOND, BEGINS + 6 * SECOND]]


class Book:
    """A schedule that keeps out of one calendar, and what becomes of both."""

    def __init__(self) -> None:
        self.world = World({})
        self._seq = 0
        self._row: Line = {
            **{"tenant": 1, "name": "s", "version": 1, "since": BEGINS, "state": "active"},
            **{"reason": None, "until": None, "task": "t", "anchor": BEGINS},
            **{"payload": {"rev": 0}, "said": {"every": 1, "exclude": "freezes"}},
        }

    def _apply(self, tx: int, tab: str, op: str, id: int, now: Line) -> None:
        self._seq += 1
        at = BEGINS + self._seq * SECOND
        self.world.apply(Change(self._seq, at, tx, tab, op, id, {}, {**now}))

    def put(self, tx: int, ranges: list[list[int]], name: str = "freezes") -> None:
        told = [f"{iso(first)}/{iso(last)}" for first, last in ranges]
        row = {"tenant": 1, "name": name, "definition": json.dumps({"ranges": told})}
        self._apply(tx, "calendar", "I", tx, row)

    def schedule(self, tx: int, **changed: Any) -> None:
        self._row |= {"version": self._row["version"] + bool(changed), **changed}
        self._apply(tx, "schedule", "U" if changed else "I", 7, self._row)

    @property
    def calendars(self) -> list[Any]:
        """Of each version."""
        return [each.calendars[1, "freezes"] for each in self.world.schedules[7].versions]


@pytest.fixture
def book() -> Book:
    book = Book()
    book.put(1, BEFORE)
    book.schedule(2)
    return book


def test_a_version_of_a_calendars_change_goes_by_the_new_one(book: Book) -> None:
    book.put(3, AFTER)
    book.schedule(3, since=BEGINS + 1)
    assert book.calendars == [BEFORE, AFTER]


def test_a_pause_while_a_calendar_is_being_changed_goes_by_the_old_one(book: Book) -> None:
    """The change was written, and is not committed yet: it waits for the schedule."""
    book.put(3, AFTER)
    book.schedule(4, state="paused", reason="r")
    book.schedule(3, since=BEGINS + 1)
    assert book.calendars == [BEFORE, BEFORE, AFTER]


def test_an_edit_takes_the_calendars_as_they_are(book: Book) -> None:
    book.schedule(3, state="cancelled")
    book.put(4, AFTER)
    book.schedule(5, state="active", payload={"rev": 1})
    assert book.calendars == [BEFORE, BEFORE, AFTER]


def test_a_change_of_another_calendar_leaves_it_alone(book: Book) -> None:
    book.put(3, AFTER, "openings")
    book.schedule(3, state="paused", reason="r")
    assert book.calendars == [BEFORE, BEFORE]


def _recalendared(run: Run, *, follows: bool, cancelled: bool = False) -> list[str]:
    """A calendar that is asked for, and a schedule that goes by it."""
    about: Line = {
        **{"tenant": 1, "name": "s", "version": 1, "since": BEGINS, "state": "active"},
        **{"reason": None, "until": None, "task": "t", "anchor": BEGINS, "max_fires": None},
        **{"payload": {"rev": 0}, "said": {"at": iso(BEGINS - SECOND), "exclude": ["freezes"]}},
    }
    run.dumps["calendars"] = [{"tenant": "default", "name": "freezes", "ranges_us": BEFORE}]
    run.change(0, "schedule", "I", 7, now=about)
    told = {"ranges": [f"{iso(first)}/{iso(last)}" for first, last in AFTER]}
    row = {"tenant": 1, "name": "freezes", "definition": json.dumps(told)}
    run.change(1, "calendar", "I", 2, now=row)
    tx = run.changes[-1]["tx"]
    if cancelled:
        run.change(2, "schedule", "U", 7, now={**about, "version": 2, "state": "cancelled"})
    if follows:
        run.change(3, "schedule", "U", 7, now={**about, "version": 2})
        run.changes[-1]["tx"] = tx
    asked = {"n": 1, "verb": "put_calendar", "via": "api", "tenant": "default"}
    asked |= {"subject": "freezes", "body": {"ranges_us": AFTER}}
    answer = {"event": "ack", "n": 1, "answer": {"recomputed": int(follows)}}
    lines = [
        {"at": BEGINS + SECOND, "event": "ask", **asked},
        {"at": BEGINS + 3 * SECOND, **answer},
    ]
    (run.folder / "acks" / "a-1.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    [found] = [each for each in judge(run.save()).invariants if each.name == "calendars-followed"]
    return [each.what for each in found.violations]


def test_who_follows_is_fine_and_who_does_not_is_found(tmp_path: Any) -> None:
    assert _recalendared(Run(tmp_path / "a"), follows=True) == []
    [what] = _recalendared(Run(tmp_path / "b"), follows=False)
    assert "goes on by the one before" in what


def test_who_is_cancelled_while_the_calendar_changes_need_not_follow(tmp_path: Any) -> None:
    assert _recalendared(Run(tmp_path / "a"), follows=False, cancelled=True) == []
