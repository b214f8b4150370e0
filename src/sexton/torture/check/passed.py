"""Fires that were passed over: they were there, and as many as was said."""

from typing import NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.things import Schedule, Version
from sexton.torture.check.when import Rule

# Which fire is the latest, and whether it is in its grace, is decided by a clock that was read a
# moment before: in 28,000 cases at most 1.9 s.
DECIDES_WITHIN = 5 * SECOND
# So many that were taken out are always counted.
FEW = 20


class Coalesced(NamedTuple):
    """Fires that another one stands for."""

    change: Change
    rule: Rule


class Passages:
    """Looks at each, and in the end for what those that were coalesced were coalesced into."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._coalesced: list[Coalesced] = []
        self._caught_up: dict[tuple[int, int], int] = {}  # instants, by schedule and transaction
        self._backfilled: set[tuple[int, int]] = set()  # schedules and instants

    def fired(self, change: Change) -> None:
        """A fire of the ledger."""
        if change.now["kind"] == "catch_up":
            self._caught_up[change.id, change.tx] = change.now["scheduled"]
        elif change.now["kind"] == "backfill":
            self._backfilled.add((change.id, change.now["scheduled"]))

    def wrong(self, schedule: Schedule, version: Version, change: Change) -> str | None:
        """What is not true of a gap, or of one fire that was passed over; None: all of it is."""
        now, rule = change.now, self._evidence.rule(schedule, version)
        first, last = (now["first"], now["last"]) if "first" in now else [now["scheduled"]] * 2
        if not first <= last <= now["decided"]:
            return "ends after it was decided, or before it begins"
        if first <= version.since or (version.until is not None and last > version.until):
            return f"reaches beyond its version {version.n}"
        if rule is None:
            return None
        if not (rule.has(first) and rule.has(last)):
            return f"is not from one instant of version {version.n} to another"
        fires = now.get("fires")
        if fires is not None and fires != (many := len(rule.between(first - 1, last))):
            return f"is of {many} fires, not of {fires}"
        if now["decision"] == "coalesced":
            self._coalesced.append(Coalesced(change, rule))
        return None

    def not_excluded(self, schedule: Schedule, versions: list[Version], change: Change) -> bool:
        """Whether a gap that calendars are said to have made is not of any of these versions."""
        rules = [(each, self._evidence.rule(schedule, each)) for each in versions]
        return all(
            rule is not None and not _is_excluded(version, rule, change.now)
            for version, rule in rules
        )

    def into_nothing(self) -> list[Change]:
        """Those that were coalesced into a fire that is not the next one, or into none."""
        return [each.change for each in self._coalesced if not self._stands_for(each)]

    def _stands_for(self, coalesced: Coalesced) -> bool:
        """The next instant was decided in the same transaction, or had been by a backfill."""
        change, rule = coalesced
        last = change.now["last"]
        made = self._caught_up.get((change.id, change.tx))
        if made is not None:
            return rule.between(last, made) == [made]
        following = rule.between(last, change.now["decided"])
        return bool(following) and (change.id, following[0]) in self._backfilled


def is_latest(rule: Rule, schedule: int, change: Change) -> bool:
    """Whether no later fire was due when this one was chosen to stand for all."""
    by = change.now["decided"] - DECIDES_WITHIN
    later = rule.between(change.now["scheduled"], by)
    return not any(rule.fires_at(schedule, at) <= by for at in later[:2])


def _is_excluded(version: Version, rule: Rule, now: Line) -> bool:
    """From the first instant that was taken out to the last, or, if these are too many to count,
    to the next fire."""
    first: int = now["first"]
    last: int = now["last"]
    fires: int | None = now["fires"]
    taken_out = rule.excluded(first - 1, last)
    if first <= version.since or taken_out[:1] != [first]:
        return False
    if fires is None:
        return len(taken_out) > FEW and rule.has(last + 1)
    return taken_out[-1] == last and len(taken_out) == fires
