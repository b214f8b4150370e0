"""Schedules at the database, with the verbs that a service has for them."""

import builtins
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec

from sexton.api import tellings
from sexton.cli.database.bulk import add_many
from sexton.cli.database.ground import Ground, refused, said_of
from sexton.domain.given import LARGEST_ID, MOST
from sexton.domain.schedule import ScheduleState, ScheduleView
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

    async def _told(self, view: ScheduleView) -> Schedule:
        targets = await self._ground.targets([view.task])
        return msgspec.convert(tellings.schedule(view, targets[view.task]), Schedule)

    async def _view(self, name: str) -> ScheduleView:
        return await self._schedules.get(name, tenant=self._ground.tenant)

    # ── verbs ───────────────────────────────────────────────────────────────

    async def add(
        self,
        name: str,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Schedule:
        task = await self._ground.task(target)
        return await self._told(
            await self._schedules.add(name, task, arguments, tenant=self._ground.tenant, **options)
        )

    async def put(
        self,
        name: str,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Schedule:
        task = await self._ground.task(target)
        return await self._told(
            await self._schedules.put(name, task, arguments, tenant=self._ground.tenant, **options)
        )

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
        view = await self._schedules.update(name, tenant=self._ground.tenant, **changes)
        return await self._told(view)

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
        return await self._told(
            await self._schedules.pause(name, reason, until=until, tenant=tenant)
        )

    async def resume(self, name: str) -> Schedule:
        return await self._told(await self._schedules.resume(name, tenant=self._ground.tenant))

    async def cancel(self, name: str, reason: str | None = None) -> None:
        await self._schedules.cancel(name, reason, tenant=self._ground.tenant)

    async def trigger(self, name: str, *, arguments: Mapping[str, Any] | None = None) -> int:
        tenant = self._ground.tenant
        return await self._schedules.trigger(name, arguments=arguments, tenant=tenant)

    async def backfill(self, name: str, from_: Instant, to: Instant, *, rate: float = 10.0) -> int:
        tenant = self._ground.tenant
        return await self._schedules.backfill(name, from_, to, rate=rate, tenant=tenant)

    async def cancel_backfill(self, name: str, id: int) -> None:
        found = await self._schedules.backfills(name, id=id, tenant=self._ground.tenant)
        if not found:
            raise refused(404, f"schedule {name!r} has no backfill {id}")
        stopped = await self._schedules.cancel_backfill(id, tenant=self._ground.tenant)
        if not stopped and not found[0].cancelled:
            raise refused(409, f"backfill {id} has come to its end already")

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
