"""/v1/workers: workers in any language, which claim, renew and settle over HTTP.

A remote worker is a row beside those of ordinary workers, with a lease of its own: one that dies is
found by the same reaper. Every claim has a fence, and what carries an older one changes nothing.
"""

from typing import Any

from fastapi import APIRouter, Response

from sexton.api import pages
from sexton.api.call import Answer, Call, Worker
from sexton.api.claiming import claim_jobs
from sexton.api.desk import Desk
from sexton.api.limits import room_for_worker
from sexton.api.models.workers import (
    LONGEST_LEASE,
    LONGEST_WAIT,
    SHORTEST_LEASE,
    ClaimIn,
    ClaimsOut,
    LeftOut,
    RenewIn,
    RenewOut,
    ResultIn,
    SettleIn,
    SettleOut,
    WorkerId,
    WorkerIn,
    WorkerLineOut,
    WorkerOut,
)
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.problems import Problem, problems
from sexton.api.remote import PLANNED, Remotes, gone
from sexton.api.roles import JobReader
from sexton.api.routes.job_settling import length
from sexton.api.settling import Said, settle_all
from sexton.domain.transitions import RELEASED
from sexton.targets.task import checked_text

VERSION = "remote"
# A claim whose answer is still on its way is not astray yet.
ASTRAY_AFTER = 10.0
RELEASED_AT_ONCE = 1000


router = APIRouter(prefix="/v1/workers", tags=["workers"])


def remotes_of(call: Call) -> Remotes:
    remotes: Remotes = call.request.app.state.remotes
    return remotes


# ── joining and leaving ─────────────────────────────────────────────────────


@router.post(
    "", status_code=201, responses=problems() | {201: {"model": WorkerOut}}, response_model=None
)
async def register(body: WorkerIn, call: Worker) -> Response:
    """Join. The lease covers everything that the worker claims: renew it well before it is over."""
    lease = length(body.lease, "lease")
    if not SHORTEST_LEASE <= lease <= LONGEST_LEASE:
        raise Problem(422, "invalid", "lease: must be from 5 s to 1 h", field="lease")
    name = checked_text("name", body.name)
    queues = [checked_text("queues", queue) for queue in dict.fromkeys(body.queues)]

    async def work(desk: Desk) -> Answer:
        await room_for_worker(desk)
        id, until = await desk.store.remote.register(desk.tenant_id, name, queues, VERSION, lease)
        return Answer({"id": id, "lease": lease, "lease_until": until}, 201)

    return await call.change(work)


