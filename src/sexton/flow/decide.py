"""From schedules that are due, or late, to what is to be written about each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sexton.domain.fires import CatchUp, Gap, catch_up, excluded_between
from sexton.domain.job import instant
from sexton.domain.schedule import Rule
from sexton.store.due import Batch, DueRow


@dataclass(slots=True)
class Decisions:
    """A batch to be written, and schedules that cannot be computed with the reason."""

    batch: Batch = field(default_factory=Batch)
    broken: list[tuple[DueRow, str]] = field(default_factory=list)


def decide_due(rows: Sequence[DueRow], rules: Mapping[int, Rule | str]) -> Decisions:
    """Fire each at its time and go on to its next; each distinct question is answered once."""
    decisions = Decisions()
    answers: dict[tuple[int, float, float], tuple[datetime | None, Gap | None]] = {}
    for row in rows:
        rule = rules[row.rule]
        if isinstance(rule, str):
            decisions.broken.append((row, rule))
            continue
        scheduled = row.next_fire if row.scheduled is None else row.scheduled
        timetable = rule.timetable
        question = (row.rule, scheduled, row.anchor if timetable.needs_anchor else 0.0)
        try:
            answer = answers.get(question)
            if answer is None:
                at, anchor = instant(scheduled), instant(row.anchor)
                following = timetable.after(at, anchor)
                out = None
                if timetable.has_calendars:
                    out = excluded_between(timetable, at, following, anchor)
                answer = answers[question] = (following, out)
            following, out = answer
            _write(decisions.batch, row, rule, scheduled, row.next_fire, following, late_until=None)
        except Exception as error:
            decisions.broken.append((row, _why(error)))
            continue
        if out is not None:
            _pass_over(decisions.batch, row, out)
    return decisions


def decide_late(
    rows: Sequence[DueRow], rules: Mapping[int, Rule | str], now: datetime
) -> Decisions:
    """What the misfire policy says about each schedule that is behind."""
    decisions = Decisions()
    answers: dict[tuple[int, float, float], CatchUp] = {}
    for row in rows:
        rule = rules[row.rule]
        if isinstance(rule, str):
            decisions.broken.append((row, rule))
            continue
        scheduled = row.next_fire if row.scheduled is None else row.scheduled
        anchored = row.anchor if rule.timetable.needs_anchor else 0.0
        question = (row.rule, scheduled, anchored)
        try:
            answer = answers.get(question)
            if answer is None:
                answer = catch_up(rule, instant(scheduled), now, instant(row.anchor))
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
    return decisions


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
