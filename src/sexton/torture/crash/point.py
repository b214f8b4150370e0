"""One crash point: a step, cut at one message in one way, and what became of it."""

import asyncio
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sexton.store.cluster import THINKING
from sexton.torture.crash.places import end_of, missing
from sexton.torture.crash.site import Site
from sexton.torture.crash.stage import LEASE, START_WITHIN, VICTIM, WITHIN, Stage, TooLate, stage
from sexton.torture.crash.statements import OWNED
from sexton.torture.crash.steps import Step
from sexton.torture.crash.verify import violations
from sexton.torture.proxy import Tally, Trip, Tripped
from sexton.torture.proxy.faults import Action

# How each way is done to the victim: by which action of its proxy, and to which connections.
WAYS: dict[str, Trip] = {
    "kill": Trip(0, "hold"),  # the process dies at this message, and is started again
    "stop": Trip(0, "hold"),  # the process stands still, and goes on when others are at it
    "reset": Trip(0, "reset"),  # this connection; the process goes on
    "silence": Trip(0, "blackhole"),  # this connection, for a while; what was sent arrives later
    "blackhole": Trip(0, "blackhole", scope="all"),  # the process is cut off, another is started
    "lose_reply": Trip(0, "lose_reply"),  # the server does all it was told, and nobody hears
}
NOTHING = "nothing"  # what goes wrong without being cut
LONGEST = 120.0
# What was wanted of a step may be there before all of its statements are exchanged: so long they
# are waited for.
AFTERWARDS = 5.0
# Silence ends when somebody else is at it, or through with it, so that what comes late meets what
# came instead. A statement that has begun keeps its job locked until its session is ended, and who
# does that waits for so long at least; the rest is for leases and for busy machines.
GO_ON_WITHIN = THINKING + WITHIN


@dataclass(frozen=True)
class Point:
    """Which one; `at` is the place of a message."""

    step: str
    way: str
    at: str
    pooler: bool = False

    @property
    def command(self) -> str:
        which = f"--step {self.step} --way {self.way} --at {shlex.quote(self.at)}"
        return f"python -m sexton.torture.crash {which}{' --pooler' if self.pooler else ''}"


@dataclass(frozen=True)
class Verdict:
    """What became of a point; it has passed if it was reached and nothing is wrong."""

    point: Point
    message: Tripped | None
    wrong: tuple[str, ...]
    seconds: float
    said: str = ""
    tries: int = 1

    @property
    def reached(self) -> bool:
        return self.message is not None

    @property
    def passed(self) -> bool:
        return self.reached and not self.wrong


class Broken(Exception):
    """A step goes wrong although nobody cuts it."""

    def __init__(self, step: str, wrong: Sequence[str]) -> None:
        super().__init__(f"{step} goes wrong without a fault: {list(wrong)}")
        self.verdict = Verdict(Point(step, NOTHING, ""), None, tuple(wrong), 0.0)


async def messages(site: Site, step: Step) -> list[str]:
    """The places of a step when nothing is wrong, to the end of its last exchange."""
    async with asyncio.timeout(LONGEST), stage(site) as there:
        await step.prepare(there)
        proxy = there.proxy(VICTIM)
        await site.proxies.arm(proxy, Trip(0, "count", about=step.subjects))
        try:
            await step.act(there)
            await there.until("the step is over", lambda: step.done(there))
        except TooLate as error:
            raise Broken(step.name, [str(error), *await violations(there)]) from error
        await there.wait(lambda: _exchanged(there, step), AFTERWARDS)
        tally = await site.proxies.tally(proxy)
        if wrong := await violations(there):
            raise Broken(step.name, wrong)
    end = _end(there, step, tally)
    if end is None:
        lacks = ", ".join(missing(step.needs, tally.places)) or "its commit"
        raise TooLate(f"{step.name} was over without {lacks}")
    return [*tally.places[:end]]


def _end(there: Stage, step: Step, tally: Tally) -> int | None:
    return end_of(step.needs, tally.places, tally.links if there.site.pooler else None)


async def _exchanged(there: Stage, step: Step) -> bool:
    """Whether all that the step needs has gone through."""
    return _end(there, step, await there.site.proxies.tally(there.proxy(VICTIM))) is not None


