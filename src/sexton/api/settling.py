"""Settling from afar: what a remote worker, or a target that took its time, says of its jobs."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sexton.api.desk import Desk
from sexton.api.problems import Problem
from sexton.domain.job import State
from sexton.domain.outcome import (
    Cancelled,
    Failed,
    Outcome,
    Released,
    Snoozed,
)
from sexton.domain.text import clean
from sexton.domain.transitions import SUCCEEDED, Settlement, settle
from sexton.flow.meters import HTTP, OTHER
from sexton.store.jobs import Orphan
from sexton.targets.verdict import returned

if TYPE_CHECKING:
    from sexton.api.service import Service

OutcomeName = Literal["succeeded", "failed", "snoozed", "released", "cancelled"]
# For the task, where attempts are counted: its name is one that a tenant may choose.
AFAR = "remote"
COUNTED_AS = (AFAR, HTTP, OTHER)
# Those that are due again sooner would not be heard of by who sleeps in time.
SOON = 5.0


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody says of one claim."""

    id: int
    fence: int
    outcome: OutcomeName
    result: Any = None
    error: str | None = None
    retry_after: float | None = None
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of it: not accepted means that somebody else has the job now, or nobody."""

    said: Said
    accepted: bool
    note: str | None = None


def outcome_of(said: Said, max_result_bytes: int) -> Outcome:
    match said.outcome:
        case "succeeded":
            return returned(said.result, max_result_bytes)
        case "failed":
            return Failed(
                clean(said.error or "it failed, and did not say why"),
                said.permanent,
                said.retry_after,
            )
        case "snoozed":
            delay = said.retry_after or 0.0
            return Snoozed(delay, clean(said.error or f"snoozed for {delay:g} s"))
        case "released":
            return Released()
        case "cancelled":
            return Cancelled()


async def settle_all(desk: Desk, said: Sequence[Said], worker: int | None) -> list[Verdict]:
    """Record each outcome whose fence is still its job's, and say of each whether it was.

    With `worker` only what that one has claimed; without, whoever knows the fence may.
    """
    held = await desk.store.remote.claims(
        [(each.id, each.fence) for each in said], desk.tenant_id, worker
    )
    known = {(each.id, each.fence): each for each in held}
    notes: dict[int, str] = {}
    plain: list[int] = []
    others: list[tuple[int, int, Settlement]] = []
    soon: set[str] = set()
    for each in said:
        claim = known.pop((each.id, each.fence), None)
        if claim is None:
            continue  # stale, or said twice
        outcome = outcome_of(each, desk.settings.max_result_bytes)
        settlement = settle(
            outcome,
            tries=claim.tries,
            retry=claim.retry,
            expires_in=claim.expires_in,
            noise=random.random(),
        )
        if settlement is SUCCEEDED:
            plain.append(each.id)
            continue
        if settlement.outcome == "succeeded" and settlement.error is not None:
            notes[each.id] = settlement.error
        if settlement.delay is not None and settlement.delay < SOON:
            soon.add(claim.queue)
        others.append((each.id, each.fence, settlement))
    fences = {each.id: each.fence for each in held}
    accepted: set[tuple[int, int]] = set()
    if plain:
        ours = await desk.store.jobs.settle_succeeded(plain, [fences[id] for id in plain])
        accepted |= {(id, fences[id]) for id in ours}
    if others:
        ours = await desk.store.jobs.settle(others)
        accepted |= {(id, fences[id]) for id in ours}
    if soon:
        await desk.store.jobs.notify_idle(sorted(soon))
    died = [how.reason for id, fence, how in others if (id, fence) in accepted and how.reason]
    verdicts = []
    for each in said:
        taken = (each.id, each.fence) in accepted
        accepted.discard((each.id, each.fence))  # said twice counts once
        verdicts.append(Verdict(each, taken, notes.get(each.id) if taken else None))
    taken_over = [each.said.outcome for each in verdicts if each.accepted]
    desk.after_commit(lambda: count(desk.service, taken_over, died))
    return verdicts


def count(
    service: "Service", outcomes: Sequence[str], died: Sequence[str], task: str = AFAR
) -> None:
    for tally, whats in ((service.settled, outcomes), (service.died, died)):
        for what, many in Counter(whats).items():
            tally.add(task, what, many)


def counted_as(orphan: Orphan) -> str:
    """By whose it was: the service reaps what ordinary workers leave behind, too."""
    if orphan.remote:
        return AFAR
    return HTTP if orphan.task.startswith("http:") else OTHER


async def stale(desk: Desk, id: int, fence: int) -> Problem:
    """Why nothing was changed: 404 for a job that the tenant does not have."""
    state = await state_of(desk, id)
    if state is None:
        return Problem(404, "not_found", f"there is no job {id}")
    return Problem(
        409,
        "stale_fence",
        f"job {id}: fence {fence} is not, or not any more, that of its running attempt; "
        f"the job is {state}",
    )


async def state_of(desk: Desk, id: int) -> State | None:
    view = await desk.store.history.job(id, tenant=desk.tenant_id)
    return None if view is None else view.state
