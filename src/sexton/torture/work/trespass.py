"""Requests about what is another tenant's: refused, as if there were no such thing.

In their body `what` is the verb, or a look (`read_job`, `read_schedule`), and `owner` whose it is.
A redrive, or a look at the jobs of a schedule, may be answered all the same, with what was there:
nothing. What workers settle with another's key is of `remote`.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple

from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.clock import SECOND, now_us
from sexton.torture.work.hands import Answer, ApiHand

OF_JOBS = ("cancel_job", "redrive", "read_job")
OF_SCHEDULES = (
    *("read_schedule", "update", "pause", "resume", "trigger", "backfill", "cancel_schedule"),
    "list_jobs",
)
TRESPASSING = -1  # the `rev` of no edit
BACKFILLED = 30 * SECOND


class Trespass(NamedTuple):
    """One that may be made, with the key of `by`."""

    by: Tenant
    subject: str | int
    body: dict[str, Any]
    work: Callable[[str], Awaitable[Answer]]


class Trespasses:
    """Draws them, over the API: in Python whoever has the application has every tenant."""

    def __init__(
        self, hand: ApiHand, access: Access, random: Random, population: Sequence[dict[str, Any]]
    ) -> None:
        self._hand = hand
        self._random = random
        self._tenants = access.tenants
        names = {(line["tenant"], line["name"]) for line in population}
        # Many names are there several times: one's own of that name is no trespass.
        self._foreign = [
            (owner, name, by)
            for owner, name in sorted(names)
            for by in sorted({*access.tenants} - {owner})
            if (by, name) not in names
        ]

    async def draw(self, what: str | None = None) -> Trespass | None:
        """One of a kind, or of any; None if there is nothing that it could be about."""
        random = self._random
        what = what or random.choice((*OF_JOBS, *OF_SCHEDULES))
        if what in OF_SCHEDULES:
            if not self._foreign:
                return None
            owner, name, by = random.choice(self._foreign)
            return self._at(what, owner, self._tenants[by], name)
        owner = random.choice(sorted(self._tenants))
        look = self._hand.dead if what == "redrive" else self._hand.live
        found = await look(self._tenants[owner])
        if not found:
            return None
        by = random.choice(sorted({*self._tenants} - {owner}))
        return self._at(what, owner, self._tenants[by], random.choice(found)[1])

    def _at(self, what: str, owner: str, by: Tenant, subject: str | int) -> Trespass:
        body = {"what": what, "owner": owner}
        return Trespass(by, subject, body, partial(self.work, what, by, subject, now_us()))

    async def work(self, what: str, by: Tenant, subject: Any, now: int, sign: str) -> Answer:
        """What is asked for, and what was answered; the same each time under one sign."""
        hand = self._hand
        match what:
            case "cancel_job":
                return await hand.cancel_job(by, subject, sign)
            case "redrive":
                return await hand.redrive(by, [subject], sign)
            case "read_job":
                return await hand.read_job(by, subject)
            case "read_schedule":
                return await hand.read_schedule(by, subject)
            case "list_jobs":
                return await hand.jobs_of(by, subject)
            case "update":
                payload = {"id": f"{by.name}/{subject}", "tenant": by.name, "rev": TRESPASSING}
                return await hand.update(by, subject, payload, {}, sign)
            case "pause":
                return await hand.pause(by, subject, "torture trespass", None, sign)
            case "resume":
                return await hand.resume(by, subject, sign)
            case "trigger":
                return await hand.trigger(by, subject, None, sign)
            case "backfill":
                end = now - BACKFILLED
                return await hand.backfill(by, subject, end - BACKFILLED, end, 5.0, sign)
            case "cancel_schedule":
                return await hand.cancel(by, subject, sign)
            case _:
                raise ValueError(f"{what!r} is no trespass")
