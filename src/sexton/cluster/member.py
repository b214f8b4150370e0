"""A node's membership of the cluster, kept by a thread and a connection of its own.

The node's event loop may be busy: the thread still gets its turn to say that the node lives. What
it learns (which partitions are ours, whether we lead) it tells that loop, and believes itself only
until the lease that it *asked* for could be over. Nothing of this guards the schedules: that does
the epoch, in the statement that fires (see `sql/migrations/0002_cluster.sql`).
"""

import asyncio
import contextlib
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime

from sexton.cluster.clock import DatabaseClock
from sexton.cluster.lead import balance, hand_over
from sexton.cluster.owner import Owner
from sexton.cluster.standing import Owned, Standing
from sexton.cluster.zones import edition
from sexton.domain.lease import Lease
from sexton.store import Line, Store
from sexton.store.cluster import Beat, Cluster
from sexton.store.connection import Address, is_lost, is_transient, say
from sexton.store.listen import Listener
from sexton.store.pause import Backoff, wait

__all__ = ["Member", "Owned"]

log = logging.getLogger("sexton.cluster")

CHANGED = "cluster"  # what the notification of a change says
# Everybody hears of a change at the same moment; several changes are looked at together.
SPREAD = 0.01
# While nobody leads and somebody else is just taking the seat.
SOON = 0.05
# An event loop that has not turned for so many leases does not fire: others shall.
STALLED_AFTER = 2.0


