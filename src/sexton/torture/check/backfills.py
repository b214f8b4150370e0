"""Backfills: each comes to its end, leaves nothing out, and is no faster than its rate."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Ask, Change, Line
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.things import Schedule, Version

# What one statement makes up for, if a leader was busy: a second's worth, and one fire at least.
BURST = 1.0
# Looked at in windows so long. When one begins a statement may be on its way with a burst of its
# own, another follows from what was saved up, and what a lost answer told, twice, is not deducted.
# Each leader has its own.
WINDOWS, BURSTS = (SECOND, 5 * SECOND, 20 * SECOND), 4


class Backfills:
    """As they are at the end, beside the ledger."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.instants = 0  # that were looked for

    def wrong(self, id: int, ask: Ask, schedule: Schedule) -> str | None:
        """What an acknowledged backfill did not do, if there was time for it."""
        by, asked_at = self._evidence.settled_by, ask.answered_at or ask.at
        if by is None or asked_at >= by:
            return None
        row = self._rows.get(id)
        if row is None:
            return "it is not there any more"
        wanted = [*self._wanted(row, schedule)]
        if row["finished"] is None:
            begins = max(asked_at, self._evidence.calm_since)
            over = begins + round(len(wanted) / row["rate"] * SECOND) < by
            waits = schedule.tenant in self._over_quota  # the past can wait until it is not
            return "it has not come to its end" if over and not waits else None
        if row["next"] < row["to"]:
            apart = CLOCKS + self._evidence.folder.clocks.doubt
            cancelled = _cancelled_between(schedule, ask.began - apart, row["finished"])
            return None if cancelled else "it ended before its end"
        self.instants += len(wanted)
        missing = [at for at in wanted if (schedule.id, at) not in self._fired]
        return f"{len(missing)} of its {len(wanted)} fires are not there" if missing else None

    def _wanted(self, row: Line, schedule: Schedule) -> Iterator[int]:
        """When it fires by what it said at each instant; before its beginning it said nothing."""
        for version in schedule.versions:
            rule = self._evidence.rule(schedule, version)
            if rule is None or "cancelled" in (version.began_as, version.state):
                continue
            if version.state == "ended" and version.stops is None and "max_fires" in version.said:
                continue  # its last one is not known
            ends = [each for each in (version.until, version.stops) if each is not None]
            first, last = max(row["from"] - 1, version.since), min([row["to"] - 1, *ends])
            fires = [rule.fires_at(schedule.id, at) for at in rule.between(first, last)]
            yield from (at for at in fires if at < row["to"])

    @cached_property
    def _rows(self) -> dict[int, Line]:
        return {each["id"]: each for each in self._evidence.folder.dump("backfill")}

    @cached_property
    def _over_quota(self) -> set[int]:
        return {each["id"] for each in self._evidence.folder.dump("tenant") if each["over_quota"]}

    @cached_property
    def _fired(self) -> set[tuple[int, int]]:
        schedules = {each["schedule"] for each in self._rows.values()}
        return {
            (each["schedule"], each["fire_at"])
            for each in self._evidence.folder.dump("fire")
            if each["schedule"] in schedules and each["decision"] == "fired"
        }


def _cancelled_between(schedule: Schedule, began: int, until: int) -> bool:
    following: list[Version | None] = [*schedule.versions[1:], None]
    return any(
        "cancelled" in (version.began_as, version.state)
        and version.at <= until
        and (after is None or after.at >= began)
        for version, after in zip(schedule.versions, following, strict=True)
    )


@dataclass(slots=True)
class _Batch:
    """What one transaction fired of the past."""

    at: int
    term: int
    fires: int = 0


@dataclass(slots=True)
class _Past:
    """A backfill, and when it fired."""

    schedule: int
    rate: float
    batches: list[_Batch] = field(default_factory=list)

    @property
    def most(self) -> float:
        """At once."""
        return max(1.0, self.rate * BURST)


class Pace:
    """How fast backfills went on: each has a rate of its own."""

    def __init__(self) -> None:
        self._pasts: dict[int, _Past] = {}
        self._whose: dict[int, int] = {}  # backfills, by transactions that went on with them
        self._batches: dict[int, _Batch] = {}  # by transactions that fired

    def go_on(self, change: Change) -> None:
        """A backfill was asked for, or came further."""
        if change.op != "D":
            self._pasts.setdefault(change.id, _Past(change.now["schedule"], change.now["rate"]))
            self._whose[change.tx] = change.id

    def fired(self, change: Change) -> None:
        batch = self._batches.setdefault(change.tx, _Batch(change.at, change.now["term"] or 0))
        batch.fires += 1

    def too_fast(self) -> Iterator[tuple[str, int, int]]:
        """What was too fast, when, and of which schedule."""
        for tx, batch in self._batches.items():
            if (past := self._pasts.get(self._whose.get(tx, 0))) is not None:
                past.batches.append(batch)
        for id, past in self._pasts.items():
            past.batches.sort(key=lambda each: each.at)
            rate = f"fires of backfill {id} were released at {past.rate:g} a second"
            for each in past.batches:
                if each.fires > int(past.most):
                    yield f"{each.fires} {rate}, in one go", each.at, past.schedule
            for window in WINDOWS:
                for at, fires in _beyond(past, window):
                    yield f"{fires} {rate}, in {window / SECOND:g} s", at, past.schedule


def _beyond(past: _Past, window: int) -> Iterator[tuple[int, int]]:
    """From when on there were more than the rate allows for so long, and how many."""
    nth, skip_to = 0, 0
    for first, batch in enumerate(past.batches):
        while nth < len(past.batches) and past.batches[nth].at < batch.at + window:
            nth += 1
        within = past.batches[first:nth]
        fires, bursts = sum(each.fires for each in within), BURSTS - 1
        bursts += len({each.term for each in within})
        if first >= skip_to and fires > past.rate * window / SECOND + bursts * past.most:
            skip_to = nth
            yield batch.at, fires
