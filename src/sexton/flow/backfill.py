"""The past, fired at a rate that somebody chose: the leader's errand."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sexton.domain.backfill import Era, past_fires
from sexton.domain.schedule import Rule
from sexton.domain.when.rule import MOMENT
from sexton.errors import Unavailable
from sexton.flow.rules import Rules
from sexton.store import Store
from sexton.store.backfills import OpenBackfill
from sexton.store.connection import is_transient
from sexton.store.due import Guard

log = logging.getLogger("sexton.backfill")

EVERY = 0.25
BATCH = 500
AT_ONCE = 100  # backfills
# What may be made up for if the leader was busy: so many seconds' worth.
BURST = 1.0


@dataclass(slots=True)
class _Pace:
    """How much a backfill may do; and the eras of its schedule, as it was when they were read."""

    allowance: float
    refilled_at: float
    read: tuple[int, str] | None = None
    eras: tuple[Era, ...] = ()


class Backfiller:
    """Goes on with every backfill, each at its own rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paces: dict[int, _Pace] = {}
        self._after = 0  # the last one that had its turn

    async def run_once(self, store: Store, rules: Rules, guard: Guard) -> int:
        """How many jobs were made; a hundred have their turn, the next time the next hundred."""
        under_way = await store.backfills.under_way(AT_ONCE, after=self._after)
        self._after = under_way[-1].id if len(under_way) == AT_ONCE else 0
        self._forget(under_way)
        made = 0
        for each in under_way:
            try:
                made += await self._go_on(store, rules, guard, each)
            except Unavailable:
                raise
            except Exception as error:  # one that is locked, or broken, holds up no other
                if not is_transient(error):
                    log.exception("backfill %d failed and will be tried again", each.id)
        return made

    def _forget(self, under_way: Sequence[OpenBackfill]) -> None:
        if len(self._paces) > 10 * AT_ONCE:
            kept = {each.id for each in under_way}
            self._paces = {id: pace for id, pace in self._paces.items() if id in kept}

    async def _go_on(self, store: Store, rules: Rules, guard: Guard, backfill: OpenBackfill) -> int:
        pace = self._refilled(backfill)
        limit = min(int(pace.allowance), BATCH)
        if limit < 1:
            return 0
        if backfill.state == "cancelled":
            await store.backfills.fire(guard, backfill, (), next_at=backfill.next_at, over=True)
            return 0
        # A schedule ends without a new version, and has no fires from then on.
        if pace.read != (backfill.version, backfill.state):
            pace.eras = await _eras(store, rules, backfill)
            pace.read = (backfill.version, backfill.state)
        after = backfill.next_at
        if backfill.known_from is not None:  # the ledger forgets while this goes on
            after = max(after, backfill.known_from - MOMENT)
        fires, over = past_fires(pace.eras, after, backfill.to_at, limit, backfill.schedule_id)
        next_at = backfill.to_at if over else fires[-1].planned.scheduled_at
        fired = await store.backfills.fire(guard, backfill, fires, next_at=next_at, over=over)
        if fired is None:
            return 0
        pace.allowance -= fired  # what had been fired before costs nothing
        if over:
            log.info("backfill %d is done", backfill.id)
        return fired

    def _refilled(self, backfill: OpenBackfill) -> _Pace:
        now = self._clock()
        pace = self._paces.get(backfill.id)
        if pace is None:
            pace = self._paces[backfill.id] = _Pace(1.0, now)
        most = max(1.0, backfill.rate * BURST)
        earned = (now - pace.refilled_at) * backfill.rate
        pace.allowance = min(most, pace.allowance + earned)
        pace.refilled_at = now
        return pace


async def _eras(store: Store, rules: Rules, backfill: OpenBackfill) -> tuple[Era, ...]:
    """What it said when; before its beginning, what it says now. Cancelled, it said nothing."""
    versions = await store.backfills.versions(backfill.schedule_id)
    compiled = await rules.get({each.rule_id for each in versions})
    found = []
    for each in versions:
        rule = compiled[each.rule_id]
        usable = isinstance(rule, Rule) and each.state != "cancelled"
        found.append(
            Era(
                *(each.since, each.until, rule if usable and isinstance(rule, Rule) else None),
                *(each.anchor, each.task, each.payload),
            )
        )
    now, first = found[-1], found[0].since
    return (Era(None, first, now.rule, now.anchor, now.task, now.payload), *found)