@router.get("", responses=problems() | {200: {"model": Page[WorkerLineOut]}}, response_model=None)
async def list_workers(call: JobReader, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """The workers that live: remote ones and, for the tenant `default`, all tenants' too."""
    place = pages.place(cursor, tuple[int])

    async def work(desk: Desk) -> Answer:
        after = 0 if place is None else min(place[0], 2**31 - 1)
        lines = await desk.store.remote.workers(desk.tenant_id, max(after, 0), limit)
        following = pages.cursor(lines[-1].id) if len(lines) == limit else None
        return Answer(pages.page(lines, following))

    return await call.read(work)


@router.delete(
    "/{id:id}", responses=problems(404, 409) | {200: {"model": LeftOut}}, response_model=None
)
async def leave(id: WorkerId, call: Worker) -> Response:
    """Leave. What the worker still holds is put back, and has not used up an attempt."""

    async def work(desk: Desk) -> Answer:
        await desk.connection.execute(PLANNED, timeout=desk.service.patience)
        worker = await desk.store.remote.worker(id, desk.tenant_id)
        if worker is None or worker.gone_at is not None:
            raise await gone(desk, id)
        await desk.store.workers.leave(id)
        released = await release(desk, id, older_than=0.0)
        return Answer({"released": len(released)})

    answer = await call.change(work)
    remotes_of(call).forget(call.principal.tenant_id, id)
    return answer


async def release(
    desk: Desk, worker: int, known: list[int] | None = None, *, older_than: float
) -> list[int]:
    """Put back what a worker holds, but for the fences that it knows of."""
    held = await desk.store.remote.held(worker, desk.tenant_id, known or [], older_than)
    released: list[int] = []
    for first in range(0, len(held), RELEASED_AT_ONCE):
        part = held[first : first + RELEASED_AT_ONCE]
        settled = [(id, fence, RELEASED) for id, fence, _ in part]
        released += sorted(await desk.store.jobs.settle(settled))
    await desk.store.jobs.notify_idle(sorted({queue for _, _, queue in held}))
    return released


# ── the lease ───────────────────────────────────────────────────────────────


@router.post(
    "/{id:id}/renew", responses=problems(404, 409) | {200: {"model": RenewOut}}, response_model=None
)
async def renew(id: WorkerId, call: Worker, body: RenewIn | None = None) -> Response:
    """Extend the lease, and learn which jobs somebody wants cancelled.

    409 with the kind `worker_gone`: it came too late. What the worker has is run elsewhere; it may
    join again.
    """
    known = None if body is None else body.held

    async def work(desk: Desk) -> Answer:
        until = await desk.store.remote.renew(id, desk.tenant_id)
        if until is None:
            raise await gone(desk, id)
        cancel = await desk.store.remote.cancelled(id)
        put_back: list[int] = []
        if known is not None:
            await desk.connection.execute(PLANNED, timeout=desk.service.patience)
            put_back = await release(desk, id, known, older_than=ASTRAY_AFTER)
        remembered = remotes_of(call).look_up(desk.tenant_id, id)
        if remembered is not None:
            desk.after_commit(lambda: remembered.renewed(until))
        return Answer(
            {
                "lease_until": until,
                "cancel": [{"id": job, "fence": fence} for job, fence in cancel],
                "put_back": put_back,
            }
        )

    return await call.change(work)


# ── jobs ────────────────────────────────────────────────────────────────────


@router.post(
    "/{id:id}/claim",
    responses=problems(404, 409) | {200: {"model": ClaimsOut}},
    response_model=None,
)
async def claim(id: WorkerId, call: Worker, body: ClaimIn | None = None) -> Response:
    """Take jobs of the worker's queues; with `wait`, wait for some if there are none.

    Claiming renews a lease of which a third is over. Whoever hangs up gives back what it was about
    to be given.
    """
    asked = body or ClaimIn()
    wait = length(asked.wait, "wait")
    if wait > LONGEST_WAIT:
        raise Problem(422, "invalid", f"wait: at most {LONGEST_WAIT:g} s", field="wait")
    if asked.held is not None:
        await _put_back(call, id, asked.held)
    return await claim_jobs(call, remotes_of(call), id, asked.limit, wait)


async def _put_back(call: Call, id: int, known: list[int]) -> None:
    """Who says so has no other claim on its way: what else there is in its name is astray."""
    async with call.service.transaction(call.principal) as desk:
        if await desk.store.remote.worker(id, desk.tenant_id) is not None:
            await desk.connection.execute(PLANNED, timeout=desk.service.patience)
            await release(desk, id, known, older_than=0.0)


@router.post(
    "/{id:id}/settle", responses=problems(404) | {200: {"model": SettleOut}}, response_model=None
)
async def settle(id: WorkerId, body: SettleIn, call: Worker) -> Response:
    """Say what became of jobs: each is accepted, or stale, which changes nothing.

    Stale is what has another fence by now, was settled before, or was claimed by another worker.
    """
    said = [_said(each, nth) for nth, each in enumerate(body.results)]

    async def work(desk: Desk) -> Answer:
        if remotes_of(call).look_up(desk.tenant_id, id) is None and (
            await desk.store.remote.worker(id, desk.tenant_id) is None
        ):
            raise await gone(desk, id)
        await desk.connection.execute(PLANNED, timeout=desk.service.patience)
        verdicts = await settle_all(desk, said, id)
        results: list[dict[str, Any]] = [
            {
                "id": verdict.said.id,
                "fence": verdict.said.fence,
                "status": "accepted" if verdict.accepted else "stale",
                "note": verdict.note,
            }
            for verdict in verdicts
        ]
        return Answer({"results": results})

    return await call.change(work)


def _said(given: ResultIn, nth: int) -> Said:
    after = None
    if given.retry_after is not None:
        after = length(given.retry_after, f"results.{nth}.retry_after")
    elif given.outcome == "snoozed":
        field = f"results.{nth}.retry_after"
        raise Problem(422, "invalid", f"{field}: for how long is it snoozed?", field=field)
    return Said(
        given.id, given.fence, given.outcome, given.result, given.error, after, given.permanent
    )
