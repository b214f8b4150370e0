"""The steps of a job's and of a schedule's life, each as a small scenario with a victim."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from sexton import sql
from sexton.torture.crash.stage import LEASE, Stage
from sexton.torture.proxy import shortened

VICTIM = "victim"
STANDBY = "standby"
INSERT = "insert into crash"
SUCCEED = "succeed"  # in the task's own transaction, and no statement of ours
REPLACE = ("fire", "replaced_to_ask", "locked", "cancel", "replaced_cross_out")
TRANSACTIONS = {"BEGIN": 2, INSERT: 2, "settle": 1, SUCCEED: 1, "COMMIT": 2}
ENQUEUES = {"enqueue_one": 1, "enqueue_keyed": 1, "reserve": 1, "COMMIT": 1}
ENOUGH = 60  # characters tell every statement from the others
Do = Callable[[Stage], Coroutine[Any, Any, None]]
Look = Callable[[Stage], Awaitable[bool]]


@dataclass(frozen=True)
class Step:
    """One step: what is there before, what sets it off, and when it is over.

    Cut are the messages from the first that is about a statement that it `needs`, of any connection
    that carries one, until each of them has been exchanged so often.
    """

    name: str
    role: str  # of the victim, and of whoever stands in for it
    needs: Mapping[str, int]
    prepare: Do
    act: Do
    done: Look
    leaves: bool = False  # the victim is on its way out: it is neither replaced nor awaited

    @property
    def subjects(self) -> tuple[str, ...]:
        """As the proxy sees them: statements of ours are named by their files."""
        names = set(sql.names())
        return tuple(
            shortened(sql.statement(each, "sexton"))[:ENOUGH]
            if each in names
            else each.replace(SUCCEED, f"-- sexton.{SUCCEED} ")
            for each in self.needs
        )


def _once(*statements: str) -> dict[str, int]:
    return dict.fromkeys(statements, 1)


async def _nothing(_: Stage) -> None: ...


# ── jobs ────────────────────────────────────────────────────────────────────


async def _a_worker(stage: Stage) -> None:
    await stage.start(VICTIM, "worker")
    await stage.until_idle(VICTIM)


async def _a_warm_worker(stage: Stage) -> None:
    """It has done all of this before, and its connections know every statement."""
    await _a_worker(stage)
    await _some_jobs(stage)
    await stage.until("they have ended", stage.ended)
    await stage.until_idle(VICTIM)


async def _some_jobs(stage: Stage) -> None:
    await stage.enqueue(("quick", {}, None), ("answers", {}, "a key"), ("writes", {}, "another"))


async def _quick_jobs(stage: Stage) -> None:
    await stage.enqueue(("quick", {}, None), ("quick", {}, "a key"))


async def _an_answer(stage: Stage) -> None:
    await stage.enqueue(("answers", {}, "a key"))


async def _writes(stage: Stage) -> None:
    """In a transaction of the worker's, and in one of the task's own."""
    await stage.enqueue(("writes", {}, "a key"), ("carries", {}, "another"))


async def _limited_jobs(stage: Stage) -> None:
    await stage.enqueue(("alone", {}, None), ("alone", {}, "a key"))


async def _a_long_job(stage: Stage) -> None:
    """Longer than the lease, so that it is lost unless that is renewed."""
    await stage.expect(VICTIM, "worker")
    await stage.enqueue(("long", {"seconds": 1.4 * LEASE}, "a key"))


async def _a_worker_comes(stage: Stage) -> None:
    """Cut from its first renewal on, which it does before long."""
    await stage.start(VICTIM, "worker", wait=False)


async def _a_failing_job(stage: Stage) -> None:
    await _a_warm_worker(stage)
    before = len(stage.effects())
    await stage.enqueue(("fails_once", {}, "a key"))
    await stage.until_begun(before)


async def _an_orphan(stage: Stage) -> None:
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


async def _a_hanging_job(stage: Stage) -> None:
    """Until the victim is told to leave; somebody else can do it."""
    await _a_worker(stage)
    await stage.enqueue(("hangs", {"at": VICTIM}, "a key"))
    await stage.until_begun()
    await stage.start(STANDBY, "worker")
    await stage.until_idle(STANDBY)


async def _leave(stage: Stage) -> None:
    stage.term(VICTIM)


async def _ended_and_gone(stage: Stage) -> bool:
    return await stage.ended() and not await stage.so(
        "select exists (select from sexton.worker where name = $1 and gone_at is null)", VICTIM
    )


async def _a_client(stage: Stage) -> None:
    await stage.start("runner", "worker")
    await stage.start(VICTIM, "client")
    await stage.until_idle("runner")


async def _ask(stage: Stage) -> None:
    stage.let_clients_go()


async def _answered_and_ended(stage: Stage) -> bool:
    """Of whatever was made, too, without an answer."""
    answered = await stage.answered(VICTIM, "substitute") and await stage.ended()
    return answered and await stage.so("select not exists (select from sexton.job)")


# ── schedules ───────────────────────────────────────────────────────────────


async def _a_node(stage: Stage) -> None:
    await stage.start(VICTIM, "node")
    await stage.until_owned(1)


async def _a_warm_node(stage: Stage) -> None:
    await _a_node(stage)
    await stage.schedule(0.05, 1)
    await stage.until("it has fired", stage.fired)


async def _a_catching_node(stage: Stage) -> None:
    await _a_node(stage)
    await stage.schedule(-60.0, 1)
    await stage.until("it is caught up", stage.fired)


async def _a_replacing_node(stage: Stage) -> None:
    """Jobs of its schedules wait, for there is no worker; it has replaced others before."""
    await _a_node(stage)
    await stage.schedule(0.05, 2, overlap="replace")
    await stage.until("they have fired", stage.fired)
    await _replaced_soon(stage)
    await stage.until("they have been replaced", lambda: _fired_and_replaced(stage))


async def _replaced_soon(stage: Stage) -> None:
    await stage.again(0.1)


async def _fired_and_replaced(stage: Stage) -> bool:
    return await stage.fired() and await stage.replaced()


async def _soon(stage: Stage) -> None:
    await stage.schedule(0.1)


async def _soon_and_never(stage: Stage) -> None:
    """One of three is taken back when the node has decided about it, and nobody tells the node."""
    await stage.schedule(0.15, 3)
    await asyncio.sleep(0.06)
    await stage.take_back()


async def _a_node_and_a_schedule(stage: Stage) -> None:
    await _a_node(stage)
    await stage.schedule(0.7)


async def _a_late_schedule(stage: Stage) -> None:
    """As after an outage: it should have fired a minute ago."""
    await stage.schedule(-60.0)


async def _two_nodes(stage: Stage) -> None:
    """The victim leads."""
    await _a_node(stage)
    await stage.start(STANDBY, "node")
    await stage.until_owned(2)


async def _hand_over(stage: Stage) -> None:
    await stage.schedule(0.1, 4)
    stage.term(VICTIM)


async def _a_second_in_command(stage: Stage) -> None:
    """Somebody else leads, and the victim owns half."""
    await stage.start("leader", "node")
    await stage.until_owned(1)
    await stage.start(VICTIM, "node")
    await stage.until_owned(2)


async def _the_leader_dies(stage: Stage) -> None:
    await stage.schedule(0.1, 4)
    stage.kill("leader")


async def _another_joins(stage: Stage) -> None:
    await stage.schedule(0.1, 4)
    await stage.start("newcomer", "node", wait=False)


async def _fired_and_owned(stage: Stage) -> bool:
    return await stage.fired() and await stage.so(
        "select coalesce(sum(cardinality(o.partitions)), 0) = 256 "
        "and count(*) = (select count(*) from sexton.node where gone_at is null) "
        "from sexton.ownership as o join sexton.node as n on n.id = o.node_id and n.gone_at is null"
    )


async def _fired_and_shared(stage: Stage) -> bool:
    return await _fired_and_owned(stage) and await stage.so(
        "select exists (select from sexton.node join sexton.ownership on node_id = id "
        "where name = 'newcomer' and gone_at is null and cardinality(partitions) > 0)"
    )


async def _ended(stage: Stage) -> bool:
    return await stage.ended()


async def _fired(stage: Stage) -> bool:
    return await stage.fired()


STEPS = {
    step.name: step
    for step in (
        Step("first_fire", "node", _once("due", "rules", "fire"), _a_node, _soon, _fired),
        Step("fire", "node", {"fire": 1, "due": 2}, _a_warm_node, _soon_and_never, _fired),
        Step(
            *("catch_up", "node", _once("mark_late", "late", "fire")),
            *(_a_catching_node, _a_late_schedule, _fired),
        ),
        Step(
            *("replace", "node", _once(*REPLACE)),
            *(_a_replacing_node, _replaced_soon, _fired_and_replaced),
        ),
        Step("enqueue", "client", ENQUEUES, _a_client, _ask, _answered_and_ended),
        Step("claim", "worker", {"claim": 2}, _a_worker, _some_jobs, _ended),
        Step("limit", "worker", {"claim_limited": 2}, _a_worker, _limited_jobs, _ended),
        Step("renew", "worker", _once("renew"), _a_long_job, _a_worker_comes, _ended),
        Step("heartbeat", "node", _once("heartbeat"), _a_node_and_a_schedule, _nothing, _fired),
        Step("settle", "worker", _once("settle_succeeded"), _a_warm_worker, _quick_jobs, _ended),
        Step("answer", "worker", _once("settle"), _a_warm_worker, _an_answer, _ended),
        Step("transaction", "worker", TRANSACTIONS, _a_warm_worker, _writes, _ended),
        Step("retry", "worker", {"settle": 1, "claim": 3}, _a_failing_job, _nothing, _ended),
        Step(
            *("reap", "worker", {"lose_workers": 1, "orphans": 2, "settle": 1}),
            *(_an_orphan, _nothing, _ended),
        ),
        Step(
            *("leave", "worker", _once("settle", "leave")),
            *(_a_hanging_job, _leave, _ended_and_gone),
            leaves=True,
        ),
        Step(
            *("handover", "node", _once("roster", "assign")),
            *(_two_nodes, _hand_over, _fired_and_owned),
            leaves=True,
        ),
        Step(
            *("withdraw", "node", _once("roster", "assign")),
            *(_a_second_in_command, _hand_over, _fired_and_owned),
            leaves=True,
        ),
        Step(
            *("takeover", "node", _once("elect", "roster", "assign")),
            *(_a_second_in_command, _the_leader_dies, _fired_and_owned),
        ),
        Step(
            *("balance", "node", _once("roster", "assign")),
            *(_a_node, _another_joins, _fired_and_shared),
        ),
    )
}
