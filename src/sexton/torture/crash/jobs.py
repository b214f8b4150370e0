"""Scenes of a job's life: what is there before a step, what sets it off, when it is over."""

from sexton.torture.crash.stage import LEASE, STANDBY, VICTIM, Stage


async def a_worker(stage: Stage) -> None:
    await stage.start(VICTIM, "worker")
    await stage.until_idle(VICTIM)


async def a_warm_worker(stage: Stage) -> None:
    """It has done all of this before, and its connections know every statement."""
    await a_worker(stage)
    await some_jobs(stage)
    await stage.until("they have ended", stage.ended)
    await stage.until_idle(VICTIM)


async def some_jobs(stage: Stage) -> None:
    await stage.enqueue(("quick", {}, None), ("answers", {}, "a key"), ("writes", {}, "another"))


async def quick_jobs(stage: Stage) -> None:
    await stage.enqueue(("quick", {}, None), ("quick", {}, "a key"))


async def an_answer(stage: Stage) -> None:
    await stage.enqueue(("answers", {}, "a key"))


async def writes(stage: Stage) -> None:
    """In a transaction of the worker's, and in one of the task's own."""
    await stage.enqueue(("writes", {}, "a key"), ("carries", {}, "another"))


async def limited_jobs(stage: Stage) -> None:
    await stage.enqueue(("alone", {}, None), ("alone", {}, "a key"))


async def a_long_job(stage: Stage) -> None:
    """Longer than the lease, so that it is lost unless that is renewed."""
    await stage.expect(VICTIM, "worker")
    await stage.enqueue(("long", {"seconds": 1.4 * LEASE}, "a key"))


async def a_worker_comes(stage: Stage) -> None:
    """Cut from its first renewal on, which it does before long."""
    await stage.start(VICTIM, "worker", wait=False)


async def a_failing_job(stage: Stage) -> None:
    await a_warm_worker(stage)
    before = len(stage.effects())
    await stage.enqueue(("fails_once", {}, "a key"))
    await stage.until_begun(before)


async def an_orphan(stage: Stage) -> None:
    """Its worker dies; the victim has been there for long enough to judge that."""
    await stage.start("orphaned", "worker")
    await stage.until_idle("orphaned")
    await stage.enqueue(("long", {"seconds": 0.3}, "a key"))
    await stage.until_begun()
    stage.kill("orphaned")
    await stage.start(VICTIM, "worker")
    await stage.until_so(
        "its lease is over",
        "select exists (select from sexton.worker "
        "where name = 'orphaned' and lease_until < clock_timestamp())",
    )


async def a_hanging_job(stage: Stage) -> None:
    """Until the victim is told to leave; somebody else can do it."""
    await a_worker(stage)
    await stage.enqueue(("hangs", {"at": VICTIM}, "a key"))
    await stage.until_begun()
    await stage.start(STANDBY, "worker")
    await stage.until_idle(STANDBY)


async def leave(stage: Stage) -> None:
    stage.term(VICTIM)


async def ended_and_gone(stage: Stage) -> bool:
    return await stage.ended() and not await stage.so(
        "select exists (select from sexton.worker where name = $1 and gone_at is null)", VICTIM
    )


async def a_client(stage: Stage) -> None:
    await stage.start("runner", "worker")
    await stage.start(VICTIM, "client")
    await stage.until_idle("runner")


async def ask(stage: Stage) -> None:
    stage.let_clients_go()


async def answered_and_ended(stage: Stage) -> bool:
    """Of whatever was made, too, without an answer."""
    answered = await stage.answered(VICTIM, "substitute") and await stage.ended()
    return answered and await stage.so("select not exists (select from sexton.job)")


async def ended(stage: Stage) -> bool:
    return await stage.ended()
