"""Fires that were passed over: they were there, and as many as was said."""

from typing import NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.things import Schedule, Version
from sexton.torture.check.when import Rule

# Which fire is the latest, and whether it is in its grace, is decided by a clock that was read a
# moment before: in 28,000 cases at most 1.9 s.
DECIDES_WITHIN = 5 * SECOND


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
