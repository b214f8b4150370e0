"""Random lives of schedules: fired, late, edited, paused, triggered; the audit finds nothing."""

import random
from datetime import timedelta
from typing import Any

import pytest

from sexton import Sexton
from sexton.domain.outcome import Cancelled, Failed, Outcome, Succeeded
from sexton.domain.transitions import Settlement
from sexton.errors import InvalidSchedule
from sexton.flow import reap
from sexton.store.connection import Address

from .hands import Hands, hands

WHENS: list[dict[str, Any]] = [
    {"every": 1},
    {"every": "7s"},
    {"every": 20, "jitter": 15},
    {"cron": "* * * * * *"},
    {"cron": "*/5 * * * * *", "jitter": 4},
    {"cron": "* * * * *", "jitter": 30, "jitter_kind": "fixed"},
    {"cron": "*/10 * * * * *", "exclude": ["lunch"]},
    {"cron": "30 * * * * *", "exclude": ["lunch"], "when_excluded": "next_day"},
    {"every": 3, "max_fires": 40},
    {"any": ["*/20 * * * * *", {"every": 9}]},
    {"every": 2, "ends_at": "2026-01-05T12:04:00Z"},
]
POLICIES: list[dict[str, Any]] = [
    {},
    {"misfire": "skip", "overlap": "allow"},
    {"misfire": "all", "overlap": "allow"},
    {"misfire": "all", "grace": 30, "overlap": "queue_all", "max_queued": 5},
    {"misfire": "latest", "grace": 15, "overlap": "queue_one"},
    {"misfire": "all", "overlap": "allow", "max_running": 3},
    {"misfire": "latest", "overlap": "replace"},
]
OUTCOMES: list[Outcome] = [Succeeded(), Failed("no"), Failed("no", permanent=True), Cancelled()]
ABSENT = (11.0, 45.0, 400.0, 7200.0)
DONE = Settlement("succeeded", "succeeded")


class Life:
    """Everything that may happen, drawn by lot; the same lot, the same life."""

    def __init__(self, node: Hands, app: Sexton, seed: int) -> None:
        self.node, self.app = node, app
        self.lot = random.Random(seed)
        self.names: list[str] = []
        self.done: list[str] = []

    def draw(self) -> dict[str, Any]:
        return {**self.lot.choice(WHENS), **self.lot.choice(POLICIES)}

    async def add(self) -> None:
        name = f"schedule {len(self.names)}"
        await self.app.schedules.add(name, "t", **self.draw())
        self.names.append(name)

    async def go_by(self) -> None:
        """Time passes, and the node is there."""
        await self.node.fire_until(self.node.at(self.lot.choice((0.4, 3, 12, 30))))

    async def be_absent(self) -> None:
        self.node.clock.advance(self.lot.choice(ABSENT))
        if self.lot.random() < 0.5:
            await self.node.fire()
        if self.lot.random() < 0.8:
            await self.recover()

    async def recover(self) -> None:
        await self.node.mark_late()
        await self.node.catch_up(rate=1e6)

    async def fail_over(self) -> None:
        """What was decided before is refused by everybody after."""
        batch = await self.node.plan()
        stale = self.node.guard
        await self.node.own()
        assert (await self.node.store.due.fire(stale, "due", batch)).moved == 0

    async def work(self) -> None:
        claims = await self.node.claim()
        for claim in claims:
            if self.lot.random() < 0.8:
                await self.node.end(claim, self.lot.choice(OUTCOMES))
        await self.node.let_go()

    async def lose_a_worker(self) -> None:
        worker = await self.node.store.workers.register("doomed", ["default"], "test", 1.0)
        await self.node.claim(worker)
        self.node.clock.advance(1.5)
        await reap.run_once(self.node.store)

    async def pause(self) -> None:
        await self.app.schedules.pause(self.name(), reason="a test")

    async def resume(self) -> None:
        await self.app.schedules.resume(self.name())

    async def update(self) -> None:
        changes = self.lot.choice(
            ({"misfire": "all"}, {"every": 4}, {"cron": "*/3 * * * * *"}, {"overlap": "allow"})
        )
        await self.app.schedules.update(self.name(), **changes)

    async def trigger(self) -> None:
        await self.app.schedules.trigger(self.name())

    async def cancel(self) -> None:
        await self.app.schedules.cancel(self.name())

    def name(self) -> str:
        return self.lot.choice(self.names)

    async def step(self) -> None:
        verbs = (self.pause, self.resume, self.update, self.trigger)
        chosen = self.lot.choices(
            (self.go_by, self.be_absent, self.fail_over, self.work, self.lose_a_worker, *verbs),
            (8, 2, 1, 5, 1, 2, 3, 2, 2),
        )[0]
        if self.lot.random() < 0.02:
            chosen = self.cancel
        self.done.append(chosen.__name__)
        try:
            await chosen()
        except InvalidSchedule as error:
            self.done.append(f"refused: {error}")  # a verb that makes no sense now

    async def end(self) -> None:
        """Whatever is late is decided, and whatever waits is let go when the others have ended."""
        self.node.clock.advance(0.1)
        await self.recover()
        while (await self.node.fire()).moved:
            pass
        while jobs := await self.node.rows(
            "select id, fence, claimed_by from sexton.job where after_job is null"
        ):
            running = [(job["id"], job["fence"], DONE) for job in jobs if job["claimed_by"]]
            if running:
                await self.node.store.jobs.settle(running)
            await self.app.cancel(*(job["id"] for job in jobs if not job["claimed_by"]))
            await self.node.let_go()


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_every_fire_has_one_decision(address: Address, seed: int) -> None:
    async with hands(address) as node:
        app = Sexton(address.url, clock=node.clock)
        async with app:
            await app.calendars.put("lunch", windows=["12:01-12:03", "13:00-14:00"])
            begun = node.now
            life = Life(node, app, seed)
            for _ in range(5):
                await life.add()
            for _ in range(60):
                await life.step()
            await life.end()
            audit = await app.audit(begun - timedelta(seconds=1), node.now)
            assert audit.clean, (audit.violations[:5], life.done)
            assert audit.pending == 0, life.done
            assert audit.expected > 10
            assert not await node.rows("select from sexton.schedule where state = 'quarantined'")
            stuck = await node.rows("select id from sexton.job")
            assert not stuck, "a job that waits for nobody"
