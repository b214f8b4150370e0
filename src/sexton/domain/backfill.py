"""A stretch of a schedule's past, fired by whatever it said at each instant."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sexton.domain.schedule import Rule
from sexton.domain.when.timetable import Planned


@dataclass(frozen=True, slots=True)
class BackfillView:
    """A backfill as anyone may look at it; it has come as far as `next_at`."""

    id: int
    schedule: str
    from_at: datetime
    to_at: datetime
    next_at: datetime
    rate: float
    created_at: datetime
    finished_at: datetime | None
    fired: int
    skipped: int

    @property
    def cancelled(self) -> bool:
        """It ended before its end."""
        return self.finished_at is not None and self.next_at < self.to_at


@dataclass(frozen=True, slots=True)
class Era:
    """What a schedule said from one instant, itself not in it, to another; None: no fires."""

    since: datetime | None
    until: datetime | None
    rule: Rule | None
    anchor: datetime
    task: str
    payload: str


@dataclass(frozen=True, slots=True)
class PastFire:
    """A fire of the past, as it would have been made."""

    planned: Planned
    task: str
    payload: str


def past_fires(
    eras: Sequence[Era], after: datetime, until: datetime, limit: int, seed: int
) -> tuple[list[PastFire], bool]:
    """Those with after < scheduled_at < until, at most so many; and whether that is all.

    One whose jitter takes it to `until` or beyond is not of the past yet.
    """
    found: list[PastFire] = []
    for era in eras:
        if era.until is not None and era.until <= after:
            continue
        if era.since is not None and era.since >= until:
            break
        at = after if era.since is None else max(after, era.since)
        while era.rule is not None:
            scheduled = era.rule.timetable.after(at, era.anchor)
            if scheduled is None or scheduled >= until:
                break
            if era.until is not None and scheduled > era.until:
                break
            if len(found) == limit:
                return found, False
            fire_at = era.rule.timetable.fire_at(scheduled, era.anchor, seed)
            if fire_at < until:
                found.append(PastFire(Planned(scheduled, fire_at), era.task, era.payload))
            at = scheduled
    return found, True
