"""The steps of a job's and of a schedule's life, each as a small scenario with a victim."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from sexton import sql
from sexton.torture.crash import jobs, schedules
from sexton.torture.crash.stage import Stage
from sexton.torture.proxy import shortened

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


STEPS = {
    step.name: step
    for step in (
        Step(
            *("first_fire", "node", _once("due", "rules", "fire")),
            *(schedules.a_node_that_is_yet_to_come, schedules.it_comes, schedules.fired),
        ),
        Step(
            *("fire", "node", {"fire": 1, "due": 2}),
            *(schedules.a_warm_node, schedules.soon_and_never, schedules.fired),
        ),
        Step(
            *("catch_up", "node", _once("mark_late", "late", "fire")),
            *(schedules.a_catching_node, schedules.a_late_schedule, schedules.fired),
        ),
        Step(
            *("replace", "node", _once(*REPLACE)),
            *(schedules.a_replacing_node, schedules.replaced_soon, schedules.fired_and_replaced),
        ),
        Step(
            *("backfill", "node", {"backfill_fire": 2}),
            *(schedules.a_backfilling_node, schedules.more_of_it, schedules.fired_and_backfilled),
        ),
        Step(
            *("enqueue", "client", ENQUEUES),
            *(jobs.a_client, jobs.ask, jobs.answered_and_ended),
        ),
        Step(
            *("claim", "worker", {"claim": 2}),
            *(jobs.a_worker, jobs.some_jobs, jobs.ended),
        ),
        Step(
            *("limit", "worker", {"claim_limited": 2}),
            *(jobs.a_worker, jobs.limited_jobs, jobs.ended),
        ),
        Step(
            *("renew", "worker", _once("renew")),
            *(jobs.a_long_job, jobs.a_worker_comes, jobs.ended),
        ),
        Step(
            *("heartbeat", "node", _once("heartbeat")),
            *(schedules.a_node_and_a_schedule, _nothing, schedules.fired),
        ),
        Step(
            *("settle", "worker", _once("settle_succeeded")),
            *(jobs.a_warm_worker, jobs.quick_jobs, jobs.ended),
        ),
        Step(
            *("answer", "worker", _once("settle")),
            *(jobs.a_warm_worker, jobs.an_answer, jobs.ended),
        ),
        Step(
            *("transaction", "worker", TRANSACTIONS),
            *(jobs.a_warm_worker, jobs.writes, jobs.ended),
        ),
        Step(
            *("retry", "worker", {"settle": 1, "claim": 3}),
            *(jobs.a_failing_job, _nothing, jobs.ended),
        ),
        Step(
            *("reap", "worker", {"lose_workers": 1, "orphans": 2, "settle": 1}),
            *(jobs.an_orphan, _nothing, jobs.ended),
        ),
        Step(
            *("leave", "worker", _once("settle", "leave")),
            *(jobs.a_hanging_job, jobs.leave, jobs.ended_and_gone),
            leaves=True,
        ),
        Step(
            *("handover", "node", _once("roster", "assign")),
            *(schedules.two_nodes, schedules.hand_over, schedules.fired_and_owned),
            leaves=True,
        ),
        Step(
            *("withdraw", "node", _once("roster", "assign")),
            *(schedules.a_second_in_command, schedules.hand_over, schedules.fired_and_owned),
            leaves=True,
        ),
        Step(
            *("takeover", "node", _once("elect", "roster", "assign")),
            *(schedules.a_second_in_command, schedules.the_leader_dies, schedules.fired_and_owned),
        ),
        Step(
            *("balance", "node", _once("roster", "assign")),
            *(schedules.a_node, schedules.another_joins, schedules.fired_and_shared),
        ),
    )
}
