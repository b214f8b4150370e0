"""Remote workers, as one process of the service knows them: where each goes on claiming.

Everything that counts is in the database. What is kept here only saves looking again from the
beginning: another process, or this one after a restart, serves the same worker just as well.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from sexton.api.desk import Desk
from sexton.api.problems import Problem
from sexton.api.service import Service
from sexton.api.settling import count, counted_as
from sexton.api.waiting import Waiting
from sexton.domain.job import Claim
from sexton.domain.outcome import Failed
from sexton.domain.retry import Retry
from sexton.domain.transitions import Settlement, settle
from sexton.flow import reap
from sexton.flow.claim import Claimer
from sexton.flow.keep import keep_doing
from sexton.flow.rest import Rest
from sexton.store import Held, Source, Store
from sexton.store.connection import ENGINE_SETTINGS
from sexton.store.jobs import Orphan
from sexton.store.remote import RemoteWorker
from sexton.store.source import Row

log = logging.getLogger("sexton.api")

FORGET_AFTER = 600.0
# Claims and settlements go by index, as they do in a worker.
PLANNED = "; ".join(
    f"set local {name} = {value}"
    for name, value in ENGINE_SETTINGS.items()
    if not name.endswith("_timeout")
)
# A worker that calls while a third of its lease is gone need not renew it as well.
RENEW_BELOW = 2 / 3
TOO_OLD = "it was not started within its maximum age"
_PATIENT = Retry(max_attempts=10_000)  # its age is the reason, however often it was tried


class Lent:
    """The connection of whichever request has its turn; a failure in it is not to be overlooked.

    Who catches an error of one statement cannot go on in the same transaction, which is not
    committed any more, whatever PostgreSQL is told.
    """

    def __init__(self) -> None:
        self.held: Held | None = None
        self.failed: BaseException | None = None

    async def fetch(self, query: str, *args: Any) -> list[Row]:
        assert self.held is not None
        try:
            return await self.held.fetch(query, *args)
        except BaseException as error:
            self.failed = error
            raise

    async def copy(
        self, schema: str, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class Turn:
    """What a look found: jobs, and if there are none, in how many seconds it is worth another."""

    claims: list[tuple[str, Claim]] = field(default_factory=list)  # with their queues
    cancel: list[tuple[int, int]] = field(default_factory=list)
    changed: bool = False  # something was written that is to be committed
    next_in: float | None = None


class Remotely:
    """One remote worker: a claimer for each of its queues, and one look at a time."""

    def __init__(self, store: Store, tenant: int, worker: RemoteWorker) -> None:
        self.tenant = tenant
        self.id = worker.id
        self.name = worker.name
        self.queues = list(worker.queues)
        self.lease = worker.lease
        self.lease_until = worker.lease_until
        self._renew_at = time.monotonic() + worker.left_for - worker.lease * RENEW_BELOW
        self.idle = bool(worker.idle)  # as far as the database has been told
        self.used_at = time.monotonic()
        self._turn = asyncio.Lock()
        self._lent = Lent()
        source: Source = self._lent
        self._store = store.over(source)
        self._claimers: dict[str, Claimer] = {}
        self._limits: dict[str, dict[str, bool]] = {}
        self._sweep_rest = Rest()

    async def look(self, desk: Desk, limit: int, asked_to_cancel: bool) -> Turn:
        """At most `limit` jobs of its queues, in the transaction of this desk."""
        async with self._turn:
            self.used_at = time.monotonic()
            self._lent.held, self._lent.failed = Held(desk.connection, desk.service.patience), None
            turn = Turn()
            try:
                await desk.connection.execute(PLANNED, timeout=desk.service.patience)
                await self._sweep(desk.settings.poll)
                await self._claim(limit, turn)
                if asked_to_cancel:
                    turn.cancel = await desk.store.remote.cancelled(self.id)
                if turn.claims:
                    await self._leave_out_the_old(desk, turn)
                    if self.idle and len(turn.claims) == limit:
                        await self._say_idle(desk, False)
                elif not turn.cancel:
                    await self._next_look(desk, turn)
                if self._lent.failed is not None:
                    raise self._lent.failed
            except BaseException:
                # Whether anything was claimed is not known: begin anew, from the beginning.
                self.forget()
                raise
            finally:
                self._lent.held = None
            return turn

    def forget(self) -> None:
        """Where to go on claiming, for what was claimed is not, or may not be."""
        self._claimers.clear()
        self._sweep_rest.end()

    @property
    def lease_is_due(self) -> bool:
        return time.monotonic() >= self._renew_at

    async def keep_lease(self, desk: Desk) -> None:
        """A worker that claims is alive."""
        if not self.lease_is_due:
            return
        until = await desk.store.remote.renew(self.id, self.tenant)
        if until is None:
            raise await gone(desk, self.id)
        self.renewed(until)

    def renewed(self, until: datetime) -> None:
        self.lease_until = until
        self._renew_at = time.monotonic() + self.lease * (1 - RENEW_BELOW)

    async def _sweep(self, poll: float) -> None:
        """Look behind the claimers; seldom, if that takes long."""
        claiming = any(each.claiming for each in self._claimers.values())
        if not self._sweep_rest.over(claiming=claiming):
            return
        spent = 0.0
        for queue in self.queues:
            limits = await self._store.remote.limits(queue)
            claimer = self._claimers.get(queue)
            if claimer is None or limits != self._limits.get(queue):
                self._limits[queue] = limits
                self._claimers[queue] = Claimer(
                    self._store,
                    queue,
                    list(limits),
                    [task for task, here in limits.items() if here],
                    tenants=[self.tenant],
                )
            spent += await self._claimers[queue].sweep(self._store, lambda: None)
        self._sweep_rest.after(spent, poll)

    async def _claim(self, limit: int, turn: Turn) -> None:
        # Whichever queue goes first could starve the others.
        self.queues.append(self.queues.pop(0))
        for queue in self.queues:
            room = limit - len(turn.claims)
            if room <= 0:
                break
            claims = await self._claimers[queue].run_once(room, self.id)
            turn.claims += [(queue, claim) for claim in claims]
        turn.changed |= bool(turn.claims)

    async def _leave_out_the_old(self, desk: Desk, turn: Turn) -> None:
        """As in any worker: what has waited beyond its maximum age is not started."""
        old = [
            (claim.id, claim.fence, claim.tries, claim.expires - claim.claimed)
            for _, claim in turn.claims
            if claim.expires is not None and claim.claimed >= claim.expires
        ]
        if not old:
            return
        settled = [
            (
                id,
                fence,
                settle(Failed(TOO_OLD), tries=tries, retry=_PATIENT, expires_in=left, noise=0),
            )
            for id, fence, tries, left in old
        ]
        await desk.store.jobs.settle(settled)
        ends = [how for _, _, how in settled]
        outcomes, reasons = [each.outcome for each in ends], [each.reason or "" for each in ends]
        desk.after_commit(lambda: count(desk.service, outcomes, reasons))
        dropped = {fence for _, fence, _, _ in old}
        turn.claims = [each for each in turn.claims if each[1].fence not in dropped]

    async def _next_look(self, desk: Desk, turn: Turn) -> None:
        """Nothing there: or is the worker not there any more, which looks the same?"""
        row = await desk.store.remote.worker(self.id, self.tenant)
        if row is None or row.gone_at is not None:
            raise await gone(desk, self.id)
        due = [await self._claimers[queue].next_due_in() for queue in self.queues]
        turn.next_in = min((each for each in due if each is not None), default=None)

    async def sleeps(self, desk: Desk) -> None:
        """Say that it sleeps, so that those who enqueue know whom to wake."""
        await self._say_idle(desk, True)

    async def _say_idle(self, desk: Desk, idle: bool) -> None:
        await desk.store.workers.mark_idle(self.id, self.queues if idle else [])

        def said() -> None:
            self.idle = idle

        desk.after_commit(said)


class Remotes:
    """The remote workers that this process has served lately; and the reaper of those that died."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.waiting = Waiting(service.stopping)
        self._known: dict[tuple[int, int], Remotely] = {}
        self._installation: str | None = None
        self._steady_since = time.monotonic()

    async def worker(self, desk: Desk, id: int) -> Remotely:
        """The tenant's own worker of this id; 404 if there is none, 409 if it is gone."""
        known = self._known.get((desk.tenant_id, id))
        if known is None:
            row = await desk.store.remote.worker(id, desk.tenant_id)
            if row is None or row.gone_at is not None:
                raise await gone(desk, id)
            known = Remotely(self.service.store, desk.tenant_id, row)
            self._known[desk.tenant_id, id] = known
        return known

    def look_up(self, tenant: int, id: int) -> Remotely | None:
        return self._known.get((tenant, id))

    async def installation(self) -> str:
        if self._installation is None:
            self._installation = await self.service.owner.workers.installation()
        return self._installation

    def forget(self, tenant: int, id: int) -> None:
        self._known.pop((tenant, id), None)

    def forget_unused(self) -> None:
        now = time.monotonic()
        for key, each in list(self._known.items()):
            if now - each.used_at > FORGET_AFTER:
                del self._known[key]

    async def reap(self) -> None:
        """There may be no other worker than remote ones: then nobody else does it."""
        self.forget_unused()
        if not self._known:
            return
        try:
            # Judge others only from a steady place: while the database was away nobody renewed.
            if time.monotonic() - self._steady_since >= self.service.app.settings.lease:
                await reap.run_once(self.service.owner, count=self._count)
        except BaseException:
            self._steady_since = time.monotonic()
            raise

    def _count(self, orphan: Orphan, how: Settlement) -> None:
        died = [how.reason] if how.reason else []
        count(self.service, [how.outcome], died, counted_as(orphan))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """As long as the process serves."""
        service = self.service
        stop, every = service.stopping, service.app.settings.lease / 3
        tasks = [
            asyncio.create_task(self.waiting.send_home()),
            asyncio.create_task(keep_doing("reaping", self.reap, every=every, stop=stop, log=log)),
        ]
        deaf = service.listen(self.waiting.heard)
        try:
            yield self
        finally:
            deaf()
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def gone(desk: Desk, id: int) -> Problem:
    """Why a worker cannot do anything any more."""
    row = await desk.store.remote.worker(id, desk.tenant_id)
    if row is None:
        return Problem(404, "not_found", f"there is no worker {id}: register one")
    why = "it left" if row.gone_why == "left" else "its lease was not renewed in time"
    return Problem(
        409, "worker_gone", f"worker {id} is gone: {why}; register again", gone_at=row.gone_at
    )
