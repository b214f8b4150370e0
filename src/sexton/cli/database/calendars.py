"""Calendars at the database, with the verbs that a service has for them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from sexton.cli.database.ground import Ground, refused
from sexton.cli.database.logged import Change
from sexton.domain.spec import checked_name
from sexton.domain.when.calendar import Calendar as Content
from sexton.flow import recalendar
from sexton.remote.views import Calendar, Page
from sexton.store import Store
from sexton.store.calendars import CalendarView


class Calendars:
    """A tenant's."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground

    async def put(
        self,
        name: str,
        *,
        dates: Iterable[Any] = (),
        ranges: Iterable[str] = (),
        windows: Iterable[str] = (),
        timezone: str | None = None,
    ) -> Calendar:
        content = Content.of(dates=dates, ranges=ranges, windows=windows, timezone=timezone)

        async def put(change: Change) -> Calendar:
            before = await _held(change, name)
            recomputed = await change.calendars.put(name, content, tenant=self._ground.tenant)
            after = await recalendar.find(change.store, change.owner, name)
            assert after is not None, "it has just been put"
            told = _told(after, recomputed)
            if before is None or before.version != after.version:
                was = None if before is None else msgspec.to_builtins(_told(before))
                change.log("calendar.put", name, before=was, after=msgspec.to_builtins(told))
            return told

        return await self._ground.changed(put)

    async def get(self, name: str) -> Calendar:
        return _told(await self._view(await self._ground.store(), name))

    async def _view(self, store: Store, name: str) -> CalendarView:
        owner = await self._ground.owner()
        found = await recalendar.find(store, owner, checked_name(name))
        if found is None:
            raise refused(404, str(await recalendar.unknown(store, owner, name)))
        return found

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Calendar]:
        store, owner = await self._ground.store(), await self._ground.owner()
        found = await store.calendars.page(owner, cursor, limit + 1)
        following = found[limit - 1].name if len(found) > limit else None
        return Page([*map(_told, found[:limit])], following)

    async def users(self, name: str, *, limit: int = 50, cursor: str | None = None) -> Page[str]:
        store, owner = await self._ground.store(), await self._ground.owner()
        rules = await recalendar.rules_of(store, await self._view(store, name))
        found = await store.calendars.users_page(owner, rules, cursor, limit + 1)
        return Page([*found[:limit]], found[limit - 1] if len(found) > limit else None)

    async def remove(self, name: str) -> None:
        async def remove(change: Change) -> None:
            before = await _held(change, name)
            if before is None:
                await self._view(change.store, name)  # which says what may be meant
                return
            await change.calendars.remove(name, tenant=self._ground.tenant)
            change.log("calendar.remove", name, before=msgspec.to_builtins(_told(before)))

        await self._ground.changed(remove)


async def _held(change: Change, name: str) -> CalendarView | None:
    """As it is, and as it stays unless we change it."""
    await change.store.calendars.hold(change.owner, to_change=True)
    return await recalendar.find(change.store, change.owner, checked_name(name))


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
