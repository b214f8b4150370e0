"""From schedules that are due, or late, to what is to be written about each."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeVar

from sexton.domain.fires import CatchUp, Gap, catch_up, closed_between
from sexton.domain.job import instant
from sexton.domain.schedule import Rule
from sexton.domain.when.effort import NEXT_FIRE, at_most
from sexton.domain.when.timetable import Timetable
from sexton.store.due import Batch, DueRow

T = TypeVar("T")
# By rule, instant and anchor: the fire that follows, and what the calendars take out before it.
Answers = dict[tuple[int, float, float], tuple[datetime | None, Gap | None]]

# After so long (s) the others on this loop have their turn.
TURN = 0.005
# Answers that are kept: as many as a node reads ahead, and as many again.
KEPT = 10_000


@dataclass(slots=True)
class Decisions:
    """A batch to be written, and schedules that cannot be computed with the reason."""

    batch: Batch = field(default_factory=Batch)
    broken: list[tuple[DueRow, str]] = field(default_factory=list)


def decide_due(rows: Sequence[DueRow], rules: Mapping[int, Rule | str]) -> Decisions:
    """Fire each at its time and go on to its next; each distinct question is answered once."""
    decisions = Decisions()
    for _ in _due(decisions, rows, rules):
        pass
    return decisions


async def decide_due_in_turns(rows: Sequence[DueRow], rules: Mapping[int, Rule | str]) -> Decisions:
    """The same; others on this loop, such as whoever renews a lease, have their turn between."""
    decisions = Decisions()
    await _in_turns(_due(decisions, rows, rules))
    return decisions


def decide_late(
    rows: Sequence[DueRow], rules: Mapping[int, Rule | str], now: datetime
) -> Decisions:
    """What the misfire policy says about each schedule that is behind."""
    decisions = Decisions()
    for _ in _late(decisions, rows, rules, now):
        pass
    return decisions


async def decide_late_in_turns(
    rows: Sequence[DueRow], rules: Mapping[int, Rule | str], now: datetime
) -> Decisions:
    """The same, and others have their turn between."""
    decisions = Decisions()
    await _in_turns(_late(decisions, rows, rules, now))
    return decisions


async def in_turns(steps: Iterable[T]) -> AsyncIterator[T]:
    """One after the other; others on this loop have their turn between."""
    began = time.perf_counter()
    for each in steps:
        yield each
        if time.perf_counter() - began > TURN:
            await asyncio.sleep(0)
            began = time.perf_counter()


async def _in_turns(steps: Iterator[None]) -> None:
    """The same where each step is so short that an iteration of ours would be felt."""
    began = time.perf_counter()
    for _ in steps:
        if time.perf_counter() - began > TURN:
            await asyncio.sleep(0)
            began = time.perf_counter()


def _due(
    decisions: Decisions, rows: Sequence[DueRow], rules: Mapping[int, Rule | str]
) -> Iterator[None]:
    answers: Answers = {}
    for row in rows:
        yield
        rule = rules[row.rule]
        try:
            if isinstance(rule, str):
                decisions.broken.append((row, rule))
            elif rule.timetable.is_quick:
                _fire(decisions.batch, row, rule, answers)
            else:
                with at_most(NEXT_FIRE):
                    _fire(decisions.batch, row, rule, answers)
        except Exception as error:
            decisions.broken.append((row, _why(error)))


def _fire(batch: Batch, row: DueRow, rule: Rule, answers: Answers) -> None:
    scheduled = row.next_fire if row.scheduled is None else row.scheduled
    timetable = rule.timetable
    anchored = row.anchor if timetable.needs_anchor else 0.0
    question = (row.rule, scheduled, anchored)
    answer = answers.get(question)
    if answer is None:
        if timetable.has_calendars:
            answer = _following(timetable, scheduled, anchored)
        else:
            answer = timetable.after(instant(scheduled), instant(row.anchor)), None
        answers[question] = answer
    following, out = answer
    _write(batch, row, rule, scheduled, row.next_fire, following, late_until=None)
    if out is not None:
        _pass_over(batch, row, out)


@lru_cache(maxsize=KEPT)
def _following(
    timetable: Timetable, scheduled: float, anchor: float
) -> tuple[datetime | None, Gap | None]:
    """The fire after one, past the calendars, and what they take out between. Kept, because what is
    due soon is read and decided again whenever a node wakes."""
    at, begins = instant(scheduled), instant(anchor)
    following = timetable.after(at, begins)
    return following, closed_between(timetable, at, following, begins)


def _late(
    decisions: Decisions,
    rows: Sequence[DueRow],
    rules: Mapping[int, Rule | str],
    now: datetime,
) -> Iterator[None]:
    answers: dict[tuple[int, float, float, int], CatchUp] = {}
    for row in rows:
        yield
        rule = rules[row.rule]
        if isinstance(rule, str):
            decisions.broken.append((row, rule))
            continue
        scheduled = row.next_fire if row.scheduled is None else row.scheduled
        anchored = row.anchor if rule.timetable.needs_anchor else 0.0
        # How late a fire is depends on its jitter, which is each schedule's own.
        seed = row.id if rule.timetable.has_jitter else 0
        question = (row.rule, scheduled, anchored, seed)
        try:
            with at_most(NEXT_FIRE):
                answer = answers.get(question)
                if answer is None:
                    answer = catch_up(rule, instant(scheduled), now, instant(row.anchor), seed)
                    answers[question] = answer
                fire_at = None
                if answer.fire is not None:
                    at = rule.timetable.fire_at(answer.fire, instant(row.anchor), row.id)
                    fire_at, scheduled = at.timestamp(), answer.fire.timestamp()
                _write(
                    *(decisions.batch, row, rule, scheduled, fire_at, answer.next),
                    late_until=now.timestamp(),
                )
        except Exception as error:
            decisions.broken.append((row, _why(error)))
            continue
        for gap in answer.gaps:
            _pass_over(decisions.batch, row, gap)


def _write(
    batch: Batch,
    row: DueRow,
    rule: Rule,
    scheduled: float,
    fire_at: float | None,
    following: datetime | None,
    late_until: float | None,
) -> None:
    """One line of the batch; without a fire it is only moved on. Computed first, then written."""
    next_at = next_scheduled = None
    if following is not None:
        next_at = following.timestamp()
        if rule.timetable.has_jitter:
            next_scheduled = next_at
            jittered = rule.timetable.fire_at(following, instant(row.anchor), row.id)
            next_at = jittered.timestamp()
    watched = rule.live_limit is not None
    batch.ids.append(row.id)
    batch.stamps.append(row.stamp)
    batch.were_due.append(row.next_fire)
    batch.firing.append(fire_at is not None)
    batch.fires_at.append(row.next_fire if fire_at is None else fire_at)
    batch.scheduled_for.append(scheduled)
    batch.next_at.append(next_at)
    batch.next_scheduled.append(next_scheduled)
    batch.stay_late.append(late_until is not None and next_at is not None and next_at <= late_until)
    batch.latest_jobs.append(row.last_job if watched else None)
    batch.other_jobs.append(row.live if watched else None)
    batch.live_limits.append(rule.live_limit)
    batch.serials.append(rule.serial)


def _pass_over(batch: Batch, row: DueRow, gap: Gap) -> None:
    batch.gap_ids.append(row.id)
    batch.gaps_first.append(gap.first.timestamp())
    batch.gaps_last.append(gap.last.timestamp())
    batch.gaps_fires.append(gap.fires)
    batch.gaps_decision.append(gap.decision)


def _why(error: Exception) -> str:
    return f"its next fire cannot be computed: {type(error).__name__}: {error}"
