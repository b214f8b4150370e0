"""Mutants of nodes and workers: each has forgotten one rule, and nothing else."""

from sexton.cluster.standing import Owned
from sexton.domain.lease import Lease
from sexton.domain.transitions import RELEASED
from sexton.store.due import Batch, Fired, Guard
from sexton.torture.simulate.mutant_tables import TwoTransactions
from sexton.torture.simulate.node import LEASE, Node
from sexton.torture.simulate.process import Away, ask
from sexton.torture.simulate.worker import Worker


class FiresInTwo(Node):
    """Sends the two."""

    async def fire(self, guard: Guard, batch: Batch) -> Fired:
        database = self.database
        assert isinstance(database, TwoTransactions)
        moved = await ask(database.advance, guard, batch)
        return Fired(moved, 0, ())


class NodeTrustsAnswers(Node):
    """A node counts its lease from the answer and not from the request."""

    def lease(self, asked_at: float) -> Lease:
        return Lease(LEASE, self.clock())


class WorkerTrustsAnswers(Worker):
    """A worker does."""

    def lease(self, asked_at: float) -> Lease:
        return Lease(LEASE, self.clock())


class NodeTrustsForever(Node):
    """A node fires what it owned when it last heard."""

    @property
    def owned(self) -> Owned | None:
        return None if self.standing is None else self.standing.ownership


class WorkerGoesOn(Worker):
    """A worker that cannot renew abandons nothing."""

    def abandon(self, worker: int) -> None:
        """Hopes."""


class StraysAtOnce(Worker):
    """Every claim that the worker does not know of is put back, also one that is on its way."""

    async def put_back_strays(self) -> None:
        if self.worker is not None:
            found = await ask(self.database.strays, self.worker, [*self.held], 0.0)
            await ask(self.database.settle, [(*each, RELEASED) for each in found])


class NeverCatchesUp(Node):
    """What is late stays late."""

    async def catch_up(self, guard: Guard) -> bool:
        return False


class ForgetsOutcomes(Worker):
    """A settlement without an answer is not sent again."""

    async def settle_some(self) -> None:
        try:
            await super().settle_some()
        except Away:
            self.settled([claim for claim, _ in self.pending])


class ForgetsStrays(Worker):
    """A claim whose answer was lost is nobody's."""

    async def put_back_strays(self) -> None:
        """It does not look."""
