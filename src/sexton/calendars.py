"""`app.calendars`: named sets of dates that schedules keep out of or in."""

from collections.abc import Iterable

from sexton.domain.spec import checked_name
from sexton.domain.when.calendar import Calendar, DateLike, RangeLike
from sexton.flow import recalendar
from sexton.reach import Reach
from sexton.store.calendars import CalendarView
from sexton.store.schedules import DEFAULT_TENANT


class Calendars(Reach):
    """Put, look at and remove calendars; a change holds for every schedule that uses one."""

    async def put(
        self,
        name: str,
        calendar: Calendar | None = None,
        *,
        dates: Iterable[DateLike] = (),
        ranges: Iterable[RangeLike] = (),
        windows: Iterable[str] = (),
        timezone: str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> int:
        """Make it, or change it; returns how many schedules have a new version by it."""
        checked_name(name)
        content = calendar
        if content is None:
            content = Calendar.of(dates=dates, ranges=ranges, windows=windows, timezone=timezone)
        return await self.transaction(
            tenant, lambda store, owner: recalendar.put(store, owner, name, content)
        )

    async def get(self, name: str, *, tenant: str = DEFAULT_TENANT) -> CalendarView:
        store, tenant_id = await self.at(tenant)
        found = await recalendar.find(store, tenant_id, checked_name(name))
        if found is None:
            raise await recalendar.unknown(store, tenant_id, name)
        return found

    async def list(self, *, tenant: str = DEFAULT_TENANT) -> list[CalendarView]:
        """By name."""
        store, tenant_id = await self.at(tenant)
        return await store.calendars.list(tenant_id)

    async def remove(self, name: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """End it; refused while a schedule uses it."""
        checked_name(name)
        await self.transaction(tenant, lambda store, owner: recalendar.remove(store, owner, name))
