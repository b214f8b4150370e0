"""How long nothing was done, although nothing had been done to those who were to do it."""

from collections.abc import Iterable, Iterator

from sexton.torture.check.calendars import names
from sexton.torture.check.charge import Held
from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change

# What befell somebody before may still hold it up: a lease that ends, a dead connection, a start.
# Of the time beyond that there may be so much, all in all. Of 10,081 schedules that were moved on
# more than a second after their instant, in two runs of 15 minutes, the worst had 1.2 s of it.
RECOVERS = 5 * SECOND
UNTROUBLED = 5 * SECOND
# Those that are late are caught up with at a rate, which is never less than so many a second. Of
# 4,690 none waited, beyond what was done to anybody, for longer than those before it took.
A_SECOND = 50
# A transaction that is idle for ten seconds is ended, and what it had locked is free.
LETS_GO = 10 * SECOND


class Silences:
    """Fed with where schedules stand; says when one was moved on too late, and for no reason."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._began: int = evidence.folder.run.get("began_at") or 0
        self._late: dict[int, tuple[int, int]] = {}  # since when, and how many were caught up with
        self._caught_up = 0
        self.many = 0  # that took long enough to be looked at

    def broken_by(self, change: Change) -> str | None:
        """What is wrong with how long this took: from its instant until it is fired, or taken for
        late; and from then on until it is decided."""
        was, now = change.was, change.now
        if was["late"]:
            return self._caught_up_with(change) if was["next"] != now["next"] else None
        if now["late"]:
            self._late[change.id] = (change.at, self._caught_up)
        if was["next"] is None or (was["next"] == now["next"] and not now["late"]):
            return None
        # Before everybody had been started there was nobody to fire it.
        alone = self._alone(change, max(was["next"], self._began))
        if alone <= UNTROUBLED:
            return None
        late = (change.at - was["next"]) / SECOND
        return f"it was moved on {late:.1f} s late, and {_nothing(alone)}"

    def _caught_up_with(self, change: Change) -> str | None:
        since, before = self._late.pop(change.id, (change.at, self._caught_up))
        others = self._caught_up - before
        self._caught_up += 1
        if change.now["late"]:
            self._late[change.id] = (change.at, self._caught_up)
        alone = self._alone(change, since)
        if alone <= UNTROUBLED + others * SECOND // A_SECOND:
            return None
        waited = f"it was late for {(change.at - since) / SECOND:.1f} s"
        return f"{waited}, while {others} others were decided, and {_nothing(alone)}"

    def _alone(self, change: Change, since: int) -> int:
        if change.at - since <= UNTROUBLED:
            return 0
        self.many += 1
        held = self._evidence.world.charge.of(change.id, since - RECOVERS, change.at)
        return untroubled(self._evidence, since, change.at, held, self._locked(change, since))

    def _locked(self, change: Change, since: int) -> Iterator[tuple[int, int]]:
        """Who changes a calendar holds all schedules that go by it until its end."""
        schedule = self._evidence.world.schedules.get(change.id)
        if schedule is not None and names(schedule.current):
            for each in self._evidence.editor_troubles(since - LETS_GO, change.at):
                yield each.began, each.ended + LETS_GO


def untroubled(
    evidence: Evidence,
    first: int,
    last: int,
    held: Iterable[Held] = (),
    locked: Iterable[tuple[int, int]] = (),
) -> int:
    """How much of that time PostgreSQL, the host, the nodes together, and each of those who were
    in charge while it was, had been left alone, and nobody may have had it locked."""
    around = (first - RECOVERS, last)
    spans = [*locked]
    spans += [(each.began, each.ended + RECOVERS) for each in evidence.all_troubles(*around)]
    # After a promotion commits wait until the next standby is there, which may take a while.
    spans += [(each.began, each.ended) for each in evidence.unsynced]
    for node, since, until in held:
        for each in evidence.node_troubles(node, *around):
            # Whoever comes after it has as long as itself; before and after is nothing to it.
            began, ended = max(each.began, since), min(each.ended, until) + RECOVERS
            if began < ended:
                spans.append((began, ended))
    alone, reached = 0, first
    for began, ended in sorted(spans):
        if ended > reached:
            alone += max(0, min(began, last) - reached)
            reached = ended
    return alone + max(0, last - reached)


def _nothing(alone: int) -> str:
    return f"for {alone / SECOND:.1f} s nothing had happened to whoever was to do it"
