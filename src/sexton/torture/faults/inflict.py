"""Faults, done to real processes at the moments that the plan names."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace

from sexton.torture.check.evidence import BACK_WITHIN as EXCUSED_FOR
from sexton.torture.check.folder import SECOND
from sexton.torture.faults.log import FaultLog
from sexton.torture.faults.plan import Planned
from sexton.torture.faults.plight import Plight
from sexton.torture.proxy import (
    Blackhole,
    Fault,
    HalfOpen,
    Latency,
    Refuse,
    Superseded,
    Trip,
)
from sexton.torture.stand import Process, Stand, StandError
from sexton.torture.stand.errors import AWAY

# What an orderly end may take beyond the grace that its tasks have, on a host with other worries.
END_WITHIN = 20.0
READY_WITHIN = 60.0
# After an outage, not counting the time in which the server or the way there was in trouble. Who
# takes longer than the checker excuses is a finding.
BACK_WITHIN = EXCUSED_FOR / SECOND
_LOOK_EVERY = 0.1
# What is done to processes themselves, and not to what they need.
_OF_PROCESSES = ("kill", "stop", "rolling", "clock", "outage")
_SIDES: Mapping[str, str] = {"up": "frontend", "down": "backend"}
_LEADER = "select node.name from {}.leader join {}.node on node.id = leader.node_id"


class Inflictor:
    """Does what was planned; what cannot be done just then is noted, and the run goes on."""

    def __init__(self, stand: Stand, log: FaultLog, *, schema: str, grace: float) -> None:
        self._stand = stand
        self._log = log
        self._grace = grace
        self._leader = _LEADER.format(schema, schema)
        self._standing: dict[str, int] = {}  # which fault has the proxy of whom
        self._armed: dict[str, int] = {}  # and which one has a trip there
        self._stopped: dict[int | None, float] = {}  # by process, until when
        self._plight = Plight()
        self._kinds: dict[str, Callable[[Planned], Awaitable[None]]] = {
            "kill": self._kill,
            "stop": self._stop,
            "rolling": self._rolling,
            "clock": self._clock,
            "latency": self._latency,
            "blackhole": self._blackhole,
            "half_open": self._half_open,
            "refuse": self._refuse,
            "reset": self._reset,
            "message": self._message,
            "restart": self._server,
            "immediate": self._server,
            "kill9": self._server,
            "promote": self._server,
            "terminate": self._terminate,
            "connections": self._connections,
            "hog": self._hog,
            "outage": self._outage,
        }

    async def run(self, plan: Sequence[Planned], began: float) -> None:
        """All of it, counted from `began` on the monotonic clock; then everybody is well again."""
        faults = [asyncio.create_task(self._at_its_time(each, began)) for each in plan]
        try:
            await asyncio.gather(*faults)
        finally:
            for fault in faults:
                fault.cancel()
            await asyncio.gather(*faults, return_exceptions=True)
            await self._let_go()
        for process in self._stand.processes.values():
            await self._up(process)

    async def _let_go(self) -> None:
        """Nothing stands in anybody's way any more."""
        proxies = self._stand.proxies
        for name in (*self._armed,):
            await proxies.arm(name, None)
        for name in (*self._standing,):
            await proxies.set(name, None)
        self._armed.clear()
        self._standing.clear()
        for process in self._stand.processes.values():
            await process.cont()

    async def _at_its_time(self, planned: Planned, began: float) -> None:
        await asyncio.sleep(max(0.0, began + planned.at_s - time.monotonic()))
        target = planned.target
        if target == "leader":
            leads = {**planned.detail, "leads": True}
            planned = replace(planned, target=await self._who_leads(), detail=leads)
        self._log.begin(
            *(planned.n, planned.fault, planned.target, planned.for_s), **planned.detail
        )
        of_process = planned.fault in _OF_PROCESSES
        with nullcontext() if of_process else self._plight.trouble(planned.target):
            try:
                await self._kinds[planned.fault](planned)
                self._log.end(planned.n, planned.fault, planned.target)
            except (StandError, *AWAY) as error:
                said = f"{type(error).__name__}: {error}"
                self._log.end(planned.n, planned.fault, planned.target, failed=said)

    async def _who_leads(self) -> str:
        """By name; if nobody can be asked just now, the first node."""
        with suppress(*AWAY):
            async with self._stand.connection() as connection:
                name: str | None = await connection.fetchval(self._leader)
                if name in self._stand.processes:
                    return name
        return self._stand.of("node")[0].name

    async def _up(self, process: Process) -> None:
        if not process.alive and not self._plight.is_away(process.name):
            await process.start()
            self._plight.whole(process.name)

    # ── processes ───────────────────────────────────────────────────────────

    async def _kill(self, planned: Planned) -> None:
        process = self._stand.processes[planned.target]
        self._plight.hurt(process.name, planned.for_s)
        await process.kill9()
        await asyncio.sleep(planned.for_s)
        await self._up(process)

    async def _stop(self, planned: Planned) -> None:
        """If there are several at once, until the last of them is over."""
        process = self._stand.processes[planned.target]
        pid, until = process.pid, time.monotonic() + planned.for_s
        self._stopped[pid] = max(until, self._stopped.get(pid, 0.0))
        if process.alive:
            self._plight.hurt(process.name, planned.for_s)
        await process.stop_signal()
        await asyncio.sleep(planned.for_s)
        if process.pid == pid and self._stopped[pid] <= until:
            await process.cont()

    async def _rolling(self, planned: Planned) -> None:
        """One after the other, the next when the one before is ready. Who does not end or come back
        is a finding, unless another fault held it up meanwhile."""
        for process in self._family(planned.target):
            if self._plight.is_away(process.name):
                continue
            await process.cont()
            self._plight.whole(process.name)
            began = time.monotonic()
            try:
                end = await process.term(self._grace + END_WITHIN)
                self._log.note("ended", process.name, **end._asdict())
            except StandError as error:
                if not self._plight.was_hurt(process.name, began):
                    self._log.note("did not end", process.name, error=str(error))
                raise
            finally:
                self._plight.deployed(process.name)
                await self._up(process)
            if not self._plight.is_away(process.name):
                began = time.monotonic()
                try:
                    await process.wait_ready(READY_WITHIN, kept=True)
                except StandError as error:
                    if not self._plight.was_hit(process.name, began):
                        self._log.note("did not come back", process.name, error=str(error))
                    raise

    async def _outage(self, planned: Planned) -> None:
        """It is over when all of them are back: so many at once take their time to start."""
        family = self._family(planned.target)
        with self._plight.away(process.name for process in family):
            for process in family:
                self._plight.hurt(process.name, planned.for_s)
                await process.kill9()
            await asyncio.sleep(planned.for_s)
        for process in family:
            await self._up(process)
        await asyncio.gather(*(self._returns(process) for process in family))

    async def _returns(self, process: Process) -> None:
        """Unless another fault takes it down again, and sees to it that it comes back."""
        name, spent = process.name, 0.0
        began = looked = time.monotonic()
        while not await process.is_ready():
            now = time.monotonic()
            if self._plight.was_hit(name, began):
                self._log.note("hit again", name)
                return
            # Without a server nobody can be ready.
            spent += 0.0 if self._plight.in_trouble(name) else now - looked
            looked = now
            if spent > BACK_WITHIN:
                self._log.note("did not come back", name, error=process.tail())
                return
            await asyncio.sleep(_LOOK_EVERY)
        alone = not self._plight.was_in_trouble(name, began)
        self._log.note("came back", name, after=round(time.monotonic() - began, 3), alone=alone)

    async def _clock(self, planned: Planned) -> None:
        self._stand.processes[planned.target].clock(planned.detail["offset"])

    def _family(self, name: str) -> list[Process]:
        match name:
            case "nodes":
                return self._stand.of("node")
            case "workers":
                return self._stand.of("worker")
            case "apis":
                return self._stand.of("api")
            case _:
                return self._stand.of("node", "worker", "api")

    # ── the network ─────────────────────────────────────────────────────────

    async def _latency(self, planned: Planned) -> None:
        slow = planned.detail
        await self._for_a_while(planned, Latency(slow["ms"], slow["jitter_ms"]))

    async def _blackhole(self, planned: Planned) -> None:
        silent = Blackhole(planned.detail["up"], planned.detail["down"])
        await self._for_a_while(planned, silent)

    async def _half_open(self, planned: Planned) -> None:
        """The server's side of every connection is gone, and the process is not told."""
        await self._for_a_while(planned, HalfOpen(), cut=True)

    async def _refuse(self, planned: Planned) -> None:
        await self._for_a_while(planned, Refuse(), cut=True)

    async def _reset(self, planned: Planned) -> None:
        await self._stand.proxies.cut(planned.target)

    async def _for_a_while(self, planned: Planned, fault: Fault, *, cut: bool = False) -> None:
        name = planned.target
        self._standing[name] = planned.n
        await self._stand.proxies.set(name, fault)
        if cut:
            await self._stand.proxies.cut(
                name, side="server" if isinstance(fault, HalfOpen) else "both"
            )
        await asyncio.sleep(planned.for_s)
        await self._lift(planned)

    async def _lift(self, planned: Planned) -> None:
        """Unless another fault has taken its place."""
        if self._standing.get(planned.target) == planned.n:
            del self._standing[planned.target]
            await self._stand.proxies.set(planned.target, None)

    async def _message(self, planned: Planned) -> None:
        name, proxies = planned.target, self._stand.proxies
        self._standing[name] = self._armed[name] = planned.n
        how, k, side = (planned.detail[each] for each in ("how", "k", "side"))
        await proxies.arm(name, Trip(k, how, _SIDES[side], ready=True))  # type: ignore[arg-type]
        with suppress(TimeoutError, Superseded):
            tripped = await proxies.tripped(name, timeout=planned.for_s)
            self._log.note("tripped", name, n=planned.n, nth=tripped.at, type=tripped.type)
            if how == "blackhole":
                await asyncio.sleep(planned.for_s)
        if self._armed.get(name) == planned.n:
            del self._armed[name]
            await proxies.arm(name, None)
        await self._lift(planned)

    # ── the server and the host ─────────────────────────────────────────────

    async def _server(self, planned: Planned) -> None:
        pair = self._stand.pair
        assert pair is not None, "the server is not ours"
        match planned.fault:
            case "restart":
                await pair.restart("fast", planned.for_s)
            case "immediate":
                await pair.restart("immediate", planned.for_s)
            case "kill9":
                await pair.kill9(planned.for_s)
            case _:
                await pair.promote()

    async def _terminate(self, planned: Planned) -> None:
        ended = await self._stand.sessions.terminate(planned.detail["share"], planned.n)
        self._log.note("terminated", "postgres", n=planned.n, sessions=ended)

    async def _connections(self, planned: Planned) -> None:
        async with self._stand.sessions.fill() as held:
            self._log.note("filled", "postgres", n=planned.n, sessions=len(held))
            await asyncio.sleep(planned.for_s)

    async def _hog(self, planned: Planned) -> None:
        self._stand.burn(planned.for_s, planned.detail["processes"])
        await asyncio.sleep(planned.for_s)
