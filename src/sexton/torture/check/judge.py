"""The whole of it: replay, look, and say what was found."""

import gc
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from sexton.torture.check.asks import AcknowledgedSurvives
from sexton.torture.check.complete import cut_short, not_checked
from sexton.torture.check.decided import EveryFireDecided
from sexton.torture.check.effects import EffectsApart, EffectsOnce, IdempotencyKey
from sexton.torture.check.ends import EndsHaveReasons
from sexton.torture.check.evidence import Evidence
from sexton.torture.check.figure import Figure
from sexton.torture.check.fires import ByTheRuleInForce, NoneEarly, OneJobPerFire
from sexton.torture.check.folder import Change, Folder, Line
from sexton.torture.check.guards import NoStaleWrite
from sexton.torture.check.holding import LimitsKept, OneLiveJobPerKey
from sexton.torture.check.invariant import Invariant, Violation
from sexton.torture.check.liveness import Liveness
from sexton.torture.check.lives import AttemptsInBounds, NothingLost, TerminalIsTerminal
from sexton.torture.check.ownership import OneOwner
from sexton.torture.check.policy import OverlapPolicy, ReasonsHold
from sexton.torture.check.rates import CatchUpRate, FullJitter
from sexton.torture.check.recalendared import CalendarsFollowed
from sexton.torture.check.starving import NothingStarves
from sexton.torture.check.tenants import TenantsApart
from sexton.torture.check.timeline import Timeline

INVARIANTS: tuple[type[Invariant], ...] = (
    OneJobPerFire,
    EveryFireDecided,
    ReasonsHold,
    NoneEarly,
    ByTheRuleInForce,
    OverlapPolicy,
    NoStaleWrite,
    OneOwner,
    TerminalIsTerminal,
    AttemptsInBounds,
    EndsHaveReasons,
    EffectsApart,
    EffectsOnce,
    IdempotencyKey,
    AcknowledgedSurvives,
    CalendarsFollowed,
    NothingLost,
    OneLiveJobPerKey,
    LimitsKept,
    CatchUpRate,
    FullJitter,
    TenantsApart,
    NothingStarves,
)
SHOWN = 20


class Verdict:
    """What was checked, what was violated, how long things took, and what happened around it."""

    def __init__(
        self,
        evidence: Evidence,
        invariants: list[Invariant],
        live: Liveness,
        not_checked: Iterable[str],
    ) -> None:
        self.evidence = evidence
        self.invariants = invariants
        self.figures: list[Figure] = live.figures()
        self.counts: dict[str, int] = live.counts()
        self.decisions: dict[str, int] = dict(live.decisions.most_common())
        self.unclear = dict(evidence.unclear)
        self.not_checked = [*not_checked]

    @property
    def violations(self) -> int:
        return sum(each.count for each in self.invariants)

    @property
    def clean(self) -> bool:
        """Everything was looked at, and nothing found."""
        return not self.violations and not self.not_checked

    @property
    def violated(self) -> set[str]:
        """The names of the invariants that do not hold."""
        return {each.name for each in self.invariants if each.count}

    @property
    def shown(self) -> list[Violation]:
        """Some of each, rather than twenty of the one that comes first."""
        found: list[Violation] = []
        longest = max((len(each.violations) for each in self.invariants), default=0)
        for nth in range(longest):
            found += [
                each.violations[nth] for each in self.invariants if nth < len(each.violations)
            ]
        return sorted(found[:SHOWN], key=lambda each: each.at)

    @cached_property
    def timelines(self) -> list[tuple[Violation, list[str]]]:
        """Each with what happened around it; goes through the folder once more."""
        shown = self.shown
        return [*zip(shown, Timeline(self.evidence, shown).tell(), strict=True)]


def judge(path: Path) -> Verdict:
    """Check a run's folder."""
    collected = gc.isenabled()
    gc.disable()  # nothing here goes round in circles, and there are millions of small things
    try:
        return _judge(path)
    finally:
        if collected:
            gc.enable()


def _judge(path: Path) -> Verdict:
    folder = Folder(path)
    evidence = Evidence(folder)
    invariants = [each(evidence) for each in INVARIANTS]
    live = Liveness(evidence)
    if why := [*cut_short(folder)]:
        return Verdict(evidence, invariants, live, why)
    watching: dict[str, list[Callable[[Change], None]]] = {}
    everybody: list[Invariant | Liveness] = [*invariants, live]
    for change in folder.changes():
        tab = change.tab
        watchers = watching.get(tab)
        if watchers is None:
            names = [getattr(each, f"on_{tab}", None) for each in everybody]
            watchers = watching[tab] = [each for each in names if each is not None]
        for watch in watchers:
            watch(change)
        evidence.world.apply(change)
    usual = Invariant.on_effect
    hearing: list[Callable[[Line], None]] = [
        each.on_effect for each in invariants if type(each).on_effect is not usual
    ]
    for line in folder.effects():
        _hear(evidence, hearing, line)
    for each in invariants:
        each.finish()
    return Verdict(evidence, invariants, live, not_checked(evidence, invariants))


def _hear(evidence: Evidence, hearing: list[Callable[[Line], None]], line: Line) -> None:
    evidence.hear(line)
    for each in hearing:
        each(line)
