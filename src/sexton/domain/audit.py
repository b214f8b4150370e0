"""What the schedules promised against what the ledger says. Pure; instants in microseconds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, zip_longest
from typing import Literal, NamedTuple, get_args

from sexton.domain.expected import SECOND, Promised, Version, instant

Wrong = Literal["missing", "doubled", "early", "unexpected", "lost"]
WRONGS: tuple[Wrong, ...] = get_args(Wrong)

SHOWN = 20
MOST_UNCHECKED = 1000
# A schedule so far behind is late but for a moment; more, and somebody must be catching it up.
PATIENCE = 30 * SECOND
_BY_RULE = ("due", "catch_up")

# A row of the ledger: fire_at, the lag from then to its decision, the decision, and the kind.
Decided = tuple[int, int, str, str]


class Passed(NamedTuple):
    """Fires that were passed over together; `fires` is None if nobody counted them."""

    first: int
    last: int
    decision: str
    fires: int | None
    begins_here: bool = True  # and not in a slice before


class Stray(NamedTuple):
    """A job of a fire for which the ledger names another job, or none, or has nothing."""

    schedule: int
    fire: int
    job: int
    named: int | None
    decision: str | None


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that was broken, and in words how."""

    what: Wrong
    schedule: str
    fire_at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A schedule that nobody can vouch for: its rule cannot be computed, or it broke."""

    schedule: str
    why: str


@dataclass(frozen=True, slots=True)
class Lag:
    """From the instant of a fire to its decision, in seconds; None if there were no fires."""

    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of an audit.

    `expected` is what the schedules promised: the decisions, what is missing and what is pending
    add up to it. `passed_over` is what was not promised: while paused, or by a calendar.
    """

    from_: datetime
    to: datetime
    schedules: int
    expected: int
    fired: int
    missing: int
    doubled: int
    early: int
    unexpected: int
    lost: int
    pending: int
    lag: Lag
    catch_up_lag: Lag
    decisions: dict[str, int]
    passed_over: dict[str, int]
    kinds: dict[str, int]
    violations: tuple[Violation, ...]  # the first of them
    unchecked: tuple[Unchecked, ...]

    @property
    def clean(self) -> bool:
        """Every fire has its one decision, none came before its time, and each has its job."""
        wrong = self.missing or self.doubled or self.early or self.unexpected or self.lost
        return not wrong


