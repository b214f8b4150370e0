"""Workers and claims made by hand, for tests of what happens when workers come to grief."""

from sexton import __version__
from sexton.app import Sexton
from sexton.domain.duration import Duration, seconds
from sexton.domain.job import Claim
from sexton.domain.outcome import Outcome
from sexton.domain.retry import Retry
from sexton.errors import UnknownJob
from sexton.flow.settle import decide


async def make_worker(app: Sexton, *, name: str = "by hand", lease: Duration = 30) -> int:
    """A worker that never renews its lease: `clock.advance(lease)` and `harness.reap()` end it."""
    store = (await app.client()).store
    return await store.workers.register(name, [], __version__, seconds(lease))


async def make_claim(app: Sexton, job_id: int, worker: int | None = None) -> Claim:
    """This job, claimed as a worker would and run by nobody."""
    store = (await app.client()).store
    claim = await store.jobs.claim_one(job_id, worker or await make_worker(app))
    if claim is None:
        raise UnknownJob(f"job {job_id} is not there, is claimed already, or its worker is gone")
    return claim


async def settle_claim(app: Sexton, claim: Claim, outcome: Outcome) -> bool:
    """Settle it by its task's policy; False if the database refused, because the claim is old."""
    store = (await app.client()).store
    task = app.tasks.get(claim.task)
    settlement = decide(claim, outcome, task.retry if task else Retry(), 1.0)
    return claim.id in await store.jobs.settle([(claim.id, claim.fence, settlement)])
