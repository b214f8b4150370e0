"""The checker on changes that nobody asked for: each request of its own tenant licenses one."""

from typing import Any

import pytest

from sexton.torture.check.calendars import Almanac
from sexton.torture.check.folder import Ask, Change
from sexton.torture.check.things import Schedule
from sexton.torture.check.unasked import Unasked

from .by_hand import BEGINS, SECOND, Line

ID = 7


class Story:
    """A schedule, what was asked about it, and what became of it, second by second."""

    def __init__(self, *, registered: bool = True) -> None:
        self._registered = registered
        self._unasked = Unasked(0, Almanac({}))
        self._row: Line = {
            **{"tenant": 1, "name": "s", "version": 1, "since": BEGINS, "state": "active"},
            **{"reason": None, "until": None, "task": "t", "said": {"every": 1}},
            **{"payload": {"rev": 0}, "anchor": BEGINS},
        }
        self._schedule = Schedule(self._change(0, "I"))

    def _change(self, at: float, op: str) -> Change:
        when = BEGINS + round(at * SECOND)
        return Change(0, when, 0, "schedule", op, ID, {}, {**self._row})

    def asks(self, at: float, verb: str, again: int | None = None, **more: Any) -> None:
        when = BEGINS + round(at * SECOND)
        body = {name: value for name, value in more.items() if name != "refused"}
        refused = bool(more.get("refused"))
        told: Line | None = None if refused else {}
        ask = Ask("f", 1, when, verb, "api", "a", "s", body, again, when, when, told, refused, None)
        self._unasked.hear(ask, self._schedule)

    def becomes(self, at: float, **changed: Any) -> None:
        self._row |= {"version": self._row["version"] + 1, "since": BEGINS + round(at * SECOND)}
        self._row |= changed
        self._schedule.change(self._change(at, "U"))

    @property
    def unasked(self) -> list[tuple[int, str]]:
        found = self._unasked.of(self._schedule, registered=self._registered)
        return [(version.n, str(wish)) for version, wish in found]


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_was_asked_for_is_no_surprise(story: Story) -> None:
    story.asks(1, "pause", reason="r")
    story.becomes(2, state="paused", reason="r")
    story.asks(3, "resume")
    story.becomes(4, state="active", reason=None)
    story.asks(5, "update", payload={"rev": 1})
    story.becomes(6, payload={"rev": 1}, said={"every": 2})
    story.asks(7, "cancel_schedule")
    story.becomes(8, state="cancelled")
    story.asks(9, "add", payload={"rev": 2})
    story.becomes(10, state="active", payload={"rev": 2})
    assert story.unasked == []


def test_a_request_licenses_one_change(story: Story) -> None:
    story.asks(1, "cancel_schedule")
    story.asks(1, "add", payload={"rev": 1})
    for at in (2, 4):
        story.becomes(at, state="cancelled")
        story.becomes(at + 1, state="active", payload={"rev": 1})
    assert story.unasked == [(4, "cancel_schedule"), (5, "edit 1")]


def test_a_request_that_is_sent_again_under_its_key_is_the_same(story: Story) -> None:
    story.asks(1, "pause", reason="r")
    story.asks(2, "pause", again=1, reason="r")
    for at in (3, 5):
        story.becomes(at, state="paused", reason="r")
        story.becomes(at + 1, state="active", reason=None)
    assert story.unasked == [(3, "resume"), (4, "pause 'r'"), (5, "resume")]


def test_what_was_refused_or_is_asked_for_later_was_not_wanted(story: Story) -> None:
    story.asks(1, "update", payload={"rev": 1}, refused=True)
    story.becomes(2, payload={"rev": 1})
    story.becomes(3, state="paused", reason="r")
    story.asks(4, "pause", reason="r")
    assert story.unasked == [(2, "edit 1"), (3, "pause 'r'")]


@pytest.mark.parametrize(("ends_at", "unasked"), [(9, []), (10, []), (11, [(3, "resume")])])
def test_a_pause_that_ends_by_itself_does_not_end_sooner(
    story: Story, ends_at: int, unasked: list[Any]
) -> None:
    story.asks(1, "pause", reason="r")
    until = BEGINS + ends_at * SECOND
    story.becomes(2, state="paused", reason="r", until=until)
    story.becomes(10, state="active", reason=None, until=None)
    assert story.unasked == unasked


@pytest.mark.parametrize("other", [{"said": {"every": 5}}, {"task": "another"}])
def test_an_edit_under_an_old_name_is_an_edit(story: Story, other: Line) -> None:
    story.asks(1, "pause", reason="r")
    story.becomes(2, state="paused", reason="r", **other)
    assert story.unasked == [(2, "edit 0")]


def test_a_pause_that_is_made_shorter_is_another_pause(story: Story) -> None:
    story.asks(1, "pause", reason="r")
    story.becomes(2, state="paused", reason="r", until=BEGINS + 60 * SECOND)
    story.becomes(3, until=BEGINS + 4 * SECOND)
    story.becomes(4, state="active", reason=None, until=None)
    assert story.unasked == [(3, "pause 'r'")]


def test_an_edit_that_is_made_twice_was_asked_for_once(story: Story) -> None:
    story.asks(1, "update", payload={"rev": 1})
    story.becomes(2, payload={"rev": 1})
    story.becomes(3)
    assert story.unasked == [(3, "edit 1")]


def test_a_paused_schedule_can_be_edited_and_resumes_at_its_time(story: Story) -> None:
    story.asks(1, "pause", reason="r")
    story.becomes(2, state="paused", reason="r", until=BEGINS + 9 * SECOND)
    story.asks(3, "update", payload={"rev": 1})
    story.becomes(4, payload={"rev": 1})
    story.becomes(9, state="active", reason=None, until=None)
    assert story.unasked == []


def test_what_was_over_does_not_come_back_by_itself(story: Story) -> None:
    story.asks(1, "cancel_schedule")
    story.becomes(2, state="cancelled")
    story.asks(3, "resume")
    story.becomes(4, state="active")
    assert story.unasked == [(3, "edit 0")]


def test_a_schedule_is_there_because_somebody_added_it() -> None:
    story = Story(registered=False)
    assert story.unasked == [(1, "edit 0")]
    story.asks(0, "add", payload={"rev": 0})
    assert story.unasked == []
