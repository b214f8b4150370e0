"""Running an application's jobs by hand: one by one, all that is ready, or to exhaustion."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from sexton.app import Sexton
from sexton.domain.duration import Duration, seconds
from sexton.domain.job import Claim, JobView, State
from sexton.flow import reap
from sexton.targets.task import Call, Task
from sexton.testing.blocking import BlockingHarness
from sexton.testing.clock import ManualClock
from sexton.testing.engine import Engine
from sexton.testing.lifetime import Lifetimes
from sexton.testing.matching import Wanted, listing, missing, unexpected
from sexton.testing.ran import HarnessError, Ran, endless

BATCH = 500
LIMIT = 1000
_PAGE = 500


class Harness:
    """Claims, runs and settles the jobs of an application, when a test says so and never else.

    Jobs run one after the other, in the order in which they are claimed. A retry waits for the
    longest its policy allows, not for a random part of it (`noise`, from 0 to 1; None is random).
    """

    def __init__(self, app: Sexton, *, noise: float | None = 1.0) -> None:
        if noise is not None and not 0 <= noise <= 1:
            raise HarnessError(f"noise is {noise!r}: from 0 to 1, or None for a random one")
        self.app = app
        self.ran: list[Ran] = []
        self.lifetimes = Lifetimes()
        self._noise = noise
        self._engines: dict[asyncio.AbstractEventLoop, Engine] = {}

    @property
    def sync(self) -> BlockingHarness:
        """The same for tests that do not await."""
        return BlockingHarness(self)

    @property
    def clock(self) -> ManualClock:
        """The application's manual clock."""
        if not isinstance(self.app.clock, ManualClock):
            raise HarnessError(
                "this application goes by the database's clock: give it another to move, "
                "Sexton(clock=ManualClock()), or use the fixture sexton_harness"
            )
        return self.app.clock

    async def __aenter__(self) -> Self:
        await self._engine()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what this loop has open, the application's connections too."""
        engine = self._engines.get(asyncio.get_running_loop())
        if engine is not None:
            await engine.leave()
        await self.lifetimes.end_here()
        await self.app.close()

    async def _engine(self) -> Engine:
        loop = asyncio.get_running_loop()
        engine = self._engines.get(loop)
        if engine is None:
            engine = Engine(self.app, await self.app.client(), self._noise)
            self._engines[loop] = engine

            async def close() -> None:
                self._engines.pop(loop, None)
                await engine.close()

            self.lifetimes.add(close)
        return engine

    # ── running ─────────────────────────────────────────────────────────────

    async def run_once(self, *, limit: int = BATCH, strict: bool = False) -> list[Ran]:
        """Run what is ready now, but not what becomes ready by that."""
        engine = await self._engine()
        claims: list[tuple[str, Claim]] = []
        for queue in await engine.ready_queues():
            if room := limit - len(claims):
                claims += [(queue, claim) for claim in await engine.claim(queue, room)]
        return await self._run(engine, claims, strict)

    async def drain(self, *, limit: int = LIMIT, strict: bool = False) -> list[Ran]:
        """Run until nothing is ready now; the clock is not moved.

        With `strict` the first failure is raised as the task raised it.
        """
        ran: list[Ran] = []
        while batch := await self.run_once(limit=min(BATCH, limit - len(ran)), strict=strict):
            ran += batch
            if len(ran) >= limit and await (await self._engine()).ready_queues():
                raise endless(ran)
        return ran

    async def advance(self, by: Duration, *, limit: int = LIMIT, strict: bool = False) -> list[Ran]:
        """Let this time pass: everything that becomes due in it runs at its own instant."""
        return await self._pass(seconds(by), limit, strict)

    async def exhaust(self, *, limit: int = LIMIT, strict: bool = False) -> list[Ran]:
        """Run until nothing is live, moving the clock to each next retry and delayed job."""
        ran = await self._pass(None, limit, strict)
        if left := await self.jobs():
            raise HarnessError(
                "these jobs are neither waiting nor can they be claimed; another worker has "
                "them, or all that max_running allows:\n" + listing(left)
            )
        return ran

    async def _pass(self, by: float | None, limit: int, strict: bool) -> list[Ran]:
        clock = self.clock
        until = None if by is None else clock.now + timedelta(seconds=by)
        engine = await self._engine()
        ran: list[Ran] = []
        while True:
            ran += await self.drain(limit=limit - len(ran), strict=strict)
            due_in = await engine.next_due_in()
            if due_in is None:
                break
            due_at = clock.now + timedelta(seconds=due_in)
            if until is not None and due_at > until:
                break
            if len(ran) >= limit:
                raise endless(ran)
            clock.move_to(due_at)
        if until is not None and clock.now < until:
            clock.move_to(until)
        return ran

    async def run_inline(self, call: Call) -> Any:
        """Enqueue this call and run it at once, due or not, before and without any other job.

        Returns its result as history keeps it, or raises what the task raised; the job is then
        where its policy has put it: waiting for a retry, or dead.
        """
        enqueued = await self.app.enqueue_call(call)
        if enqueued.duplicate:
            raise HarnessError(
                f"nothing to run: job {enqueued.id} holds the key {call.job.key!r}; "
                "drain() runs that one"
            )
        engine = await self._engine()
        claim = await engine.claim_one(enqueued.id)
        if claim is None:
            raise HarnessError(f"job {enqueued.id} was claimed by somebody else: is a worker on?")
        [ran] = await self._run(engine, [(call.job.queue, claim)], strict=False)
        return ran.value()

    async def _run(
        self, engine: Engine, claims: Sequence[tuple[str, Claim]], strict: bool
    ) -> list[Ran]:
        batch: list[Ran] = []
        running = engine.run(claims)
        try:
            async for ran in running:
                batch.append(ran)
                self.ran.append(ran)
                if strict and ran.outcome == "failed":
                    raise ran.failure()
        finally:
            await running.aclose()
        return batch

    async def reap(self) -> int:
        """Declare lost the workers whose lease ran out; returns how many attempts went with them.
        Only of use with workers that a test made itself."""
        return await reap.run_once((await self._engine()).store)

    # ── looking ─────────────────────────────────────────────────────────────

    async def jobs(
        self,
        task: str | Task[Any, Any] | None = None,
        *,
        queue: str | None = None,
        state: State | None = None,
        tag: str | None = None,
    ) -> list[JobView]:
        """All live jobs that fit, oldest first."""
        name = task.name if isinstance(task, Task) else task
        found: list[JobView] = []
        while True:
            page = await self.app.jobs(
                task=name,
                queue=queue,
                state=state,
                tag=tag,
                before=found[-1].id if found else None,
                limit=_PAGE,
            )
            found += page
            if len(page) < _PAGE:
                return found[::-1]

    async def assert_enqueued(
        self,
        task: str | Task[Any, Any],
        *,
        times: int | None = None,
        **wanted: Any,
    ) -> list[JobView]:
        """There are live jobs like this, at least one or exactly `times`; returns them.

        `wanted` is any of arguments (some or all of them), key, queue, tags, priority, due_at
        and state.
        """
        asked = Wanted.of(task, wanted)
        live = await self.jobs()
        found = [each for each in live if asked.fits(each)]
        if not found if times is None else len(found) != times:
            raise AssertionError(missing(asked, live, found, times))
        return found

    async def assert_not_enqueued(self, task: str | Task[Any, Any], **wanted: Any) -> None:
        """There is no live job like this."""
        asked = Wanted.of(task, wanted)
        found = [each for each in await self.jobs() if asked.fits(each)]
        if found:
            raise AssertionError(unexpected(asked, found))
