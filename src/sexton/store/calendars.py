"""Calendars, and the schedules that go by them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sexton.domain.change import Body, Change, Standing
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.store.source import Row
from sexton.store.statements import Statements


@dataclass(frozen=True, slots=True)
class CalendarView:
    """A calendar as anyone may look at it, in its newest version."""

    name: str
    version: int
    since: datetime
    calendar: Calendar


class Calendars:
    """Statements about calendars."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def hold(self, tenant: int, *, to_change: bool = False) -> None:
        """Until the end of the transaction: nobody changes them, or nobody else uses them."""
        await self._run.rows("hold", f"calendar:{tenant}", to_change)

    async def list(self, tenant: int, names: Collection[str] | None = None) -> list[CalendarView]:
        """The newest versions; of all without names."""
        wanted = None if names is None else [*names]
        return [*map(_view, await self._run.rows("calendars_current", tenant, wanted))]

    async def page(self, tenant: int, after: str | None, limit: int) -> Sequence[CalendarView]:
        """The newest versions, by name, after one of them."""
        return [*map(_view, await self._run.rows("calendars_page", tenant, after, limit))]

    async def current(self, tenant: int, names: Collection[str]) -> dict[CalendarRef, Calendar]:
        """The newest versions, as rules name them."""
        found = await self.list(tenant, names)
        return {CalendarRef(each.name, each.version): each.calendar for each in found}

    async def put(self, tenant: int, name: str, calendar: Calendar | None) -> tuple[int, datetime]:
        """A new version, or its end; its number and the instant from which it holds."""
        text = "" if calendar is None else calendar.to_json()
        row = await self._run.row("calendar_put", tenant, name, text, self._run.now())
        assert row is not None
        return row["version"], row["since"]

    async def rules(self, reference: str) -> dict[int, str]:
        """The rules in use that name a calendar so."""
        rows = await self._run.rows("calendar_rules", reference)
        return {row["id"]: row["definition"] for row in rows}

    async def users(self, rules: Collection[int], limit: int) -> Sequence[str]:
        rows = await self._run.rows("calendar_users", [*rules], limit)
        return [row["name"] for row in rows]

    async def users_page(
        self, tenant: int, rules: Collection[int], after: str | None, limit: int
    ) -> Sequence[str]:
        rows = await self._run.rows("calendar_users_page", tenant, [*rules], after, limit)
        return [row["name"] for row in rows]

    async def schedules(
        self, rules: Collection[int], after: int, limit: int, now: datetime
    ) -> Sequence[Standing]:
        """Those that go by these rules, held, as they stand at `now`."""
        rows = await self._run.rows("calendar_schedules", [*rules], after, limit)
        return [_standing(row, now) for row in rows]

    async def change(self, now: datetime, changes: Sequence[tuple[Standing, Change]]) -> None:
        """Their next versions, all by one verb; they are held, so nothing stands in the way."""
        passed = [
            (standing.id, change.passed, change.passed_as)
            for standing, change in changes
            if change.passed is not None
        ]
        gaps = [(standing.id, gap) for standing, change in changes for gap in change.gaps]
        days = [each.fire_at.date() for _, each, _ in passed]
        if days:
            await self._make_buckets(min(days), max(days))
        nexts = [change.next for _, change in changes]
        await self._run.rows(
            "calendar_change",
            now,
            [standing.id for standing, _ in changes],
            [change.body.rule_id for _, change in changes],
            [change.state for _, change in changes],
            [change.reason for _, change in changes],
            [None if each is None else each.fire_at for each in nexts],
            [
                None if each is None or each.fire_at == each.scheduled_at else each.scheduled_at
                for each in nexts
            ],
            [id for id, _, _ in passed],
            [each.fire_at for _, each, _ in passed],
            [each.scheduled_at for _, each, _ in passed],
            [decision for _, _, decision in passed],
            [id for id, _ in gaps],
            [gap.first for _, gap in gaps],
            [gap.last for _, gap in gaps],
            [gap.fires for _, gap in gaps],
            [gap.decision for _, gap in gaps],
            changes[0][1].verb,
        )

    async def _make_buckets(self, first: date, last: date) -> None:
        await self._run.rows("make_fire_buckets", first, last)


def _view(row: Row) -> CalendarView:
    return CalendarView(
        row["name"], row["version"], row["since"], Calendar.from_json(row["definition"])
    )


def _standing(row: Row, now: datetime) -> Standing:
    """Without what it says about its jobs, which stays as it is."""
    return Standing(
        *(row["id"], row["version"], row["since"], row["state"], row["reason"], row["until"]),
        Body(
            *(row["rule_id"], row["anchor"], "", "", None, None, None, None),
            *(row["max_fires"], "", None),
        ),
        *(row["stamp"], row["next_fire_at"], row["scheduled_at"], row["fires_left"]),
        "",
        max(now, row["since"]),
    )
