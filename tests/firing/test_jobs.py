"""What becomes of the jobs of overlapping fires, with a worker that runs them."""

import asyncio
from collections import Counter

import pytest

from sexton import Job, Retry, Sexton
from sexton.testing.factories import make_claim, make_worker

from .live import OFTEN, SECOND, Live, living

ONCE = Retry(max_attempts=1)


class Hall:
    """A task that stays until it is told to go, and counts who is in."""

    def __init__(self, app: Sexton, name: str) -> None:
        self.name = name
        self.open = asyncio.Event()
        self.inside: set[int] = set()
        self.most = 0
        self.came: list[int] = []
        self.cancelled: list[int] = []
        app.task(name=name, retry=ONCE)(self._stay)

    async def _stay(self, job: Job) -> None:
        self.came.append(job.id)
        self.inside.add(job.id)
        self.most = max(self.most, len(self.inside))
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            raise
        finally:
            self.inside.discard(job.id)


@pytest.fixture
def app(database_url: str) -> Sexton:
    return Sexton(database_url, lease=3, poll=30, patience=5)


async def jobs_of(live: Live, id: int) -> list[int]:
    rows = await live.connection.fetch(
        "select job_id from sexton.fire where schedule_id = $1 and decision = 'fired' "
        "order by fire_at",
        id,
    )
    return [row["job_id"] for row in rows]


async def test_each_overlap_policy_with_jobs_that_do_not_end(app: Sexton) -> None:
    policies = {
        "skip": ({"overlap": "skip"}, 1, 1),
        "queue_one": ({"overlap": "queue_one"}, 2, 1),
        "queue_all": ({"overlap": "queue_all", "max_queued": 3}, 4, 1),
        "allow": ({"overlap": "allow", "max_running": 2}, 2, 2),
    }
    halls = {name: Hall(app, name) for name in policies}
    async with living(app, worker=True) as live:
        first = await live.soon()
        ids = {
            name: await live.add(first, when=OFTEN, policy=policy, task=name)
            for name, (policy, *_) in policies.items()
        }
        for name, (_, fired, inside) in policies.items():
            expected = ["fired"] * fired + ["overlap"] * (8 - fired)
            assert await live.decided(ids[name], 8) == expected, name
            while len(halls[name].came) < inside:
                await asyncio.sleep(0.01)
        await live.no_more_of(*ids.values())
        for hall in halls.values():
            hall.open.set()
        await live.drained()
        for name, (_, fired, inside) in policies.items():
            jobs = await jobs_of(live, ids[name])
            assert len(jobs) >= fired
            if inside == 1:
                assert halls[name].came == jobs, f"{name}: one after the other, in order"
            assert (sorted(halls[name].came), halls[name].most) == (jobs, inside)


async def test_replace_ends_the_running_one_and_only_the_newest_goes_on(app: Sexton) -> None:
    hall = Hall(app, "hall")
    async with living(app, worker=True) as live:
        id = await live.add(
            await live.soon(), when={"every": 0.5}, policy={"overlap": "replace"}, task="hall"
        )
        while len(hall.cancelled) < 3:
            await asyncio.sleep(0.01)
        await live.no_more_of(id)
        jobs = await jobs_of(live, id)
        while hall.inside != {jobs[-1]}:
            await asyncio.sleep(0.01)
            jobs = await jobs_of(live, id)
        hall.open.set()
        await live.drained()
        assert hall.most == 1
        assert hall.came[-1] == jobs[-1]
        assert hall.came[:-1] == hall.cancelled
        outcomes = Counter(
            row["outcome"]
            for row in await live.connection.fetch(
                "select outcome::text from sexton.attempt where schedule_id = $1", id
            )
        )
        assert outcomes == {"succeeded": 1, "cancelled": len(jobs) - 1}


async def test_replace_ends_the_running_one_also_if_its_node_died_before_it_could_ask(
    app: Sexton, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall(app, "hall")
    async with living(app, worker=True) as live:
        monkeypatch.setattr(live.node.firer, "_on_replaced", lambda _: None)
        replace = {"overlap": "replace"}
        often = {"every": 0.5}
        id = await live.add(await live.soon(), when=often, policy=replace, task="hall", max_fires=3)
        await live.decided(id, 3)
        jobs = await jobs_of(live, id)
        while hall.inside != {jobs[-1]}:
            await asyncio.sleep(0.01)
        hall.open.set()
        await live.drained()
        assert hall.most == 1
        assert hall.cancelled[0] == jobs[0]


async def test_jobs_in_a_queue_run_one_after_the_other_as_soon_as_they_may(app: Sexton) -> None:
    """The end of one lets the next go at once: neither poll nor leader has to look."""
    hall = Hall(app, "hall")
    async with living(app, worker=True) as live:
        id = await live.add(
            await live.soon(),
            when={"every": 0.1},
            policy={"overlap": "queue_all"},
            task="hall",
            max_fires=20,
        )
        await live.decided(id, 20)
        began = await live.now()
        hall.open.set()
        await live.drained()
        assert hall.came == await jobs_of(live, id)
        assert (len(hall.came), hall.most) == (20, 1)
        assert await live.now() - began < 15 * SECOND, "the poll alone would take minutes"


async def test_a_job_of_a_dead_worker_counts_until_a_living_one_reaps_it(app: Sexton) -> None:
    hall = Hall(app, "hall")
    hall.open.set()
    async with living(app) as live:
        await app.declare()
        id = await live.add(await live.soon(), when=OFTEN, task="hall")
        await live.decided(id, 1)
        [job] = await jobs_of(live, id)
        await make_claim(app, job, await make_worker(app, lease=2))
        worker = await app.worker()
        running = asyncio.create_task(worker.run())
        await live.so("select count(*) > 1 from sexton.fire where decision = 'fired'")
        lost_at = await live.value(
            "select finished_at from sexton.attempt where job_id = $1 and outcome = 'lost'", job
        )
        decisions = await live.connection.fetch(
            "select decided_at, decision::text from sexton.fire where schedule_id = $1 "
            "order by fire_at",
            id,
        )
        before = [row["decision"] for row in decisions if row["decided_at"] < lost_at]
        assert before == ["fired", *["overlap"] * (len(before) - 1)]
        # Between the attempt's end and the commit that tells of it there may be a fire.
        after = [row["decision"] for row in decisions if row["decided_at"] > lost_at]
        assert "fired" in after[:2], "and not a moment longer"
        worker.stop()
        await running
