"""How much one host is asked to bear, so that one which does not answer is not waited for by all.

Each host of each tenant has so many deliveries at once, a small waiting room, and a breaker. What
does not fit is not waited for here: its job is put back, untried, until about when there will be
room. A host that fails time after time is left alone for a while, then tried with one delivery.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable

# Failures in a row, over all its deliveries, until a host is left alone; and for how long.
FAILURES = 5
FIRST_REST, LONGEST_REST = 5.0, 300.0
# One that has not answered for a while is trusted with a quarter of the deliveries at once.
TRUSTED_FOR = 60.0
CAUTION = 4
# The waiting room holds what the host does in this time; nobody waits in it for longer than that.
ROOM_FOR = 1.0
WAIT_FOR = 2.0
# Seconds that an answer takes, of a host that is new here; each answer has its part in it. Silence
# that is shorter may be our own.
AT_FIRST, SHARE = 0.05, 0.1
OUR_OWN = 0.5
# When to come back: at no less than so many a second, and not at once.
SLOWEST = 2.0
SOONEST, LATEST = 0.25, 300.0
FORGET_AFTER = 600.0
MANY = 1000

log = logging.getLogger("sexton.http")

Clock = Callable[[], float]


class Busy(Exception):
    """No room at this host; come back after `delay` seconds."""

    def __init__(self, delay: float, why: str) -> None:
        super().__init__(why)
        self.delay = delay


class Host:
    """One host, as one worker sees it."""

    def __init__(self, name: str, most: int, room: int, now: Clock = time.monotonic) -> None:
        self.name = name
        self._most = most
        self._room_at_first = room
        self._now = now
        self.running = 0
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._failures = 0
        self._rest_until = 0.0
        self._rest_for = 0.0  # more than 0: it failed, and has not answered since
        self._quiet_until = 0.0  # because it asked for it
        self._answered_at = -TRUSTED_FOR
        self._promised_until = 0.0
        self._takes = AT_FIRST
        self._silent_since = now()
        self.used_at = now()

    # ── entering ────────────────────────────────────────────────────────────

    async def enter(self) -> None:
        """Return when a delivery may begin; raise Busy if it had better come back later."""
        now = self.used_at = self._now()
        if now < self._left_alone_until:
            raise self._left_alone(now)
        if self._rest_for and self.running:
            raise self._busy(now, "is being tried")
        if not self.running:
            self._silent_since = now
        if self.running < self._limit(now) and not self._waiting:
            self.running += 1
            return
        if len(self._waiting) >= self._room(now):
            raise self._busy(now)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, now))
        if self._sweep is None:
            self._sweep_later(WAIT_FOR)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave()  # it had just been let in
            raise

    @property
    def _left_alone_until(self) -> float:
        return max(self._rest_until, self._quiet_until)

    def _limit(self, now: float) -> int:
        if self._rest_for:
            return 1
        return self._most if self._trusted(now) else max(1, self._most // CAUTION)

    def _room(self, now: float) -> int:
        room = max(1, int(self._pace(now) * ROOM_FOR))
        return room if self._trusted(now) else min(room, self._room_at_first)

    def _trusted(self, now: float) -> bool:
        return now - self._answered_at < TRUSTED_FOR

    def _pace(self, now: float) -> float:
        """Deliveries that it can take in a second; its silence counts against it."""
        silent = now - self._silent_since - OUR_OWN
        return self._limit(now) / max(self._takes, silent, 0.0001)

    # ── leaving ─────────────────────────────────────────────────────────────

    def answered(self, took: float, quiet_for: float = 0.0) -> None:
        """It answered, whatever that was; perhaps that it wants nothing more for so long."""
        now = self._now()
        if self._rest_for:
            log.info("%s answers again", self.name)
        self._failures = 0
        self._rest_for = self._rest_until = 0.0
        self._answered_at = self._silent_since = now
        self._takes += (took - self._takes) * SHARE
        if quiet_for > 0:
            self._quiet_until = max(self._quiet_until, now + min(quiet_for, LONGEST_REST))
            self._send_away(now)
        self._leave()

    def failed(self) -> None:
        """No connection, no answer in time, or one that says that it is broken."""
        now = self._now()
        self._failures += 1
        # Those that were under way with the one that was too many fail too, and change nothing.
        if (self._rest_for or self._failures >= FAILURES) and now >= self._rest_until:
            self._rest_for = min(max(2 * self._rest_for, FIRST_REST), LONGEST_REST)
            self._rest_until = now + self._rest_for * (0.9 + 0.2 * random.random())
            log.warning(
                "%s failed %d times in a row and is left alone for %.0f s",
                *(self.name, self._failures, self._rest_until - now),
            )
            self._send_away(now)
        self._leave()

    def abandoned(self) -> None:
        """The delivery was given up here, which says nothing about the host."""
        self._leave()

    def _leave(self) -> None:
        self.running -= 1
        now = self._now()
        while self._waiting and self.running < self._limit(now) and now >= self._left_alone_until:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    def _send_away(self, now: float) -> None:
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(self._left_alone(now))

    def _sweep_later(self, seconds: float) -> None:
        self._sweep = asyncio.get_running_loop().call_later(seconds, self._sweep_now)

    def _sweep_now(self) -> None:
        """Nobody waits for long: their slots are wanted for other hosts."""
        self._sweep = None
        now = self._now()
        while self._waiting and self._waiting[0][1] <= now - WAIT_FOR:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(self._busy(now))
        if self._waiting:
            self._sweep_later(max(0.01, self._waiting[0][1] + WAIT_FOR - now))

    # ── later ───────────────────────────────────────────────────────────────

    def _busy(self, now: float, why: str = "has enough to do") -> Busy:
        return Busy(self._later(now, SOONEST), f"{self.name} {why}")

    def _left_alone(self, now: float) -> Busy:
        why = "asked for a pause" if self._quiet_until > self._rest_until else "does not answer"
        least = max(SOONEST, self._left_alone_until - now)
        return Busy(self._later(now, least), f"{self.name} {why} and is left alone")

    def _later(self, now: float, least: float) -> float:
        """When there will be room for one more: each that is sent away comes after the others."""
        self._promised_until = max(self._promised_until, now + least)
        self._promised_until += 1 / max(self._pace(now), SLOWEST)
        latest = least + LATEST
        if self._promised_until < now + latest:
            return self._promised_until - now
        self._promised_until = now + latest
        return least + LATEST * (0.5 + random.random() / 2)

    @property
    def resting(self) -> bool:
        return self._rest_for > 0 or self._now() < self._quiet_until

    @property
    def forgettable(self) -> bool:
        idle = not self.running and not self._waiting
        return idle and self._now() - self.used_at > FORGET_AFTER


class Hosts:
    """The hosts that a worker has lately delivered to."""

    def __init__(self, most: int, room: int, now: Clock = time.monotonic) -> None:
        self._most = most
        self._room = room  # for one that has not answered yet
        self._now = now
        self._hosts: dict[tuple[int, str], Host] = {}
        self._clean_at = MANY

    def of(self, tenant: int, place: str) -> Host:
        """A tenant's own: what another does to a host that both use must not hold it up."""
        host = self._hosts.get((tenant, place))
        if host is None:
            if len(self._hosts) >= self._clean_at:
                self._hosts = {k: each for k, each in self._hosts.items() if not each.forgettable}
                self._clean_at = max(MANY, 2 * len(self._hosts))
            host = self._hosts[tenant, place] = Host(place, self._most, self._room, self._now)
        return host

    @property
    def resting(self) -> int:
        """How many are left alone at this moment."""
        return sum(host.resting for host in self._hosts.values())
