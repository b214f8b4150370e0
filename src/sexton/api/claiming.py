"""A remote worker's claim: look, and while there is nothing, wait where a wake-up can be heard."""

import asyncio
import logging
from typing import Any

import msgspec
from fastapi import Response

from sexton.api.call import Answer, Call
from sexton.api.desk import Desk
from sexton.api.remote import Remotely, Remotes, Turn
from sexton.api.waiting import Sleeper, client_gone
from sexton.domain.job import Claim, instant
from sexton.domain.transitions import RELEASED
from sexton.targets.job import idempotency_key

log = logging.getLogger("sexton.api")

# Who sleeps looks again no sooner than this, however soon something is said to be due.
SOONEST = 0.001
# One that is due and yet was not claimed is locked by somebody: no use in hurrying.
SETTLE_DOWN = 0.05


class _Nothing(Exception):
    """Nothing was found: the transaction of the answer is undone, there is none yet."""


async def claim_jobs(call: Call, remotes: Remotes, id: int, limit: int, wait: float) -> Response:
    """Jobs; or none, if the time is over, the server ends, or a job is to be cancelled."""
    waiting, loop = remotes.waiting, asyncio.get_running_loop()
    deadline = loop.time() + wait
    remote = await _worker(call, remotes, id)
    with waiting.place(remote.tenant, id, remote.queues) as sleeper:
        async with client_gone(call.request) as gone:
            while not gone.done():
                look = _Look(remotes, remote, limit, sleeper)
                look.last = loop.time() >= deadline or waiting.over
                try:
                    await call.confirm()
                    response = await call.change(look.work)
                except _Nothing:
                    if remote.idle:
                        left = deadline - loop.time()
                        await waiting.sleep(sleeper, min(left, _soon(look.turn)), gone)
                    else:
                        # Then look once more, for what was enqueued by those who thought it busy.
                        async with call.service.transaction(call.principal) as desk:
                            await remote.sleeps(desk)
                    continue
                except BaseException:
                    remote.forget()
                    raise
                if gone.done():
                    # Who sent a key comes back with it, and is given the same jobs again.
                    if call.idempotency_key is None:
                        await _give_back(call, look.turn)
                elif len(look.turn.claims) == limit:
                    for queue in remote.queues:
                        waiting.there_is_more(remote.tenant, queue)
                return response
    for queue in remote.queues:  # who has gone may have been the one that was woken
        waiting.there_is_more(remote.tenant, queue)
    return Answer(_answer(remote, [], [])).response()


async def _worker(call: Call, remotes: Remotes, id: int) -> Remotely:
    remote = remotes.look_up(call.principal.tenant_id, id)
    if remote is None or remote.lease_is_due:
        async with call.service.transaction(call.principal) as desk:
            remote = await remotes.worker(desk, id)
            await remote.keep_lease(desk)
    return remote


def _soon(turn: Turn) -> float:
    """In how many seconds to look again, for all that is known."""
    if turn.next_in is None:
        return float("inf")
    return max(turn.next_in, SOONEST) if turn.next_in > 0 else SETTLE_DOWN


class _Look:
    """One look, in the transaction that becomes the answer if something is found."""

    def __init__(self, remotes: Remotes, remote: Remotely, limit: int, sleeper: Sleeper) -> None:
        self._remotes = remotes
        self._remote = remote
        self._limit = limit
        self._sleeper = sleeper
        self.last = False  # nothing is an answer too
        self.turn = Turn()

    async def work(self, desk: Desk) -> Answer:
        if self.turn.claims:
            self._remote.forget()  # a collision has undone them
        cancelling = self._sleeper.asked_to_cancel
        self.turn = turn = await self._remote.look(desk, self._limit, cancelling)
        if not (turn.claims or turn.cancel or turn.changed or self.last):
            raise _Nothing
        self._sleeper.asked_to_cancel = False
        jobs = await self._jobs(desk, turn)
        cancel = [{"id": id, "fence": fence} for id, fence in turn.cancel]
        return Answer(_answer(self._remote, jobs, cancel))

    async def _jobs(self, desk: Desk, turn: Turn) -> list[dict[str, Any]]:
        if not turn.claims:
            return []
        fired = {claim.schedule_id for _, claim in turn.claims if claim.schedule_id is not None}
        names = await desk.store.pages.names(sorted(fired)) if fired else {}
        installation = await self._remotes.installation()
        until = self._remote.lease_until
        return [
            {
                "id": claim.id,
                "fence": claim.fence,
                "attempt": claim.attempt,
                "task": claim.task,
                "queue": queue,
                "payload": msgspec.Raw(claim.payload.encode()),
                "key": claim.key,
                "idempotency_key": idempotency_key(claim, installation),
                "schedule": None if claim.schedule_id is None else names.get(claim.schedule_id),
                "fire_at": None if claim.fire_at is None else instant(claim.fire_at),
                "created_at": instant(claim.created),
                "due_at": instant(claim.due),
                "lease_until": until,
            }
            for queue, claim in turn.claims
        ]


def _answer(remote: Remotely, jobs: list[Any], cancel: list[Any]) -> dict[str, Any]:
    return {"jobs": jobs, "cancel": cancel, "lease_until": remote.lease_until}


async def _give_back(call: Call, turn: Turn) -> None:
    """Nobody is there to take them any more: others need not wait for a lease to run out."""
    claims: list[tuple[str, Claim]] = turn.claims
    if not claims:
        return
    try:
        async with call.service.transaction(call.principal) as desk:
            await desk.store.jobs.settle([(each.id, each.fence, RELEASED) for _, each in claims])
            await desk.store.jobs.notify_idle(sorted({queue for queue, _ in claims}))
    except Exception:
        log.warning("%d claims were made for a client that left", len(claims), exc_info=True)
