"""Backfills that were acknowledged: each comes to its end, and leaves nothing out."""

from collections.abc import Iterator
from functools import cached_property

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Ask, Line
from sexton.torture.check.guards import CLOCKS
from sexton.torture.check.things import Schedule, Version


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
