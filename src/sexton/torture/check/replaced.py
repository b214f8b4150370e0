"""Jobs that a newer fire replaces: they are asked to end."""

from collections import defaultdict
from typing import NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.things import Job

# By a statement after the fire: of 4,500 jobs the last was asked after 1.1 s. If that is lost with
# its node, or somebody has the job locked, whoever leads asks instead, every two seconds.
ASKED_WITHIN = 5 * SECOND
# Who has it locked and stands still is made to let go after ten seconds: its worker, or an API
# server. And a leader that is gone has a successor, who has a connection.
ASKED_LATE = 15 * SECOND
# There is nobody for a while if both are gone, or all are.
ASKED_AT_LAST = 60 * SECOND
# A connection that has died is noticed so much later.
NOTICED_WITHIN = 15 * SECOND


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
        return self._too_late(change.id, self._fires.pop(change.id), change.at)

    def left(self) -> list[tuple[int, Fire]]:
        """Jobs that never were, each with such a fire."""
        at = self._evidence.stopped
        return [
            (job, fire)
            for job, fires in self._fires.items()
            for fire in self._too_late(job, fires, at)
        ]

    def _too_late(self, job: int, fires: list[Fire], at: int) -> list[Fire]:
        return [
            fire
            for fire in fires
            if at > fire.at + ASKED_WITHIN and at > fire.at + self._may_take(job, fire)
        ]

    def _may_take(self, job: int, fire: Fire) -> int:
        """How long, by what was done to whoever asks, and to whoever may have the job locked."""
        first, last = fire.at - NOTICED_WITHIN, fire.at + ASKED_WITHIN
        evidence = self._evidence
        if evidence.all_in_trouble(fire.at - ASKED_WITHIN, last):
            return ASKED_AT_LAST
        leaders = evidence.world.charge.leaders(fire.at, last)
        if None in leaders or evidence.any_in_trouble(leaders, first, last):
            nobody = evidence.any_in_trouble([fire.node], first, last)
            return ASKED_AT_LAST if nobody else ASKED_LATE
        workers = {each.worker for each in evidence.world.jobs[job].claims if each.at <= last}
        held_up = evidence.workers_in_trouble(workers, first, last)
        return ASKED_LATE if held_up or evidence.apis_in_trouble(first, last) else ASKED_WITHIN
