"""Schedules at the database, with the verbs that a service has for them."""

import builtins
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from sexton.api import tellings
from sexton.cli.database.bulk import add_many
from sexton.cli.database.ground import Ground, refused, said_of
from sexton.cli.database.logged import Change
from sexton.domain.given import LARGEST_ID, MOST
from sexton.domain.schedule import ScheduleState, ScheduleView
from sexton.domain.spec import checked_name
from sexton.flow.explain import explain
from sexton.remote.schedules import Instant, Target, instead, plain
from sexton.remote.views import (
    Backfill,
    Decision,
    Explanation,
    Line,
    Page,
    Plan,
    Planned,
    Schedule,
    Version,
)
from sexton.store import Store

STATES: tuple[ScheduleState, ...] = get_args(ScheduleState)
THERE = tuple(state for state in STATES if state != "cancelled")
LOOKED_AT = 2000
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(8999, 12, 31, tzinfo=UTC)


class Schedules:
    """A tenant's."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._schedules = ground.app.schedules

    async def _as_said(self, view: ScheduleView, store: Store | None = None) -> dict[str, Any]:
        targets = await self._ground.targets([view.task], store)
        return tellings.schedule(view, targets[view.task])

    async def _told(self, view: ScheduleView) -> Schedule:
        return msgspec.convert(await self._as_said(view), Schedule)

    async def _view(self, name: str) -> ScheduleView:
        return await self._schedules.get(name, tenant=self._ground.tenant)

    # ── verbs ───────────────────────────────────────────────────────────────

    async def _changed(
        self, name: str, action: str, work: Callable[[Change], Awaitable[ScheduleView]]
    ) -> Schedule:
        """What a verb makes of a schedule, and a line of the log unless that is what it was."""

        async def change(change: Change) -> Schedule:
            before = await _held(change, name)
            after = await work(change)
            told = await self._as_said(after, change.store)
            if before is None or (before.state == "cancelled" and after.state == "active"):
                change.log("schedule.create", name, after=told)
            elif before.version != after.version:
                was = await self._as_said(before, change.store)
                change.log(action, name, before=was, after=told)
            return msgspec.convert(told, Schedule)

        return await self._ground.changed(change)

    async def add(
        self,
        name: str,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Schedule:
        task, tenant = await self._ground.task(target), self._ground.tenant

        async def add(change: Change) -> ScheduleView:
            return await change.schedules.add(name, task, arguments, tenant=tenant, **options)

        return await self._changed(name, "schedule.create", add)

    async def put(
        self,
        name: str,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Schedule:
        task, tenant = await self._ground.task(target), self._ground.tenant

        async def put(change: Change) -> ScheduleView:
            return await change.schedules.put(name, task, arguments, tenant=tenant, **options)

        return await self._changed(name, "schedule.update", put)

    def add_many(
        self,
        schedules: Iterable[Mapping[str, Any]],
        *,
        mode: Literal["create", "upsert"] = "create",
    ) -> AsyncIterator[Line]:
        return add_many(self._ground, schedules, mode)

    async def update(
        self, name: str, *, arguments: Mapping[str, Any] | None = None, **changes: Any
    ) -> Schedule:
        if (target := changes.pop("target", None)) is not None:
            changes["task"] = await self._ground.task(target)
        if arguments is not None:
            changes["arguments"] = arguments

        async def update(change: Change) -> ScheduleView:
            return await change.schedules.update(name, tenant=self._ground.tenant, **changes)

        return await self._changed(name, "schedule.update", update)

    async def plan(
        self,
        name: str,
        *,
        count: int = 10,
        arguments: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Plan:
        from sexton.api.models.schedules import PlanIn
        from sexton.api.routes.schedule_looks import plan_change

        if isinstance(target := changes.get("target"), str):
            changes["target"] = {"task": target}
        if arguments is not None:
            changes["payload"] = instead((await self._view(name)).payload, plain(arguments))
        body = said_of(PlanIn, {"count": count, **plain(changes)})
        return await self._ground.asked(plan_change, name, body, kind=Plan)

    async def pause(
        self, name: str, reason: str | None = None, *, until: Instant | None = None
    ) -> Schedule:
        tenant = self._ground.tenant

        async def pause(change: Change) -> ScheduleView:
            return await change.schedules.pause(name, reason, until=until, tenant=tenant)

        return await self._changed(name, "schedule.pause", pause)

    async def resume(self, name: str) -> Schedule:
        async def resume(change: Change) -> ScheduleView:
            return await change.schedules.resume(name, tenant=self._ground.tenant)

        return await self._changed(name, "schedule.resume", resume)

    async def cancel(self, name: str, reason: str | None = None) -> None:
        async def cancel(change: Change) -> ScheduleView:
            return await change.schedules.cancel(name, reason, tenant=self._ground.tenant)

        await self._changed(name, "schedule.cancel", cancel)

    async def trigger(self, name: str, *, arguments: Mapping[str, Any] | None = None) -> int:
        given = {} if arguments is None else {"payload": plain(arguments)}

        async def trigger(change: Change) -> int:
            await _held(change, name)
            tenant = self._ground.tenant
            job = await change.schedules.trigger(name, arguments=arguments, tenant=tenant)
            change.log("schedule.trigger", name, after={"job": job} | given)
            return job

        return await self._ground.changed(trigger)

    async def backfill(self, name: str, from_: Instant, to: Instant, *, rate: float = 10.0) -> int:
        async def backfill(change: Change) -> int:
            await _held(change, name)
            tenant = self._ground.tenant
            id = await change.schedules.backfill(name, from_, to, rate=rate, tenant=tenant)
            said = {"from": from_, "to": to, "rate": rate}
            change.log("schedule.backfill", name, after={"id": id, **said})
            return id

        return await self._ground.changed(backfill)

    async def cancel_backfill(self, name: str, id: int) -> None:
        async def cancel(change: Change) -> None:
            backfills = change.schedules.backfills
            tenant = self._ground.tenant
            if not await backfills(name, id=id, tenant=tenant):
                raise refused(404, f"schedule {name!r} has no backfill {id}")
            stopped = await change.schedules.cancel_backfill(id, tenant=tenant)
            [found] = await backfills(name, id=id, tenant=tenant)
            if stopped:
                change.log("schedule.cancel_backfill", name, after=tellings.backfill(found))
            elif not found.cancelled:
                raise refused(409, f"backfill {id} has come to its end already")

        await self._ground.changed(cancel)

    # ── looking ─────────────────────────────────────────────────────────────

    async def get(self, name: str) -> Schedule:
        return await self._told(await self._view(name))

    async def list(
        self,
        *,
        state: str | None = None,
        tag: str | None = None,
        target: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Schedule]:
        states = THERE if state is None else [each for each in STATES if state in (each, "all")]
        async with self._ground.listing() as store:
            found, reached = await store.schedules.page(
                await self._ground.owner(),
                states=states,
                tag=tag,
                target=target,
                text=text,
                after=cursor,
                limit=limit + 1,
                look_at=max(LOOKED_AT, limit + 1),
            )
        shown = found[:limit]
        targets = await self._ground.targets({view.task for view in shown})
        items = [
            msgspec.convert(tellings.schedule(view, targets[view.task]), Schedule) for view in shown
        ]
        return Page(items, shown[-1].name if len(found) > limit else reached)

    async def preview(
        self,
        name: str | None = None,
        *,
        count: int = 10,
        from_: Instant | None = None,
        **options: Any,
    ) -> builtins.list[Planned]:
        tenant = self._ground.tenant
        found = await self._schedules.preview(
            name, count=count, from_=from_, tenant=tenant, **options
        )
        return [Planned(each.fire_at, each.scheduled_at, each.note) for each in found]

    async def explain(self, name: str, at: datetime) -> Explanation:
        client = await self._ground.app.client()
        found = await explain(client.store, client.pool, name, at, self._ground.tenant)
        return msgspec.convert(tellings.explanation(found), Explanation)

    async def fires(
        self,
        name: str,
        *,
        from_: datetime | None = None,
        to: datetime | None = None,
        decision: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Decision]:
        after = (END, END, END) if cursor is None else _place(cursor)
        found, reached = await (await self._ground.store()).ledger.page(
            (await self._view(name)).id,
            from_=from_ or BEGINNING,
            to=to or END,
            decision=decision,
            after=after,
            limit=limit + 1,
            look_at=limit + 1 if decision is None else max(LOOKED_AT, limit + 1),
        )
        if len(found) > limit:
            reached = tellings.place(found[limit - 1])
        following = None if reached is None else "_".join(each.isoformat() for each in reached)
        items = [msgspec.convert(tellings.decision(each), Decision) for each in found[:limit]]
        return Page(items, following)

    async def versions(
        self, name: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Version]:
        start = MOST if cursor is None else _number(cursor)
        id = (await self._view(name)).id
        store = await self._ground.store()
        found = await store.schedules.versions_page(id, start, limit + 1)
        targets = await self._ground.targets({each.task for each in found})
        items = [
            msgspec.convert(tellings.version(each, targets[each.task]), Version)
            for each in found[:limit]
        ]
        return Page(items, str(found[limit - 1].version) if len(found) > limit else None)

    async def backfills(
        self, name: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Backfill]:
        start = LARGEST_ID if cursor is None else _number(cursor)
        id = (await self._view(name)).id
        found = await (await self._ground.store()).backfills.page(id, start, limit + 1)
        items = [msgspec.convert(tellings.backfill(each), Backfill) for each in found[:limit]]
        return Page(items, str(found[limit - 1].id) if len(found) > limit else None)


async def _held(change: Change, name: str) -> ScheduleView | None:
    """As it is, and as it stays until we change it; the calendars first, as everybody does."""
    await change.store.calendars.hold(change.owner)
    return await change.store.schedules.hold(change.owner, checked_name(name))


def _place(cursor: str) -> tuple[datetime, datetime, datetime]:
    try:
        first, last, decided = map(datetime.fromisoformat, cursor.split("_"))
    except ValueError:
        raise refused(422, "cursor: is not one that a page ended with") from None
    return first, last, decided


def _number(cursor: str) -> int:
    if not cursor.isdecimal():
        raise refused(422, "cursor: is not one that a page ended with")
    return min(int(cursor), MOST)
