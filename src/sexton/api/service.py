"""What every request needs: connections that act for a tenant, and nothing else's."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Self, get_args

from sexton.api.access import KEYS, TENANTS, Access
from sexton.api.desk import Desk
from sexton.api.errands import errands
from sexton.api.limits import Limits
from sexton.api.origin import Origin, networks
from sexton.api.principal import Principal
from sexton.api.role import demand_role
from sexton.api.settling import COUNTED_AS
from sexton.api.turns import Turns
from sexton.app import Sexton
from sexton.domain.transitions import Reason
from sexton.flow.meters import Tally
from sexton.flow.rulebook import Rulebook
from sexton.store import Pool, Store
from sexton.store.connection import Address
from sexton.store.listen import Listener

log = logging.getLogger("sexton.api")

Heard = Callable[[str | None], None]
_NOWHERE = Origin()
# A process that stands still in the middle of a change keeps its locks no longer than this.
# Limits are counted after their lock was had, whatever isolation the database has by default.
_BEGIN = (
    "begin isolation level read committed read write; "
    "set local idle_in_transaction_session_timeout = 10000"
)


class Service:
    """The state of one API process."""

    def __init__(self, app: Sexton, pool: Pool, owner: Store) -> None:
        self.app = app
        self.pool = pool  # its transactions are always those of the tenants' role
        # Sees every tenant: for keys, tenants, the cluster and errands, never for what is a
        # tenant's own.
        self.owner = owner
        self.patience = app.settings.patience
        self.schema = app.settings.schema
        self.store = Store(pool, app.settings.schema, app.clock)
        self.access = Access(owner.keys, app.settings.api_host)
        self.limits = Limits()
        # Whether sessions of the pool may be set up for good: `running` finds out, for its own.
        self._keeps_sessions = False
        # Somewhat less than for any answer: who waits for a lock is told what for.
        self._begin = f"{_BEGIN}; set local lock_timeout = {800 * self.patience:.0f}"
        self._turns = Turns(pool.use.size, self.patience)
        self.settled = Tally()  # what was settled from afar or reaped here, by outcome
        self.died = Tally()  # of that, by reason
        self.died.expect(COUNTED_AS, get_args(Reason))
        self.rulebook = Rulebook()  # rules have no owner
        self.trusted_proxies = networks(app.settings.trusted_proxies)
        # Set as soon as the process is told to end: who waits for something stops waiting.
        self.stopping = asyncio.Event()
        self._listeners: list[Heard] = [self._heard]

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, app: Sexton) -> AsyncIterator[Self]:
        """Open the application and everything beside it; refuses what would not be safe."""
        async with app:
            client = await app.client()
            (await app.schema_state()).demand_current()
            pool = Pool(client.address, app.settings.pool_size)
            try:
                await demand_role(client.store, client.pool)
                service = cls(app, pool, client.store)
                service._keeps_sessions = await pool.is_direct()
                tasks = [asyncio.create_task(each) for each in service._loops(client.address)]
                try:
                    yield service
                finally:
                    service.stopping.set()
                    for each in tasks:
                        each.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                    await service._last_words()
            finally:
                await pool.close()

    @contextlib.asynccontextmanager
    async def glance(self, principal: Principal) -> AsyncIterator[Desk]:
        """As a tenant, to look at one thing: each statement by itself, and none can write.

        What a transaction would set for its time is kept in the session, for whoever looks next.
        """
        if not self._keeps_sessions:
            async with self.transaction(principal, read_only=True) as desk:
                yield desk
            return
        stands = (
            f"set role {self.schema}_tenant; set {self.schema}.tenant = {principal.tenant_id:d}; "
            "set default_transaction_read_only = on"
        )
        async with (
            self._turns.of(principal.tenant_id),
            self.pool.session(stands) as connection,
        ):
            yield Desk(self, principal, connection, _NOWHERE)

    @contextlib.asynccontextmanager
    async def transaction(
        self,
        principal: Principal,
        *,
        read_only: bool = False,
        origin: Origin = _NOWHERE,
        operating: bool = False,
    ) -> AsyncIterator[Desk]:
        """A tenant's transaction: as its role, with its id, and with its lines of the audit log.

        `operating` is for what an operator does to tenants and to their keys: as the owner of the
        tables, who sees them all, and by itself nothing of it is a tenant's.
        """
        begin = "begin read only" if read_only else self._begin
        if operating:
            assert principal.operates_all, "the route has refused everybody else"
            pool = self.owner.source
            assert isinstance(pool, Pool)
        else:
            pool = self.pool
            begin += f"; set local role {self.schema}_tenant"
        begin += f"; set local {self.schema}.tenant = {principal.tenant_id:d}"
        async with (
            self._turns.of(principal.tenant_id),
            pool.transaction(ours=True, begin=begin, any_session=True) as connection,
        ):
            desk = Desk(self, principal, connection, origin)
            yield desk
            await desk.finish()
        for each in desk.afterwards:
            try:
                each()
            except Exception:  # what was committed is done, whatever becomes of this
                log.exception("something after a commit failed")

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Hear the notifications of the database, None after a gap; returns how to stop.

        A notification is a hint that may be lost: whoever waits for one polls as well.
        """
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def _heard(self, payload: str | None) -> None:
        if payload is None:
            self.rulebook.forget()
        if payload is None or payload in (KEYS, TENANTS):
            self.access.forget()
            self.limits.forget()

    def _loops(self, address: Address) -> list[Coroutine[Any, Any, None]]:
        loops = errands(self.owner, self.access, self.stopping)
        direct = self.app._listen_address(address)
        if direct is not None:
            listener = Listener(direct, self.schema, self._tell, address)
            loops.append(listener.run(self.stopping))
        return loops

    def _tell(self, payload: str | None) -> None:
        for each in [*self._listeners]:
            each(payload)

    async def _last_words(self) -> None:
        with contextlib.suppress(Exception):
            if used := self.access.used():
                await self.owner.keys.used(used)
