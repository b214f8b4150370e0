"""Calendars at the database, with the verbs that a service has for them."""

from collections.abc import Iterable
from typing import Any

from sexton.cli.database.ground import Ground, refused
from sexton.domain.spec import checked_name
from sexton.flow import recalendar
from sexton.remote.views import Calendar, Page
from sexton.store.calendars import CalendarView


class Calendars:
    """A tenant's."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._calendars = ground.app.calendars

    async def put(
        self,
        name: str,
        *,
        dates: Iterable[Any] = (),
        ranges: Iterable[str] = (),
        windows: Iterable[str] = (),
        timezone: str | None = None,
    ) -> Calendar:
        tenant = self._ground.tenant
        recomputed = await self._calendars.put(
            name, dates=dates, ranges=ranges, windows=windows, timezone=timezone, tenant=tenant
        )
        return _told(await self._calendars.get(name, tenant=tenant), recomputed)

    async def get(self, name: str) -> Calendar:
        store, owner = await self._ground.store(), await self._ground.owner()
        found = await recalendar.find(store, owner, checked_name(name))
        if found is None:
            raise refused(404, str(await recalendar.unknown(store, owner, name)))
        return _told(found)

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Calendar]:
        store, owner = await self._ground.store(), await self._ground.owner()
        found = await store.calendars.page(owner, cursor, limit + 1)
        following = found[limit - 1].name if len(found) > limit else None
        return Page([*map(_told, found[:limit])], following)

    async def remove(self, name: str) -> None:
        await self.get(name)
        await self._calendars.remove(name, tenant=self._ground.tenant)


def _told(view: CalendarView, recomputed: int | None = None) -> Calendar:
    content = view.calendar
    return Calendar(
        name=view.name,
        version=view.version,
        since=view.since,
        dates=[*content.dates],
        ranges=[*content.ranges],
        windows=[*content.windows],
        timezone=content.timezone,
        recomputed=recomputed,
    )
