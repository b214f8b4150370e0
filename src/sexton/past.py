"""Schedules and their past: firing a stretch of it again where it was not fired."""

from datetime import datetime

from sexton.domain.backfill import BackfillView
from sexton.domain.spec import checked_instant
from sexton.errors import InvalidSchedule
from sexton.flow.verbs import Verbs
from sexton.reach import Reach
from sexton.store.schedules import DEFAULT_TENANT

MAX_RATE = 10_000.0


class Past(Reach):
    """The part of `app.schedules` that is about backfills."""

    async def backfill(
        self,
        name: str,
        from_: datetime | str,
        to: datetime | str,
        *,
        rate: float = 10.0,
        tenant: str = DEFAULT_TENANT,
    ) -> int:
        """Fire what was not fired from one instant until before another, oldest first, at most
        `rate` a second; the nodes do it. Returns its id.

        Each fire goes by what the schedule said at that instant, and what has been fired is not
        fired again.
        """
        first, end = checked_instant(from_, "from_"), checked_instant(to, "to")
        store, tenant_id = await self.at(tenant)
        standing = await Verbs(store, tenant_id).demand(name)
        if standing.state == "cancelled":
            raise InvalidSchedule(f"schedule {name!r} is cancelled: add it again first")
        if first >= end:
            raise InvalidSchedule("to: must be later than from_")
        if end > standing.now:
            raise InvalidSchedule(f"to: {end.isoformat()} is not in the past: it fires by itself")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= MAX_RATE:
            raise InvalidSchedule(f"rate: {rate!r} is not a number of fires a second, up to 10,000")
        return await store.backfills.add(standing.id, first, end, float(rate))

    async def backfills(
        self,
        name: str | None = None,
        *,
        id: int | None = None,
        limit: int = 50,
        tenant: str = DEFAULT_TENANT,
    ) -> list[BackfillView]:
        """Newest first, with how far each has come."""
        store, tenant_id = await self.at(tenant)
        return await store.backfills.list(tenant_id, name=name, id=id, limit=limit)

    async def cancel_backfill(self, id: int, *, tenant: str = DEFAULT_TENANT) -> bool:
        """End it where it is; False if it has ended, or never was."""
        store, tenant_id = await self.at(tenant)
        return await store.backfills.cancel(tenant_id, id)