class Lags:
    """Any number of lags in little room: each to about three digits, the largest exactly."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._max = 0

    def add(self, lags: Sequence[int]) -> None:
        if lags:
            self._counts.update(map(_rounded, lags))
            self._max = max(self._max, max(lags))

    def summary(self) -> Lag:
        if not self._counts:
            return Lag(None, None, None)
        return Lag(self._at(50), self._at(99), self._max / SECOND)

    def _at(self, percent: int) -> float:
        """By the nearest rank."""
        rank = -(-self._counts.total() * percent // 100)
        for lag in sorted(self._counts):
            rank -= self._counts[lag]
            if rank <= 0:
                return lag / SECOND
        raise AssertionError("the last one has the highest rank")


def _rounded(lag: int) -> int:
    if -1024 < lag < 1024:
        return lag
    cut = lag.bit_length() - 10
    return lag >> cut << cut


class Auditor:
    """Adds up what was found, schedule by schedule."""

    def __init__(self, now: int, strays: Iterable[Stray] = (), *, led: bool = True) -> None:
        self.now = now
        self.led = led
        self.schedules = 0
        self.expected = self.fired = self.pending = 0
        self.lag, self.catch_up_lag = Lags(), Lags()
        self.decisions: Counter[str] = Counter()
        self.passed_over: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.wrong: Counter[Wrong] = Counter()
        self.unchecked: dict[int, str] = {}
        self._violations: dict[Wrong, list[tuple[int, int, str]]] = {each: [] for each in WRONGS}
        self._strays: dict[tuple[int, int], list[Stray]] = {}
        for stray in strays:
            self._strays.setdefault((stray.schedule, stray.fire), []).append(stray)

    def check(
        self,
        schedule: int,
        promised: Promised,
        decided: Sequence[Decided],
        passed: Sequence[Passed],
        current: Version | None,
    ) -> None:
        """One schedule, one slice: both rows are in order, so they are gone through together."""
        fires = promised.fires
        many = len(fires)
        at = 0
        lags: dict[str, list[int]] = {"due": [], "catch_up": [], "backfill": [], "trigger": []}
        open_: list[int] = []
        for fire, lag, decision, kind in decided:
            while at < many and fires[at] < fire:
                open_.append(at)
                at += 1
            promised_too = at < many and fires[at] == fire
            if decision == "fired":
                lags[kind].append(lag)
                if promised_too:
                    self.fired += 1
                elif kind in _BY_RULE:
                    why = "it was fired, though no version of the schedule has it"
                    self._found("unexpected", schedule, fire, why)
                if lag < 0 and kind != "trigger":
                    why = f"it was fired {-lag / SECOND:g} s before its time"
                    self._found("early", schedule, fire, why)
            elif promised_too:
                self.decisions[decision] += 1
            at += promised_too
        open_ += range(at, many)
        self.expected += many
        self.lag.add(lags["due"])
        self.catch_up_lag.add(lags["catch_up"])
        for kind, each in lags.items():
            if each:
                self.kinds[kind] += len(each)
        covered: Counter[Passed] = Counter()
        if open_:
            covered = self._check_open(schedule, promised, open_, passed, current)
        for gap in passed:
            # A gap may begin in one slice and end in another: it is counted where it begins.
            if gap.decision in ("paused", "excluded") and gap.begins_here:
                self.passed_over[gap.decision] += max(0, (gap.fires or 0) - covered[gap])

    def _check_open(
        self,
        schedule: int,
        promised: Promised,
        open_: Iterable[int],
        passed: Sequence[Passed],
        current: Version | None,
    ) -> Counter[Passed]:
        """Fires without a row of their own: passed over, by which gap, on their way, or missing."""
        covered: Counter[Passed] = Counter()
        # What calendars took out was not promised, so it cannot account for what was.
        passed = [gap for gap in passed if gap.decision != "excluded"]
        for nth in open_:
            fire, scheduled = promised.fires[nth], promised.scheduled[nth]
            for gap in passed:
                if gap.first <= scheduled <= gap.last:
                    self.decisions[gap.decision] += 1
                    covered[gap] += 1
                    break
            else:
                if current is not None and self._is_coming(fire, current):
                    self.pending += 1
                else:
                    self._missing(schedule, fire, current)
        return covered

    def _is_coming(self, fire: int, current: Version) -> bool:
        """Whether the schedule stands at this fire or before it, and somebody sees to it."""
        stands = current.next_fire
        if stands is None or stands > fire:
            return False
        return (current.late and self.led) or self.now - stands < PATIENCE

    def _missing(self, schedule: int, fire: int, current: Version | None) -> None:
        made = self._strays.pop((schedule, fire), [])
        if made:
            why = f"the ledger says nothing about it, though job {made[0].job} was made for it"
            if made[1:]:
                self._strays[schedule, fire] = made[1:]
        elif current is None or current.next_fire is None or current.next_fire > fire:
            why = "the ledger says nothing about it, and the schedule has moved on"
        else:
            behind = (self.now - current.next_fire) / SECOND
            why = f"nothing was decided: the schedule is {behind:.0f} s behind, nobody catches up"
        self._found("missing", schedule, fire, why)

    def job_is_lost(self, schedule: int, fire: int, job: int | None) -> None:
        """One that the ledger says was fired."""
        why = "it was fired, and the ledger names no job"
        if job is not None:
            why = f"it was fired, and its job {job} is neither live nor dead nor in the history"
        self._found("lost", schedule, fire, why)

    def cannot_check(self, schedule: int, why: str) -> None:
        if len(self.unchecked) < MOST_UNCHECKED:
            self.unchecked.setdefault(schedule, why)

    def concerned(self) -> set[int]:
        """The schedules that the result will name; nothing is checked after this."""
        self._settle_strays()
        found = chain.from_iterable(self._violations.values())
        return {schedule for _, schedule, _ in found} | {*self.unchecked}

    def result(self, from_: int, to: int, names: Mapping[int, str]) -> Audit:
        def named(schedule: int) -> str:
            return names.get(schedule, f"#{schedule}")

        return Audit(
            instant(from_),
            instant(to),
            self.schedules,
            self.expected,
            self.fired,
            self.wrong["missing"],
            self.wrong["doubled"],
            self.wrong["early"],
            self.wrong["unexpected"],
            self.wrong["lost"],
            self.pending,
            self.lag.summary(),
            self.catch_up_lag.summary(),
            {"fired": self.fired, **dict(sorted(self.decisions.items()))},
            dict(sorted(self.passed_over.items())),
            dict(self.kinds),
            tuple(
                Violation(wrong, named(schedule), instant(fire), why)
                for wrong, (fire, schedule, why) in self._first()
            ),
            tuple(Unchecked(named(schedule), why) for schedule, why in self.unchecked.items()),
        )

    def _settle_strays(self) -> None:
        """Every job that is left is one too many for its fire."""
        for each in chain.from_iterable(self._strays.values()):
            if each.named is not None:
                why = f"job {each.job} was made for it too, beside job {each.named}"
            elif each.decision is not None:
                why = f"job {each.job} was made for it, though the ledger says {each.decision}"
            else:
                why = f"job {each.job} says that it is of this fire, which the ledger does not have"
            self._found("doubled", each.schedule, each.fire, why)
        self._strays.clear()

    def _found(self, wrong: Wrong, schedule: int, fire: int, why: str) -> None:
        self.wrong[wrong] += 1
        if len(self._violations[wrong]) < SHOWN:
            self._violations[wrong].append((fire, schedule, why))

    def _first(self) -> list[tuple[Wrong, tuple[int, int, str]]]:
        """Some of each kind, rather than twenty of the one that comes first."""
        rows = [[(wrong, each) for each in self._violations[wrong]] for wrong in WRONGS]
        turns = [each for turn in zip_longest(*rows) for each in turn if each is not None]
        return sorted(turns[:SHOWN], key=lambda each: each[1])
