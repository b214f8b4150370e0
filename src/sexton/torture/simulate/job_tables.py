"""The statements about workers and their jobs, with the guards of their SQL."""

from collections.abc import Collection, Sequence

from sexton.domain.job import Claim
from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement
from sexton.store.jobs import Orphan
from sexton.torture.simulate.tables import AttemptRow, JobRow, LeaseRow, Tables

# What the one simulated task was declared with.
RETRY = Retry(max_attempts=3, base=0.5, cap=1.0)


class JobTables(Tables):
    """From ready to settled."""

    # ── leases ──────────────────────────────────────────────────────────────

    def register_worker(self, lease: float) -> int:
        """register_worker.sql: a worker joins, and its lease begins now."""
        self.worker_id += 1
        self.workers[self.worker_id] = LeaseRow(self.now + lease, lease)
        return self.worker_id

    def renew(self, worker: int) -> tuple[float, list[int]] | None:
        """renew.sql: the lease begins anew, unless the worker was declared lost."""
        row = self.renewable(worker)
        if row is None:
            return None
        row.lease_until = self.now + row.lease_for
        cancelled = []
        for id, asked in self.cancels.items():
            job = self.jobs.get(id)
            if asked == worker and job is not None and job.claimed_by == worker:
                cancelled.append(job.fence)
        return self.now, cancelled

    def lose_workers(self) -> list[tuple[int, str]]:
        """lose_workers.sql: whose lease ran out is lost, for good; not for the server's sake."""
        lost = [id for id, row in self.workers.items() if self.is_lost(row)]
        for id in lost:
            row = self.workers[id]
            self.watch.lost(id, row.lease_until, row.lease_for, self)
            self._bury(id)
        return [(id, str(id)) for id in lost]

    def leave(self, worker: int) -> None:
        """leave.sql: of its own will."""
        if worker in self.workers:
            self._bury(worker)

    def _bury(self, worker: int) -> None:
        del self.workers[worker]
        self.gone_workers[worker] = self.now

    # ── claims ──────────────────────────────────────────────────────────────

    def claim(self, worker: int, limit: int) -> list[Claim]:
        """claim.sql, for one lane from its beginning: the oldest that are ready, each fenced."""
        if not self.may_claim(worker):
            return []
        ready = [row for row in self.jobs.values() if self.is_ready(row)]
        if len(ready) > 1:
            ready.sort(key=_by_due)
        claims = []
        for row in ready[:limit]:
            row.fence, row.attempt = self.next_fence(), row.attempt + 1
            row.claimed_by, row.claimed_at = worker, self.now
            lives = worker in self.workers
            self.watch.claimed(row.id, row.fence, worker, row.attempt, lives, self.by)
            claims.append(
                Claim(
                    *(row.id, row.fence, row.attempt, row.attempt, 0, "t", "{}", None),
                    *(row.created_at, row.due_at, self.now, None, row.schedule, row.fire_at),
                )
            )
        return claims

    def orphans(self, limit: int, gone_for: float | None) -> list[Orphan]:
        """orphans.sql: running jobs whose worker is gone."""
        found = []
        for row in self.jobs.values():
            if self.is_orphan(row, gone_for):
                found.append(
                    Orphan(
                        id=row.id,
                        fence=row.fence,
                        task="t",
                        queue="default",
                        tenant=1,
                        tries=row.attempt,
                        worker=str(row.claimed_by),
                        expires_in=None,
                        retry=RETRY,
                    )
                )
        return found[:limit]

    def strays(
        self, worker: int, held: Collection[int], older_than: float
    ) -> list[tuple[int, int]]:
        """strays.sql: claims in this worker's name that it does not know of."""
        return [
            (row.id, row.fence)
            for row in self.jobs.values()
            if row.claimed_by == worker
            and row.fence not in held
            and (row.claimed_at or 0.0) < self.now - older_than
        ]

    # ── settlements ─────────────────────────────────────────────────────────

    def settle_succeeded(self, ids: Sequence[int], fences: Sequence[int]) -> set[int]:
        """settle_succeeded.sql: the plain ones, of those whose fence is still the job's."""
        ours = []
        for id, fence in zip(ids, fences, strict=True):
            if self.is_one_of(id, fences):
                row = self.jobs.pop(id)
                carried = row.fence if row.fence in fences else fence
                self._record(row, carried, "succeeded", "succeeded")
                ours.append(row)
        self._follow(ours)
        return {row.id for row in ours}

    def settle(self, settled: Sequence[tuple[int, int, Settlement]]) -> set[int]:
        """settle.sql: what happened, once; whoever carries an old fence changes nothing."""
        ours, ended = set(), []
        for id, fence, settlement in settled:
            if not self.is_ours(id, fence):
                continue
            ours.add(id)
            row = self.jobs[id]
            following: str = settlement.next
            if following == "waiting" and row.cancel_requested:
                following = "cancelled"
            self._record(row, fence, settlement.outcome, following)
            if following != "waiting":
                del self.jobs[id]
                ended.append(row)
                if following == "dead":
                    self.dead[id] = settlement.reason or ""
                continue
            row.attempt -= settlement.outcome in ("snoozed", "released")
            row.claimed_by = row.claimed_at = None
            row.due_at = self.now + (settlement.delay or 0.0)
        self._follow(ended)
        return ours

    def cancel(self, ids: Sequence[int]) -> dict[int, int | None]:
        """cancel.sql: what is not running ends here, the others are asked to."""
        answer: dict[int, int | None] = {}
        ended: dict[int, JobRow] = {}
        for id in sorted(ids):
            row = self.jobs.get(id)
            if row is None:
                continue
            answer[id] = row.claimed_by
            if row.claimed_by is not None:
                row.cancel_requested = True
                self.cancels[id] = row.claimed_by
                continue
            attempt = AttemptRow(id, row.fence, None, row.attempt, "cancelled", "cancelled")
            self.attempts.append(attempt)
            self.watch.cancelled(id)
            ended[id] = row
            del self.jobs[id]
        for row in self.jobs.values():
            if row.after_job in ended and ended[row.after_job].schedule is not None:
                before = ended[row.after_job].after_job
                keeps = before if before is not None and before not in ended else None
                self._stand_behind(row, self.before(row) if keeps is None else keeps)
        return answer

    def let_go(self) -> int:
        """let_go.sql: jobs that wait for one that is no more."""
        waiting = [
            row
            for row in self.jobs.values()
            if row.after_job is not None and self.waits_for_nobody(row)
        ]
        for row in waiting:
            self._stand_behind(row, self.before(row))
        return len(waiting)

    def _record(self, row: JobRow, fence: int, outcome: str, following: str) -> None:
        gone = row.claimed_by in self.gone_workers
        self.watch.settled(row.id, fence, outcome, following, gone, self.by)
        self.attempts.append(
            AttemptRow(row.id, row.fence, row.claimed_by, row.attempt, outcome, following)
        )

    def _follow(self, ended: Sequence[JobRow]) -> None:
        """Who waited for one of these waits for another that came before it, or is due now."""
        ids = [each.id for each in ended if each.schedule is not None]
        if ids:
            for row in self.jobs.values():
                if row.after_job in ids:
                    self._stand_behind(row, self.before(row))

    def _stand_behind(self, row: JobRow, before: int | None) -> None:
        row.after_job = before
        if before is None:
            row.due_at = self.now
            self.notices.append("queue")

    def before(self, row: JobRow) -> int | None:
        """sexton.before_in_line: a job of the same schedule that came before it and lives."""
        schedule = self.schedules.get(row.schedule or 0)
        if schedule is None:
            return None
        known = [*schedule.live, schedule.last_job or 0]
        return max((id for id in known if id < row.id and id in self.jobs), default=None)

    # ── guards ──────────────────────────────────────────────────────────────

    def waits_for_nobody(self, row: JobRow) -> bool:
        return row.after_job not in self.jobs

    def renewable(self, worker: int) -> LeaseRow | None:
        return self.workers.get(worker)

    def is_lost(self, row: LeaseRow) -> bool:
        return row.lease_until < self.now and self.started_at < self.now - row.lease_for

    def may_claim(self, worker: int) -> bool:
        return worker in self.workers

    def is_ready(self, row: JobRow) -> bool:
        return row.claimed_by is None and row.due_at <= self.now

    def next_fence(self) -> int:
        self.fence += 1
        return self.fence

    def is_orphan(self, row: JobRow, gone_for: float | None) -> bool:
        gone_at = self.gone_workers.get(row.claimed_by or 0)
        return gone_at is not None and (gone_for is None or gone_at > self.now - gone_for)

    def is_ours(self, id: int, fence: int) -> bool:
        row = self.jobs.get(id)
        return row is not None and row.fence == fence and row.claimed_by is not None

    def is_one_of(self, id: int, fences: Sequence[int]) -> bool:
        row = self.jobs.get(id)
        return row is not None and row.fence in fences and row.claimed_by is not None


def _by_due(row: JobRow) -> tuple[float, int]:
    return row.due_at, row.id
