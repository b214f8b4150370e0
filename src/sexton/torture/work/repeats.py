"""What was answered under an Idempotency-Key is sent again: as it was, and as something else.

In the acknowledgement log these are verbs of their own, which want nothing to be done. `what` in
their body is the verb of the first, and the rest of it what is asked for now:

    echo     the very same; {told}: what the first was answered, so must this be. `again` is its ask
    reuse    another body under the same key: it must be refused, and change nothing
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from sexton.torture.work.access import Tenant
from sexton.torture.work.asks import Asked, Asks, Request
from sexton.torture.work.clock import SECOND, now_us
from sexton.torture.work.hands import Hand
from sexton.torture.work.pace import Pace

Work = Callable[[str], Awaitable[dict[str, Any]]]  # by its key
Other = tuple[dict[str, Any], Work]
# Of what is asked through the API so much was asked before, and some of it with another body.
REPEATS, ECHOES = 0.15, 0.6
REMEMBERED = 40
TRIES, FIRST_REST = 4, 0.2


@dataclass(frozen=True, slots=True)
class Kept:
    """A request that was answered; `other` is one that differs from it in its body alone."""

    request: Request
    n: int
    key: str
    work: Work
    answer: dict[str, Any]
    other: Callable[[], Other | None]


class Repeats:
    """Remembers some, and takes a turn now and then."""

    def __init__(self, asks: Asks, random: Random, pace: Pace) -> None:
        self._asks = asks
        self._random = random
        self._pace = pace
        self._kept: deque[Kept] = deque(maxlen=REMEMBERED)

    def keep(
        self,
        request: Request,
        asked: Asked,
        key: str,
        work: Work,
        other: Callable[[], Other | None],
    ) -> None:
        """What was done; what was refused is not known by its key."""
        if asked.answer is not None:
            n = asked.n if request.again is None else request.again
            self._kept.append(Kept(request, n, key, work, asked.answer, other))

    async def turn(self) -> bool:
        """Whether one was sent again, instead of something new."""
        if not self._kept or self._random.random() >= REPEATS:
            return False
        kept = self._random.choice(self._kept)
        other = None if self._random.random() < ECHOES else kept.other()
        if other is None:
            body = {**kept.request.body, "told": kept.answer}
            await self._send("echo", kept, body, kept.work, kept.n)
        else:
            await self._send("reuse", kept, *other, None)
        return True

    async def _send(
        self, verb: str, kept: Kept, body: dict[str, Any], work: Work, again: int | None
    ) -> None:
        first = kept.request
        said = {**body, "what": first.verb, "idempotency_key": kept.key}
        rest = FIRST_REST
        for _ in range(TRIES):
            request = Request(verb, first.via, first.tenant, first.subject, said, again)
            asked = await self._asks.make(request, partial(work, kept.key))
            again = again or asked.n
            if not asked.unsure or not await self._pace.rest(rest):
                return
            rest *= 2


def another(
    hand: Hand, verb: str, tenant: Tenant, subject: Any, body: dict[str, Any]
) -> Other | None:
    """The same of the same thing, and yet something else; None: there is nothing to say."""
    match verb:
        case "pause":
            reason = f"{body['reason']}, again"
            return {"reason": reason}, partial(hand.pause, tenant, subject, reason, None)
        case "update":
            payload = {**body["payload"], "rev": now_us()}
            return {"payload": payload}, partial(hand.update, tenant, subject, payload, {})
        case "trigger":
            payload = {"id": f"{tenant.name}/{subject}", "tenant": tenant.name, "rev": now_us()}
            return {"payload": payload}, partial(hand.trigger, tenant, subject, payload)
        case "backfill":
            first, end, rate = body["from_us"] - SECOND, body["to_us"], body["rate"]
            said = {"from_us": first, "to_us": end, "rate": rate}
            return said, partial(hand.backfill, tenant, subject, first, end, rate)
        case "put_calendar":
            ranges = body["ranges_us"][1:]
            return {"ranges_us": ranges}, partial(hand.put_calendar, tenant, subject, ranges)
        case _:
            return None
