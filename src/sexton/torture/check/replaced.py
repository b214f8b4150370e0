"""Jobs that a newer fire replaces: they are asked to end."""

from collections import defaultdict
from typing import NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.things import Job

# By a statement after the fire: of 4,500 jobs the last was asked after 1.1 s. If that is lost with
# its node, whoever leads asks instead; so both have to be in trouble, or all are. A connection that
# has died is noticed late, and there is nobody for a while after an outage.
ASKED_WITHIN = 5 * SECOND
NOTICED_WITHIN = 15 * SECOND
ASKED_AT_LAST = 60 * SECOND


class Fire(NamedTuple):
    """One that takes the place of a job."""

    at: int
    node: int | None
    schedule: int


class Replacements:
    """Which jobs are to be asked to end, and since when."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._fires: dict[int, list[Fire]] = defaultdict(list)  # by job

    def begin(self, lives: list[Job], change: Change) -> None:
        """A fire that replaces those who live."""
        fire = Fire(change.at, change.now["node"], change.id)
        for job in lives:
            if job.asked_to_end is None:
                self._fires[job.id].append(fire)

    def end(self, change: Change) -> list[Fire]:
        """Those fires after which this job was not asked in time, if now it is, or has ended."""
        if change.id not in self._fires or not (change.op == "D" or change.now["cancel"]):
            return []
        return self._too_late(self._fires.pop(change.id), change.at)

    def left(self) -> list[tuple[int, Fire]]:
        """Jobs that never were, each with such a fire."""
        at = self._evidence.stopped
        return [
            (job, fire) for job, fires in self._fires.items() for fire in self._too_late(fires, at)
        ]

    def _too_late(self, fires: list[Fire], at: int) -> list[Fire]:
        return [
            fire
            for fire in fires
            if at > fire.at + ASKED_AT_LAST
            or (at > fire.at + ASKED_WITHIN and not self._was_in_trouble(fire))
        ]

    def _was_in_trouble(self, fire: Fire) -> bool:
        first, last = fire.at - NOTICED_WITHIN, fire.at + ASKED_WITHIN
        evidence = self._evidence
        if evidence.all_in_trouble(fire.at - ASKED_WITHIN, last):
            return True
        leaders = evidence.world.charge.leaders(fire.at, last)
        nobody_leads = None in leaders or evidence.any_in_trouble(leaders, first, last)
        return nobody_leads and evidence.any_in_trouble([fire.node], first, last)
