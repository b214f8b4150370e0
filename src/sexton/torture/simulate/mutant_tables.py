"""Mutants of the database: each has lost one guard, and nothing else."""

from collections.abc import Sequence

from sexton.store.cluster import Ownership
from sexton.store.due import Batch, Guard
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.node import LEASE
from sexton.torture.simulate.tables import JobRow, LeaseRow, ScheduleRow
from sexton.torture.simulate.watch import Watch

# ── jobs ────────────────────────────────────────────────────────────────────


class SettlesWithoutFence(Database):
    """Whoever ran the job may settle it, whoever runs it now."""

    def is_ours(self, id: int, fence: int) -> bool:
        row = self.jobs.get(id)
        return row is not None and row.claimed_by is not None


class SucceedsWithoutFence(Database):
    """The same, for plain successes."""

    def is_one_of(self, id: int, fences: Sequence[int]) -> bool:
        row = self.jobs.get(id)
        return row is not None and row.claimed_by is not None


class SettlesTwice(Database):
    """The fence alone: a settlement that is sent again finds a job that nobody runs."""

    def is_ours(self, id: int, fence: int) -> bool:
        row = self.jobs.get(id)
        return row is not None and row.fence == fence


class RenewsTheLost(Database):
    """Renewing does not look whether the worker was declared lost."""

    def renewable(self, worker: int) -> LeaseRow | None:
        self.gone_workers.pop(worker, None)
        return self.workers.setdefault(worker, LeaseRow(0.0, LEASE))


class ReapsTheLiving(Database):
    """The reaper does not wait for the end of a lease."""

    def is_lost(self, row: LeaseRow) -> bool:
        return row.lease_until < self.now + row.lease_for / 2


class ReapsAfterRestart(Database):
    """A silence that was the server's counts against the workers."""

    def is_lost(self, row: LeaseRow) -> bool:
        return row.lease_until < self.now


class OrphansTheRunning(Database):
    """Every running job is taken for an orphan."""

    def is_orphan(self, row: JobRow, gone_for: float | None) -> bool:
        return row.claimed_by is not None


class ClaimsTheClaimed(Database):
    """A claim does not look whether somebody has claimed it."""

    def is_ready(self, row: JobRow) -> bool:
        return row.due_at <= self.now


class ClaimsForTheLost(Database):
    """A worker that was declared lost may claim."""

    def may_claim(self, worker: int) -> bool:
        return True


class RepeatsFences(Database):
    """A fence is the number of an attempt, not of a claim of all."""

    def next_fence(self) -> int:
        self.fence += 1
        return self.fence % 5


class CancelsTheRunning(Database):
    """Cancelling ends a job under the hands of its worker."""

    def cancel(self, ids: Sequence[int]) -> dict[int, int | None]:
        for id in ids:
            if id in self.jobs:
                self.jobs[id].claimed_by = None
        return super().cancel(ids)


class LetsGoAnytime(Database):
    """Jobs that wait for another are let go although it lives."""

    def waits_for_nobody(self, row: JobRow) -> bool:
        return True

    def before(self, row: JobRow) -> int | None:
        return None


# ── the cluster ─────────────────────────────────────────────────────────────


class ElectsAnytime(Database):
    """An election does not look at the leader's lease."""

    def leader_lives(self) -> bool:
        return False


class ElectsTheSilent(Database):
    """Nor at the candidate's."""

    def may_lead(self, node: int) -> bool:
        return True


class RepeatsTerms(Database):
    """The term does not grow."""

    def next_term(self) -> int:
        return max(1, self.leader.term)


class LeadsForever(Database):
    """A heartbeat tells everybody that it leads who was the leader once."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.led: set[int] = set()

    def is_led_by(self, node: int) -> bool:
        self.led.add(self.leader.node or 0)
        return node in self.led


class AssignsWithoutTerm(Database):
    """Who led once may go on assigning."""

    def may_assign(self, node: int, term: int | None) -> bool:
        return node in self.nodes


class LosesTheLiving(Database):
    """A node whose lease holds is declared lost."""

    def is_silent(self, row: LeaseRow) -> bool:
        return row.lease_until <= self.now + LEASE / 3

    def is_over(self, node: int) -> bool:
        return True


class RepeatsEpochs(Database):
    """What a node owns changes, its epoch does not."""

    def next_epoch(self, before: Ownership | None) -> int:
        return self.epoch if before is None else before.epoch


class LeasesByNodeClocks(Database):
    """A lease ends by the clock of the node that asked for it."""

    def lease_now(self) -> float:
        return self.now + (0.0 if self.by is None else self.by.wall)


# ── fires ───────────────────────────────────────────────────────────────────


class FiresWithoutEpoch(Database):
    """A node fires what it was given once."""

    def owns(self, guard: Guard) -> bool:
        return guard.node in self.ownership


class FiresWithoutGuard(Database):
    """Whoever asks, fires."""

    def may_fire(self, guard: Guard) -> bool:
        return True


class CatchesUpWithoutTerm(Database):
    """Who led once may go on catching up."""

    def leads(self, guard: Guard) -> bool:
        return True


class FiresByNodeClocks(Database):
    """What is due is judged by the clock of the node."""

    def fire_now(self) -> float:
        return self.now + (0.0 if self.by is None else self.by.wall)


class FiresWhatItRead(Database):
    """Neither the schedule nor the ledger is asked whether somebody else was there first."""

    def is_as_read(self, batch: Batch, n: int) -> bool:
        row = self.schedules[batch.ids[n]]
        return row.stamp == batch.stamps[n] and batch.were_due[n] <= self.now

    def is_in_ledger(self, id: int, fire_at: float) -> bool:
        return False


class EditsWithoutStamp(Database):
    """An edit leaves no trace that a node could be refused by."""

    def next_stamp(self, row: ScheduleRow) -> int:
        return row.stamp


class TwoTransactions(Database):
    """A fire moves its schedule on, and makes its job in another transaction."""

    def advance(self, guard: Guard, batch: Batch) -> int:
        moved = [n for n in range(len(batch)) if self.may_fire(guard) and self.is_as_read(batch, n)]
        for n in moved:
            row = self.schedules[batch.ids[n]]
            was, row.next_fire = row.next_fire, batch.next_at[n] or 0.0
            self.watch.moved(row.id, row.rule, was, row.next_fire)
        return len(moved)


# ── liveness ────────────────────────────────────────────────────────────────


class NeverReaps(Database):
    """Nobody is declared lost."""

    def is_lost(self, row: LeaseRow) -> bool:
        return False


class NeverJudges(Database):
    """No node is found silent."""

    def is_silent(self, row: LeaseRow) -> bool:
        return False