class Member:
    """Joins, says that it lives, leads if it is elected, and joins again if it was lost."""

    def __init__(
        self,
        address: Address,
        schema: str,
        *,
        name: str,
        version: str,
        lease: float,
        listen: Address | None,
        on_change: Callable[[Owned | None], None],
        report: Callable[[], tuple[int, datetime | None]],
    ) -> None:
        self._address = address
        self._schema = schema
        self._name, self._version, self._lease = name, version, lease
        self._listen = listen
        self._on_change, self._report = on_change, report
        # A statement that hangs must leave time for another before the lease is over.
        self._patience = min(address.patience, lease / 3)
        self._owner = Owner(asyncio.get_running_loop(), self._abandoned)
        self._thread = threading.Thread(target=self._main, name="sexton-node", daemon=True)
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop, self._nudge = asyncio.Event(), asyncio.Event()
        self._leaving = False
        self._listener: Listener | None = None
        self._standing: Standing | None = None
        self._lapse: asyncio.TimerHandle | None = None
        self._told: Owned | None = None
        self._failure: str | None = None
        # Since when heartbeats have gone through without a gap; a leader judges others by it.
        self._steady_since = 0.0
        self._evict_at = 0.0
        self.clock = DatabaseClock()
        self.renewed = self.failed = 0

    # ── for the node ────────────────────────────────────────────────────────

    def start(self) -> None:
        self._thread.start()

    async def leave(self) -> None:
        """Give everything to the others and end; if PostgreSQL is away, after one lease at most."""
        self._leaving = True
        await self.stop()

    async def stop(self) -> None:
        """End without a word, as a crash would: the others wait for the lease to be over."""
        if self._thread.ident is None:
            return
        await asyncio.to_thread(self._started.wait)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._end)
        await asyncio.to_thread(self._thread.join, self._lease + 4 * self._patience)

    @property
    def owned(self) -> Owned | None:
        """What may be fired at this moment; None: do not fire."""
        standing = self._standing
        return None if standing is None else standing.owned(time.monotonic())

    @property
    def leads(self) -> bool:
        standing = self._standing
        return standing is not None and standing.leads(time.monotonic())

    @property
    def leads_in(self) -> int | None:
        """The term in which this node leads; None: it does not."""
        standing = self._standing
        if standing is None or not standing.leads(time.monotonic()):
            return None
        return standing.term

    @property
    def hears(self) -> bool:
        """Whether changes are heard of at once, or only at the next heartbeat."""
        return self._listener is not None and self._listener.hears

    def database_now(self) -> datetime:
        return self.clock.now()

    def seconds_until(self, instant: datetime) -> float:
        """How long to sleep; negative for an instant that has passed."""
        return self.clock.until(instant)

    # ── life ────────────────────────────────────────────────────────────────

    def _main(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started.set()
        line = Line(Address(self._address.url, self._address.pooler, self._patience))
        cluster = Store(line, self._schema).cluster
        listening = None
        if self._listen is not None:
            self._listener = Listener(self._listen, self._schema, self._heard, self._address)
            listening = asyncio.create_task(self._listener.run(self._stop))
        rejoining = Backoff(self._lease / 3)
        try:
            while not self._stop.is_set():
                node = await self._register(cluster)
                if node is None:
                    break
                before = self.renewed
                await self._attend(cluster, node)
                if self.renewed > before:
                    rejoining.clear()
                else:  # whatever keeps declaring us lost, it is not to fill the table of nodes
                    await wait(self._stop, rejoining.next())
        finally:
            self._stand(None)
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
            await line.close()

    async def _register(self, cluster: Cluster) -> int | None:
        backoff = Backoff(self._lease / 3)
        while not self._stop.is_set():
            asked_at = time.monotonic()
            try:
                node, now = await cluster.register(
                    *(self._name, socket.gethostname(), os.getpid(), self._version, self._lease),
                    edition(),
                )
            except Exception as error:
                self._failed(error)
                await wait(self._stop, backoff.next())
                continue
            self.clock.heard(now, asked_at, time.monotonic())
            return node
        return None

    async def _attend(self, cluster: Cluster, node: int) -> None:
        """Say that we live until told to stop, declared lost, or the node's loop has stopped."""
        backoff = Backoff(self._lease / 3)
        delay = 0.0
        while not await self._pause(delay):
            if (silent_for := self._owner.silent_for) > STALLED_AFTER * self._lease:
                await self._step_back(cluster, node, silent_for)
                return
            asked_at = time.monotonic()
            try:
                beat = await cluster.heartbeat(node, self.clock.skew, *self._reported())
            except Exception as error:
                self._failed(error)
                await self._held_up(cluster, error)
                delay = backoff.next()
                continue
            backoff.clear()
            if beat is None:
                self._steady_since = asked_at
                self._stand(None)
                log.error("node %d was declared lost; joining again under another id", node)
                return
            self.clock.heard(beat.now, asked_at, time.monotonic())
            self._renewed(node, beat, Lease(self._lease, asked_at))
            delay = await self._next(cluster, node, beat, Lease(self._lease, asked_at))
        if self._leaving:
            await self._hand_over(cluster, node)

    def _renewed(self, node: int, beat: Beat, lease: Lease) -> None:
        before = self._standing
        if before is not None and not before.lease.trusted(lease.asked_at):
            self._steady_since = lease.asked_at
            log.warning("node %d renews its lease again", node)
        if beat.leads and (before is None or not before.is_leader):
            log.info("node %d leads, in term %d", node, beat.term)
        self._failure = None
        self.renewed += 1
        self._stand(Standing.of(node, beat, lease))

    async def _next(self, cluster: Cluster, node: int, beat: Beat, lease: Lease) -> float:
        """Lead, if that is ours to do; how long there is nothing to do after that."""
        # No longer than somebody's lease: whoever is to act on its end does so at once.
        watch = beat.silence_in if beat.leads else beat.leader_for
        try:
            if await self._led(cluster, node, beat):
                return 0.0  # to learn what we own now, or what there is for a leader to do
        except Exception as error:
            self._say("the cluster could not be led", error)
            await self._evict(cluster)
            watch = 4 * SOON
        else:
            # Nobody leads and nobody can be elected, or a leader looks after what holds up others.
            if (beat.leads or beat.leader_for <= 0) and time.monotonic() >= self._evict_at:
                await self._evict(cluster)
        until = lease.renew_at(random.random())
        if watch is not None:
            until = min(until, lease.asked_at + max(watch, SOON) + SPREAD * random.random())
        return max(0.0, until - time.monotonic())

    async def _led(self, cluster: Cluster, node: int, beat: Beat) -> bool:
        if self.leads and beat.restless:
            steady = time.monotonic() - self._steady_since >= self._lease
            return await balance(cluster, node, beat.term, judge=steady)
        if not beat.leads and beat.leader_for <= 0:
            return await cluster.elect(node)
        return False

    async def _held_up(self, cluster: Cluster, error: Exception) -> None:
        """A session of ours that fell silent in a heartbeat has our own row locked: if nobody else
        lives, it is for us to end it."""
        waited = not is_lost(error) or isinstance(error.__cause__, TimeoutError)
        if waited and self.owned is None and time.monotonic() >= self._evict_at:
            await self._evict(cluster)

    async def _evict(self, cluster: Cluster) -> None:
        """Nothing of ours is locked for longer than a statement takes, unless by accident."""
        self._evict_at = time.monotonic() + self._lease / 3
        try:
            for ended in await cluster.evict(self._lease):
                log.warning("ended: %s", ended)
        except Exception as error:
            self._say("sessions that hold up the cluster could not be ended", error)

    async def _hand_over(self, cluster: Cluster, node: int) -> None:
        self._stand(None)  # first: nobody may begin while we go on
        backoff = Backoff(self._lease / 3)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._lease):
                while True:
                    try:
                        await hand_over(cluster, node)
                        return
                    except Exception as error:
                        self._say(f"node {node} has not left yet", error)
                        await asyncio.sleep(backoff.next())
        log.warning("node %d could not leave: its partitions wait for its lease to be over", node)

    async def _step_back(self, cluster: Cluster, node: int, silent_for: float) -> None:
        """A loop that does not turn fires nothing: the others shall, until it does again."""
        log.error(
            "the event loop of node %d has not turned for %.1f s: its partitions go to others",
            *(node, silent_for),
        )
        await self._hand_over(cluster, node)
        while not self._owner.answered and not await wait(self._stop, SOON):
            pass

    # ── what is known ───────────────────────────────────────────────────────

    def _stand(self, standing: Standing | None) -> None:
        self._standing = standing
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
        if standing is not None:
            left = standing.lease.trusted_until - time.monotonic() + 0.001  # a timer may be early
            self._lapse = asyncio.get_running_loop().call_later(left, self._lapsed)
        self._announce()

    def _lapsed(self) -> None:
        if self.owned is None:
            why = self._failure or "this process was held up"
            log.error("the lease was not renewed in time (%s): nothing is fired here", why)
        self._announce()

    def _announce(self) -> None:
        owned = self.owned
        if owned != self._told:
            self._told = owned
            self._owner.tell(self._on_change, owned)

    def _reported(self) -> tuple[int, datetime | None]:
        try:
            return self._report()
        except Exception:
            log.exception("the node's report failed")
            return 0, None

    def _failed(self, error: Exception) -> None:
        self._steady_since = time.monotonic()
        self.failed += 1
        self._failure = say(error)
        if not is_transient(error):
            log.exception("saying that this node lives failed and will be tried again")

    def _say(self, what: str, error: Exception) -> None:
        if is_transient(error):
            log.info("%s: %s", what, say(error))
        else:
            log.exception(what)

    # ── waking ──────────────────────────────────────────────────────────────

    async def _pause(self, delay: float) -> bool:
        """Until it is time, or something has changed; whether we are to stop."""
        if await wait(self._nudge, delay) and not self._stop.is_set():
            await wait(self._stop, SPREAD * random.random())
        self._nudge.clear()
        return self._stop.is_set()

    def _heard(self, payload: str | None) -> None:
        if payload is None or payload == CHANGED:
            self._nudge.set()

    def _abandoned(self) -> None:
        """The node's loop was closed without a word: nobody is left to fire."""
        self._leaving = True
        self._end()

    def _end(self) -> None:
        self._stop.set()
        self._nudge.set()
