"""What an operator asks for: through the API under one key, until there is an answer."""

import os
from functools import partial
from random import Random
from typing import Any

from sexton.torture.work.access import Tenant
from sexton.torture.work.asks import Asked, Asks, Request
from sexton.torture.work.hands import Hand
from sexton.torture.work.journal import process_name
from sexton.torture.work.pace import Pace
from sexton.torture.work.repeats import Repeats, Work, another

TRIES, FIRST_REST, LONGEST_REST = 8, 0.2, 2.0


class Requests:
    """Makes them, and remembers some to be sent again after they were answered."""

    def __init__(self, hand: Hand, asks: Asks, random: Random, pace: Pace) -> None:
        self.via = hand.via
        self.repeats = Repeats(asks, random, pace)
        self._hand = hand
        self._asks = asks
        self._pace = pace
        self._made = 0

    async def make(
        self,
        verb: str,
        tenant: Tenant,
        subject: str | int | None,
        body: dict[str, Any],
        work: Work,
    ) -> Asked:
        """How the last try went; in Python there is one."""
        self._made += 1
        sign = f"{process_name()}-{os.getpid()}-{self._made}"
        tries = 1
        if self.via == "api":
            body = {**body, "idempotency_key": sign}
            tries = TRIES
        first: int | None = None
        rest = FIRST_REST
        while True:
            request = Request(verb, self.via, tenant.name, subject, body, first)
            asked = await self._asks.make(request, partial(work, sign))
            tries -= 1
            if not asked.unsure or tries == 0 or not await self._pace.rest(rest):
                break
            first = first or asked.n
            rest = min(2 * rest, LONGEST_REST)
        if self.via == "api" and verb != "trespass":
            other = partial(another, self._hand, verb, tenant, subject, body)
            self.repeats.keep(request, asked, sign, work, other)
        return asked
