"""Schedules and their past: firing a stretch of it again where it was not fired."""

from datetime import UTC, datetime, timedelta

from sexton.domain.backfill import BackfillView
from sexton.domain.given import LARGEST_ID
from sexton.domain.schedule import Rule
from sexton.domain.spec import checked_count, checked_instant, checked_search
from sexton.domain.when.rule import MOMENT
from sexton.errors import InvalidSchedule
from sexton.flow.verbs import Verbs
from sexton.reach import Reach
from sexton.store.schedules import DEFAULT_TENANT

MAX_RATE = 10_000.0
# Each has a table of its own in the ledger, and thousands of tables slow everybody down.
MOST_DAYS = 1000


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
        rule = await Verbs(store, tenant_id).rule(standing)
        if rule is not None and _days(rule, standing.body.anchor, first, end) > MOST_DAYS:
            raise InvalidSchedule(
                f"from_: it has fires on more than {MOST_DAYS:,} days of this stretch: backfill "
                "less of it, or enqueue jobs for what is older"
            )
        known = await store.backfills.known_from(standing.id, first, end)
        if known is not None and first < known:
            raise InvalidSchedule(
                f"from_: what was fired before {known.isoformat()} is not known any more, so it "
                "might be fired a second time: begin there, or enqueue jobs for what is older"
            )
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
        checked_search(name, "name")
        checked_count(limit, "limit")
        if id is not None:
            _checked_id(id)
        store, tenant_id = await self.at(tenant)
        return await store.backfills.list(tenant_id, name=name, id=id, limit=limit)

    async def cancel_backfill(self, id: int, *, tenant: str = DEFAULT_TENANT) -> bool:
        """End it where it is; False if it has ended, or never was."""
        _checked_id(id)
        store, tenant_id = await self.at(tenant)
        return await store.backfills.cancel(tenant_id, id)


def _days(rule: Rule, anchor: datetime, first: datetime, end: datetime) -> int:
    """On how many days of a stretch it fires, as far as that is worth counting."""
    days, after = 0, first - MOMENT
    while days <= MOST_DAYS:
        at = rule.timetable.after(after, anchor)
        if at is None or at >= end:
            break
        days += 1
        midnight = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        after = midnight + timedelta(days=1) - MOMENT
    return days


def _checked_id(id: int) -> None:
    if isinstance(id, bool) or not isinstance(id, int) or not 0 < id <= LARGEST_ID:
        raise InvalidSchedule(f"id: {id!r:.100} is not a backfill's id, which is a whole number")