async def run(site: Site, step: Step, point: Point) -> Verdict:
    """Try it; whatever goes wrong is the verdict."""
    began = time.monotonic()
    message: Tripped | None = None
    wrong: list[str] = []
    said = ""
    async with stage(site) as there:
        try:
            async with asyncio.timeout(LONGEST):
                await step.prepare(there)
        except (TooLate, TimeoutError) as error:
            # A machine that is too busy to set the scene has not shown anything.
            return Verdict(point, None, (), time.monotonic() - began, f"{error}\n{there.said()}")
        try:
            async with asyncio.timeout(LONGEST):
                message = await _cut(there, step, point)
                if message is not None:
                    await _recover(there, step, point.way)
                    wrong = await violations(there)
        except (TooLate, TimeoutError) as error:
            wrong = [str(error) or f"not over within {LONGEST:g} s", *await violations(there)]
        if wrong:
            said = there.said()
    return Verdict(point, message, tuple(wrong), time.monotonic() - began, said)


async def _cut(there: Stage, step: Step, point: Point) -> Tripped | None:
    """Set the step off and wait for the message; None: it was over without that."""
    proxies, proxy = there.site.proxies, there.proxy(VICTIM)
    way = WAYS[point.way]
    action: Action = way.do
    trip = Trip(0, action, about=step.subjects, scope=way.scope, place=point.at)
    await proxies.arm(proxy, trip)
    acting = asyncio.create_task(step.act(there))

    async def reached_or_done() -> bool:
        return bool(proxies.has_tripped(proxy)) or (acting.done() and await step.done(there))

    async def reached_or_over() -> bool:
        return bool(proxies.has_tripped(proxy)) or await _exchanged(there, step)

    try:
        if not await there.wait(reached_or_done, WITHIN):
            raise TooLate(f"{point.at} of {step.name} did not come, nor its end")
        await there.wait(reached_or_over, AFTERWARDS)
    finally:
        await acting
    return proxies.has_tripped(proxy)


async def _recover(there: Stage, step: Step, way: str) -> None:
    """Until everything is well again; somebody must have gone on before the network is back."""
    proxies, proxy = there.site.proxies, there.proxy(VICTIM)
    before, but = len(there.effects()), None if way == "silence" else VICTIM
    if way == "kill":
        there.kill(VICTIM)
        await there.until("its connections are closed", lambda: _closed(there, proxy))
        await proxies.release(proxy)
        if not step.leaves:
            await there.restart(VICTIM)
    elif way == "stop":
        there.stop(VICTIM)

    async def overtaken_or_over() -> bool:
        return there.overtaken(before, but) or await step.done(there)

    async def there_or_over() -> bool:
        return there.is_ready("substitute") or await overtaken_or_over()

    if way in ("blackhole", "stop") and not step.leaves:
        await there.start("substitute", step.role, wait=False)
        await there.wait(there_or_over, START_WITHIN)  # on a busy machine that takes its time
    if way in ("blackhole", "silence", "stop"):
        if not await there.wait(overtaken_or_over, GO_ON_WITHIN):
            raise TooLate(f"nobody went on in its place within {GO_ON_WITHIN:g} s")
        since = await there.sql.fetchval("select clock_timestamp()")
        if way == "stop":
            there.go_on(VICTIM)
            await proxies.release(proxy)
        else:
            await proxies.set(proxy, None)  # what was on its way arrives now
        if not step.leaves:
            await there.until_back(VICTIM, since)
    await there.until("the step is over", lambda: step.done(there))
    if step.leaves:
        await there.until("the victim has left", lambda: _gone(there))
    if step.role == "node":
        await there.until("everything is owned", lambda: _owned(there), LEASE + WITHIN)
    await there.until_quiet()


async def _gone(there: Stage) -> bool:
    return not there.is_alive(VICTIM)


async def _closed(there: Stage, proxy: str) -> bool:
    return (await there.site.proxies.tally(proxy)).open == 0


async def _owned(there: Stage) -> bool:
    living = await there.sql.fetchval("select count(*) from sexton.node where gone_at is null")
    return await there.so(OWNED, living)
