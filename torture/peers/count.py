"""What became of every due fire: missed, run once, run twice; and how soon all was well again."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field

from torture.peers.effects import Run
from torture.peers.workload import Schedule

# A fire is prompt if it began within so many seconds; what begins later was held up. A fire that
# was due this little before a fault may be its victim.
PROMPT = 3.0


@dataclass(frozen=True)
class Happened:
    """A fault that happened. `over_at` is when nothing external stood in the way any more.

    That is when PostgreSQL took connections again; for a process that was killed or frozen it is
    the very beginning, because the others were well.
    """

    kind: str
    began_at: float
    over_at: float


@dataclass
class Fire:
    """One due instant of one schedule, and the runs that were for it."""

    schedule: Schedule
    due: int
    runs: list[Run] = field(default_factory=list)

    @property
    def completed(self) -> list[Run]:
        return [run for run in self.runs if run.ended_at is not None]

    @property
    def missed(self) -> bool:
        return not self.completed

    @property
    def cut_off(self) -> bool:
        """It began, was cut off by a fault, and nobody began again."""
        return bool(self.runs) and self.missed

    @property
    def twice(self) -> bool:
        """More than one effect, and not just by attempts at one and the same job."""
        return len({run.job or id(run) for run in self.completed}) > 1

    @property
    def rerun(self) -> bool:
        """More than one effect of one job: its worker seemed dead when it was not, or was late."""
        return len(self.completed) > 1 and not self.twice

    @property
    def lag(self) -> float:
        """From due to the first beginning that led to an effect."""
        return min((run.began_at for run in self.completed), default=math.inf) - self.due

    @property
    def prompt(self) -> bool:
        """It began in time, whatever became of it."""
        return any(run.began_at - self.due <= PROMPT for run in self.runs)

    @property
    def extra_at(self) -> float:
        """When the run began that was one too many."""
        return sorted(run.began_at for run in self.completed)[1]


@dataclass(frozen=True)
class Tally:
    """Some fires, counted."""

    due: int = 0
    missed: int = 0
    cut_off: int = 0
    twice: int = 0
    rerun: int = 0

    @classmethod
    def of(cls, fires: Iterable[Fire]) -> Tally:
        fires = list(fires)
        return cls(
            due=len(fires),
            missed=sum(fire.missed for fire in fires),
            cut_off=sum(fire.cut_off for fire in fires),
            twice=sum(fire.twice for fire in fires),
            rerun=sum(fire.rerun for fire in fires),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    @property
    def harmed(self) -> int:
        """Everybody was asked for every fire, once."""
        return self.missed + self.twice


@dataclass(frozen=True)
class Gap:
    """How long after a fault a fire was still missed or late; `open` if the next came first."""

    kind: str
    seconds: float
    open: bool


def fires(
    schedules: Iterable[Schedule], runs: Iterable[Run], begin: int, end: int
) -> tuple[list[Fire], int]:
    """Every due fire of the stretch with its runs, and how many runs nothing was due for."""
    by_schedule: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_schedule[run.schedule].append(run)
    found: list[Fire] = []
    stray = 0
    for schedule in schedules:
        by_due = {due: Fire(schedule, due) for due in schedule.due(begin, end)}
        for due, run in _identified(schedule, by_schedule[schedule.name]):
            if due in by_due:
                by_due[due].runs.append(run)
            elif begin <= due < end:
                stray += 1
        found += by_due.values()
    return found, stray


def _identified(schedule: Schedule, runs: list[Run]) -> Iterable[tuple[int, Run]]:
    """Each run with its due instant: as its system says or, without that, by when it was taken.

    A run that was taken in a stretch which had its run already counts for the one before it, if
    that had none: in doubt it was late, and not a double.
    """
    taken: set[int] = set()
    for run in sorted(runs, key=lambda run: run.taken_at or run.began_at):
        if run.fire_at is not None:
            yield run.fire_at, run
            continue
        due = schedule.due_at(run.taken_at or run.began_at)
        if due in taken and due - schedule.every not in taken:
            due -= schedule.every
        taken.add(due)
        yield due, run


def fallen(fires: Iterable[Fire], faults: Sequence[Happened]) -> list[Tally]:
    """What fell to the calm before all faults, and to each of them: the one that came last before.

    Roughly its doing, or that of one not long before it.
    """
    begins = [fault.began_at for fault in faults]
    groups: list[list[Fire]] = [[] for _ in range(len(faults) + 1)]
    for fire in fires:
        # A fire may fall to a fault that comes just after it; a double is made when it is made.
        when = fire.extra_at if fire.twice or fire.rerun else fire.due + PROMPT * fire.missed
        groups[bisect_right(begins, when)].append(fire)
    return [Tally.of(group) for group in groups]


def gaps(fires: Sequence[Fire], faults: Sequence[Happened], end: int) -> list[Gap]:
    """For each fault, how long it was until every fire began promptly again, up to the next."""
    found = []
    for number, fault in enumerate(faults):
        until = faults[number + 1].began_at if number + 1 < len(faults) else float(end)
        late = [fire.due for fire in fires if fault.over_at <= fire.due < until and not fire.prompt]
        seconds = max(late) - fault.over_at if late else 0.0
        found.append(Gap(fault.kind, seconds, bool(late) and until - max(late) < PROMPT))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """Of values that need not be sorted; 0 of none."""
    if not values:
        return 0.0
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
