"""Nothing starves: who waits longer goes first, and nobody is forgotten."""

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.holding import places
from sexton.torture.check.invariant import Invariant, is_claim
from sexton.torture.check.room import Room
from sexton.torture.check.things import Job

# A step of priority is a head start of a minute.
AGEING = 60 * SECOND
# What nobody announced is found by a sweep, at worst so much later; locks are gone by then.
UNSEEN = 60 * SECOND
# In so many seconds others of its queue were claimed, and nobody of its lane: in two runs of 15
# minutes in three at most, and in six of a lane whose limit had room.
PASSED_OVER = 20
# So of other queues; in five at most. Such a sweep has a turn of its own to wait for.
QUEUE_PASSED_OVER = 30

Lane = tuple[str, int, str | None, str | None]  # queue, tenant; task and key if that is limited
Turns = dict[Any, list[int]]  # when there were claims


class Waited(NamedTuple):
    """A stretch of time in which a job could have been claimed."""

    rank: int  # when it was due, less its head start
    since: int
    until: int
    job: int


class NothingStarves(Invariant):
    """Nothing starves: no job is overtaken beyond its priority, none is left behind at the end."""

    name = "nothing-starves"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._ready: dict[int, int] = {}  # since when a job may be claimed
        self._waited: dict[Lane, list[Waited]] = defaultdict(list)
        self._claims: dict[Lane, list[tuple[int, int, int]]] = defaultdict(list)  # at, rank, job
        self._batches: dict[int, int] = {}  # when the first job of a transaction was claimed
        self._room = Room()
        timeouts = {each["task"]: each.get("timeout") for each in evidence.folder.dump("tasks")}
        self._runs_for = {
            task: round(timeout * SECOND) for task, timeout in timeouts.items() if timeout
        }

    def on_job(self, change: Change) -> None:
        if change.op == "I":
            if change.now["by"] is None and change.now["after"] is None:
                self._ready[change.id] = max(change.at, change.now["due"])
            return
        job = self.world.jobs.get(change.id)
        if job is None:
            return
        if change.op == "U" and _stays_ready(change) and change.id in self._ready:
            return
        self._room.fill(job, self.world.tasks.get(job.task), change)
        since = self._ready.pop(change.id, None)
        rank = job.due - job.priority * AGEING
        # Of those that are claimed together nobody is first, in whichever order they are written.
        at = self._batches.setdefault(change.tx, change.at) if is_claim(change) else change.at
        if since is not None and since < at:
            self._waited[_lane(job)].append(Waited(rank, since, at, job.id))
        if is_claim(change):
            worker = self.world.workers.get(change.now["by"])
            if worker is None or worker.tenant is None:  # who sees one tenant only says nothing
                self._claims[_lane(job)].append((at, rank, job.id))
        elif change.op == "U" and change.now["by"] is None and change.now["after"] is None:
            self._ready[change.id] = max(change.at, change.now["due"])

    def finish(self) -> None:
        end = max(self.evidence.stopped, self.world.ended + 1)
        for id, since in self._ready.items():
            job = self.world.jobs[id]
            if since < end:
                rank = job.due - job.priority * AGEING
                self._waited[_lane(job)].append(Waited(rank, since, end, id))
        for lane, claims in self._claims.items():
            self._in_order(claims, self._waited[lane])
        self._turns()
        self._left_behind()
        self._counted()

    def _in_order(self, claims: list[tuple[int, int, int]], waited: list[Waited]) -> None:
        """Whoever could be seen, with so much smaller a rank, is claimed before."""
        coming = sorted(waited, key=lambda each: each.since)
        nth = 0
        seen: list[Waited] = []
        for at, rank, job in sorted(claims):
            self.checked += 1
            while nth < len(coming) and coming[nth].since + UNSEEN <= at:
                heapq.heappush(seen, coming[nth])
                nth += 1
            while seen and seen[0].until <= at:
                heapq.heappop(seen)
            if seen and seen[0].rank + UNSEEN < rank:
                first = heapq.heappop(seen)
                what = f"job {job} was claimed before job {first.job}, which had waited for"
                self.violated(f"{what} {(at - first.since) / SECOND:.0f} s", at, job=first.job)

    def _turns(self) -> None:
        """Who waits has its turn: a tenant whatever others have to do in the same queue, and a
        queue whatever there is to do in others."""
        tenants: Turns = {
            lane: sorted(at for at, *_ in each) for lane, each in self._claims.items()
        }
        queues: Turns = defaultdict(list)
        for lane, times in tenants.items():
            queues[lane[0]] += times
        for times in queues.values():
            times.sort()
        everything = sorted(at for times in queues.values() for at in times)
        for lane, waited in self._waited.items():
            of_lane, of_queue = tenants.get(lane, []), queues.get(lane[0], [])
            whose = "tenants" if lane[2] is None else "lanes"
            for each in waited:
                if each.until - each.since <= PASSED_OVER * SECOND:
                    continue
                self.checked += 1
                has_room = self._has_room(each.job)
                if _passed_over(each, of_lane, of_queue, has_room) > PASSED_OVER:
                    what = f"job {each.job} waited while only jobs of other {whose} were claimed"
                    self.violated(what, each.until, job=each.job)
                elif _passed_over(each, of_queue, everything, has_room) > QUEUE_PASSED_OVER:
                    what = f"job {each.job} waited while only jobs of other queues were claimed"
                    self.violated(what, each.until, job=each.job)

    def _has_room(self, id: int) -> Callable[[int], bool]:
        """Whether there was room for a job at an instant; always for one that knows no limit."""
        job = self.world.jobs[id]
        if not job.limited:
            return lambda at: True
        wanted = [place for place, _, _ in places(job, self.world.tasks.get(job.task))]
        return lambda at: self._room.was_there(wanted, at)

    def _left_behind(self) -> None:
        """At the end: who waits for nobody, or for a job that is no more, or has a worker that is
        gone."""
        by = self.evidence.settled_by
        if by is None:
            return
        jobs = self.world.jobs
        silent = {
            each["id"]: each["lease"]
            for each in self.evidence.folder.dump("worker")
            if each["gone"] is None and each["lease"] < by
        }
        for job in jobs.values():
            if not job.live:
                continue
            self.checked += 1
            before = None if job.after is None else jobs.get(job.after)
            worker = None if job.by is None else self.world.workers.get(job.by)
            if before is not None and before.ended is not None and before.ended < by:
                what = f"job {job.id} still waits for job {before.id}, which has ended"
                self.violated(what, before.ended, job=job.id)
            elif worker is not None and worker.gone is not None and worker.gone < by:
                what = f"job {job.id} is still held by worker {worker.name}, which is gone"
                self.violated(what, worker.gone, job=job.id)
            elif worker is not None and worker.tenant is None and worker.why == "left":
                what = f"job {job.id} is still held by worker {worker.name}, which has left"
                self.violated(what, worker.gone or by, job=job.id)
            elif worker is not None and worker.id in silent:
                what = f"job {job.id} is still held by worker {worker.name}, whose lease is over"
                self.violated(what, silent[worker.id], job=job.id)
            elif self._ready.get(job.id, by) < by and not self._had_no_room(job, by):
                what = f"job {job.id} could have been claimed, and never was"
                self.violated(what, self._ready[job.id], job=job.id)

    def _had_no_room(self, job: Job, by: int) -> bool:
        """Its limit was full by then, of claims that may still have run."""
        runs_for = self._runs_for.get(job.task, UNSEEN)
        return any(
            self._room.filled_after(place, by - runs_for)
            for place, _, _ in places(job, self.world.tasks.get(job.task))
        )

    def _counted(self) -> None:
        """What the rig itself found in the database when it had waited long enough."""
        run = self.evidence.folder.run
        for name, what in (("behind", "schedules were behind"), ("left", "jobs were left")):
            if run.get(name) is not None:
                self.checked += 1
            if run.get(name):
                self.violated(f"{run[name]} {what} at the end", self.evidence.stopped)


def _passed_over(
    waited: Waited, own: list[int], all_: list[int], has_room: Callable[[int], bool]
) -> int:
    """In how many seconds, at a stretch, others were claimed while there was room for it, and none
    of its own kind; its own claim is at the end of that."""
    among = own[bisect_right(own, waited.since) : bisect_left(own, waited.until)]
    most = 0
    for first, last in pairwise([waited.since, *among, waited.until]):
        if (last - first) // SECOND >= most:
            others = all_[bisect_right(all_, first) : bisect_left(all_, last)]
            most = max(most, len({at // SECOND for at in others if has_room(at)}))
    return most


def _stays_ready(change: Change) -> bool:
    """Something else of it changed: it waits as before."""
    was, now = change.was, change.now
    return (was["by"], now["by"], now["after"], now["due"]) == (None, None, None, was["due"])


def _lane(job: Job) -> Lane:
    if job.limited:
        return (job.queue, job.tenant, job.task, job.limit_key)
    return (job.queue, job.tenant, None, None)
