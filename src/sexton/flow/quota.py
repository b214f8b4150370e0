"""Which tenants have as many live jobs as they may: the leader's errand."""

import logging
import time

from sexton.flow.rules import Rules
from sexton.store import Store
from sexton.store.due import Guard
from sexton.store.jobs import Counted

log = logging.getLogger("sexton.quota")

EVERY = 1.0
# Nobody makes more jobs in a second than this: who has room for more need not be counted so soon.
FASTEST = 50_000.0
SELDOM = 60.0
# A count that takes long is not made all the time.
REST = 10.0


class Quotas:
    """Keeps `over_quota` of each tenant up to date; counts no further than the quota."""

    def __init__(self) -> None:
        self._next_look: dict[int, tuple[int | None, float]] = {}  # the quota then, and when

    async def run_once(self, store: Store, rules: Rules, guard: Guard) -> int:
        """How many tenants were counted."""
        now = time.monotonic()
        quotas = await store.jobs.quotas()
        for gone in self._next_look.keys() - quotas.keys():
            del self._next_look[gone]
        wanted = [tenant for tenant, quota in quotas.items() if self._is_due(tenant, quota, now)]
        if not wanted:
            return 0
        counted = await store.jobs.count_quotas(wanted)
        rest = REST * (time.monotonic() - now)
        changed = [each for each in counted if each.is_over != each.was_over]
        unsaid = await self._say(store, guard, changed)
        for each in counted:
            if each in unsaid:
                continue
            quota = quotas[each.tenant]
            room = 0 if quota is None else quota - each.jobs
            pause = max(min(SELDOM, room / FASTEST), rest if rest > EVERY else 0.0)
            self._next_look[each.tenant] = (quota, now + pause)
        return len(counted)

    async def _say(self, store: Store, guard: Guard, changed: list[Counted]) -> list[Counted]:
        """Returns of whom it was not said: one that leads no more may have counted long ago."""
        said = await store.jobs.mark_quotas(guard, changed) if changed else ()
        for each in changed:
            if each.tenant in said and each.is_over:
                log.warning(
                    "tenant %d has %d live jobs, as many as it may: its fires make no more",
                    *(each.tenant, each.jobs),
                )
            elif each.tenant in said:
                log.info("tenant %d is within its quota again", each.tenant)
        return [each for each in changed if each.tenant not in said]

    def _is_due(self, tenant: int, quota: int | None, now: float) -> bool:
        known, at = self._next_look.get(tenant, (None, 0.0))
        return known != quota or now >= at
