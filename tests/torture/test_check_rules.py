"""Fires, and the jobs that they make, by what was said and asked for: histories by hand."""

from pathlib import Path

import pytest

from .by_hand import Line
from .story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "run")


def _rev(rev: int) -> Line:
    return {"id": "s", "rev": rev}


def _edited(story: Story) -> None:
    """Rev 1 until 15 s, then rev 2."""
    story.begin(payload=_rev(1))
    story.begin(15, payload=_rev(2))


# ── the end of a pause ──────────────────────────────────────────────────────


def _pause_ends(story: Story, until: float | None, since: float, decided: float) -> list[str]:
    """Noticed at 80 s: of a pause since 5 s the version after it begins at `since`."""
    story.begin()
    story.begin(5, state="paused", until=None if until is None else story.at(until))
    story.begin(80, since=story.at(since))
    story.gap(10, 20, 80, "paused", decided=story.at(decided), node=None, term=None)
    story.together(2)
    return story.found("none-early")


def test_the_end_of_a_pause_may_be_noticed_late(story: Story) -> None:
    assert not _pause_ends(story, until=20, since=20, decided=20)


def test_what_a_pause_left_out_is_decided_when_the_version_after_it_begins(story: Story) -> None:
    [what] = _pause_ends(story, until=20, since=20, decided=79)
    assert "another instant than its version 3 begins" in what


@pytest.mark.parametrize(("until", "since"), [(None, 20), (30, 20), (200, 200)])
def test_a_pause_is_over_now_or_as_of_its_end(
    story: Story, until: float | None, since: float
) -> None:
    begun, decided = _pause_ends(story, until, since, decided=since)
    assert begun.startswith("it was begun, it says, ")
    assert decided.startswith("it was decided, it says, ")


# ── fires at their time ─────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["due", "catch_up"])
@pytest.mark.parametrize(("rev", "many"), [(2, 0), (1, 1)])
def test_a_job_has_the_payload_of_the_version_in_force(
    story: Story, kind: str, rev: int, many: int
) -> None:
    _edited(story)
    story.fire(20, job=2, kind=kind)
    story.effect(21, 2, 1, **_rev(rev))
    assert len(story.found("by-the-rule-in-force")) == many


def test_a_job_with_the_payload_of_another_schedule_is_seen(story: Story) -> None:
    story.begin(payload=_rev(0))
    story.fire(10, job=1)
    story.effect(11, 1, 1, id="t", rev=0)
    [what] = story.found("by-the-rule-in-force")
    assert what == "job 1 ran with id 't' rev 0, not with id 's' rev 0"


@pytest.mark.parametrize(("task", "many"), [("new", 0), ("old", 1)])
def test_a_job_has_the_task_of_the_version_in_force(story: Story, task: str, many: int) -> None:
    story.begin(task="old")
    story.fire(10, job=1, task="old")
    story.begin(15, task="new")
    story.fire(20, job=2, task=task)
    assert len(story.found("by-the-rule-in-force")) == many


# ── triggers ────────────────────────────────────────────────────────────────


def _triggered(story: Story, at: float, began: float, ran_with: int) -> None:
    story.fire(at, job=7, kind="trigger", began=story.at(began))
    story.effect(at + 1, 7, 1, **_rev(ran_with))


@pytest.mark.parametrize(("rev", "many"), [(9, 0), (2, 1)])
def test_a_trigger_has_the_payload_that_it_was_asked_for_with(
    story: Story, rev: int, many: int
) -> None:
    _edited(story)
    story.ask(20, 21, "trigger", {"job": 7}, payload=_rev(9))
    _triggered(story, 20.5, 20.4, rev)
    assert len(story.found("by-the-rule-in-force")) == many


@pytest.mark.parametrize(("rev", "many"), [(9, 0), (2, 0), (8, 1)])
def test_a_trigger_that_nobody_was_told_of_may_be_either(story: Story, rev: int, many: int) -> None:
    _edited(story)
    story.ask(20, None, "trigger", {}, payload=_rev(9))
    _triggered(story, 20.5, 20.4, rev)
    assert len(story.found("by-the-rule-in-force")) == many


@pytest.mark.parametrize(("began", "rev", "many"), [(14, 1, 0), (14, 2, 0), (16, 1, 0), (18, 1, 1)])
def test_a_trigger_may_have_read_what_an_edit_changed(
    story: Story, began: float, rev: int, many: int
) -> None:
    """It waits for whoever edits, and an edit is not seen before its commit."""
    _edited(story)
    story.ask(began, 20, "trigger", {"job": 7}, payload=None)
    _triggered(story, 19, began, rev)
    assert len(story.found("by-the-rule-in-force")) == many


def test_while_postgresql_is_in_trouble_an_edit_may_be_unseen_for_longer(story: Story) -> None:
    _edited(story)
    _triggered(story, 19, 18, 1)
    assert story.found("by-the-rule-in-force")
    story.fault(15, 17, "postgres")
    assert not story.found("by-the-rule-in-force")


# ── backfills ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("instant", "rev"), [(10, 1), (20, 2), (-10, 2)])
def test_a_backfill_goes_by_what_was_said_at_the_instant(
    story: Story, instant: float, rev: int
) -> None:
    """Before it said anything, by what it says now."""
    _edited(story)
    story.fire(instant, 30, job=7, kind="backfill")
    story.effect(31, 7, 1, **_rev(rev))
    assert not story.found("by-the-rule-in-force")
    story.effect(32, 7, 1, **_rev(3 - rev))
    assert len(story.found("by-the-rule-in-force")) == 1


# ── acknowledged ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("committed", "many"), [(15.4, 0), (17, 1)])
def test_no_fire_is_committed_after_an_acknowledged_cancel(
    story: Story, committed: float, many: int
) -> None:
    """Through the API, where nobody is told of a version."""
    story.begin()
    story.fire(10, job=1)
    story.commit(committed)
    story.begin(15, state="cancelled")
    story.ask(14.9, 15.5, "cancel_schedule", {})
    story.begin(25)
    story.fire(30, job=2)
    story.commit(30.1)
    found = story.found("by-the-rule-in-force")
    assert ["by its version 1" in each for each in found] == [True] * many


def test_whoever_cancels_what_was_cancelled_before_speaks_of_that(story: Story) -> None:
    """And not of the cancel that came while it waited for its answer."""
    story.begin()
    story.begin(10, state="cancelled")
    story.begin(18)
    story.fire(20, job=1)
    story.commit(22)
    story.begin(21, state="cancelled")
    story.ask(17, 21.5, "cancel_schedule", {})
    assert not story.found("by-the-rule-in-force")


@pytest.mark.parametrize(("asked", "answered", "many"), [(11, 13, 0), (13, 14, 1), (8, 11, 1)])
def test_a_redrive_comes_between_its_request_and_its_answer(
    story: Story, asked: float, answered: float, many: int
) -> None:
    story.job(5, 1)
    story.end(6, 1)
    story.job(12, 1)
    story.ask(asked, answered, "redrive", {"jobs": [{"id": 1, "revived": True}]}, ids=[1])
    found = [each for each in story.found("acknowledged-survives") if "did not come back" in each]
    assert len(found) == many
