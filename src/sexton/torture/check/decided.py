"""Every due fire is fired or recorded with a reason; and none is decided twice."""

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate
from sys import intern

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.things import Schedule, Version
from sexton.torture.check.when import Rule

# What its calendars take out is recorded as far as the next fire: who has none in so long has none.
_FOLLOWED_WITHIN = 24 * 3600 * SECOND


class EveryFireDecided(Invariant):
    """Every due fire is fired, or recorded once with a reason; and so is what calendars took."""

    name = "every-fire-decided"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._rows: dict[int, dict[int, tuple[str, str]]] = defaultdict(dict)
        self._gaps: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._excluded: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def finish(self) -> None:
        for row in self.evidence.folder.dump("fire"):
            if row["kind"] != "trigger":
                decided = (intern(row["decision"]), intern(row["kind"]))
                self._rows[row["schedule"]][row["scheduled"]] = decided
        for gap in self.evidence.folder.dump("gap"):
            kept = self._excluded if gap["decision"] == "excluded" else self._gaps
            kept[gap["schedule"]].append((gap["first"], gap["last"]))
        for schedule in self.world.schedules.values():
            for version in schedule.versions:
                # What a pause leaves out is recorded when it ends.
                over = version.began_as == "paused" and version.until is not None
                if version.began_as == "active" or over:
                    self._look_at(schedule, version)
                if version.began_as == "paused" and version.ends is not None:
                    self._has_ended(schedule, version, version.ends)
            self._is_waited_for(schedule)

    def _look_at(self, schedule: Schedule, version: Version) -> None:
        rule = self.evidence.rule(schedule, version)
        if rule is None:
            return
        rows = self._rows.get(schedule.id, {})
        gaps = _Gaps(self._gaps.get(schedule.id, []))
        until = self._until(schedule, version)
        promised = rule.between(version.since, until)
        self.checked += len(promised)
        for at in promised:
            row = rows.get(at)
            passed = at in gaps
            if row is None and not passed:
                what = f"version {version.n} has this instant, and the ledger says nothing about it"
                self.violated(what, at, schedule=schedule.id)
            elif row is not None and passed and row[1] != "backfill":
                what = f"it is recorded as {row[0]}, and as passed over as well"
                self.violated(what, at, schedule=schedule.id)
        if version.began_as == "active":
            self._look_at_excluded(schedule, version, rule, until)

    def _look_at_excluded(
        self, schedule: Schedule, version: Version, rule: Rule, until: int
    ) -> None:
        """What calendars take out is recorded with the fire before it, if there is one after it.

        Whether it may have a decision of its own is for others to say.
        """
        rows, gaps = self._rows.get(schedule.id, {}), _Gaps(self._excluded.get(schedule.id, []))
        taken_out = rule.excluded(version.since, until)
        self.checked += len(taken_out)
        for at in taken_out:
            if at not in gaps and at not in rows and rule.between(at, at + _FOLLOWED_WITHIN):
                what = f"the calendars of version {version.n} take it out, and the ledger does not"
                self.violated(f"{what} say so", at, schedule=schedule.id)

    def _until(self, schedule: Schedule, version: Version) -> int:
        """The last instant that this version answers for."""
        if version.until is not None:
            until = version.until
        elif (stands_at := schedule.stands_at) is not None:
            until = stands_at - 1
        else:
            until = self.world.ended - SECOND
        return until if version.stops is None else min(until, version.stops)

    def _has_ended(self, schedule: Schedule, pause: Version, ends: int) -> None:
        """What is due after the end of a pause is not the pause's, however late that is noticed."""
        self.checked += 1
        by = self.evidence.settled_by
        if pause.until is not None and pause.until > max(ends, pause.since):
            late = (pause.until - ends) / SECOND
            what = f"its pause, version {pause.n}, reached {late:.1f} s beyond its end"
            self.violated(what, ends, schedule=schedule.id)
        elif pause.until is None and pause.state == "paused" and by is not None and ends < by:
            late = (self.evidence.stopped - ends) / SECOND
            what = f"at the end it is still paused, {late:.1f} s after its pause was to end"
            self.violated(what, ends, schedule=schedule.id)

    def _is_waited_for(self, schedule: Schedule) -> None:
        """What is next at the end must not be long overdue."""
        by, due = self.evidence.settled_by, schedule.next
        if by is None or due is None or schedule.current.state != "active":
            return
        self.checked += 1
        if due < by:
            late = (self.evidence.stopped - due) / SECOND
            what = f"nothing was decided: at the end it is {late:.1f} s behind, with no fault about"
            self.violated(what, due, schedule=schedule.id)


class _Gaps:
    """Answers whether one of the gaps that begin by an instant reaches it."""

    def __init__(self, gaps: list[tuple[int, int]]) -> None:
        gaps = sorted(gaps)
        self._firsts = [first for first, _ in gaps]
        self._furthest = [*accumulate((last for _, last in gaps), max)]

    def __contains__(self, at: int) -> bool:
        nth = bisect_right(self._firsts, at)
        return nth > 0 and self._furthest[nth - 1] >= at
