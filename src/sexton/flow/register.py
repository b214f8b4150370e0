"""Many new schedules at once: rules written once, first fires computed once for each of them."""

import asyncio
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg

from sexton.domain.change import NEVER, excluded_before, first_fire
from sexton.domain.fires import Gap
from sexton.domain.schedule import Rule
from sexton.domain.spec import Registered, Spec, Terms
from sexton.domain.version import fresh_anchor, pinned
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.effort import NEW_RULE, at_most
from sexton.domain.when.timetable import Planned
from sexton.errors import InvalidSchedule
from sexton.flow.decide import in_turns
from sexton.flow.rulebook import Known, Rulebook
from sexton.flow.verbs import Verbs
from sexton.store import Held, Store

CHUNK = 5000
SHOWN = 20


@dataclass(slots=True)
class _Chunk:
    """New schedules, a list for each column as the statement wants them."""

    now: datetime
    ids: list[int]
    rules: list[int] = field(default_factory=list)
    anchors: list[float] = field(default_factory=list)
    next_at: list[float] = field(default_factory=list)
    scheduled_at: list[float | None] = field(default_factory=list)
    gaps: list[tuple[int, Gap]] = field(default_factory=list)


class Register:
    """Adds schedules through one connection, in its transaction."""

    def __init__(self, store: Store, tenant: int, book: Rulebook | None = None) -> None:
        assert isinstance(store.source, Held), "it works within a transaction"
        self._held = store.source
        self._store = store
        self._schedules = store.schedules
        self._tenant = tenant
        self._book = book or Rulebook()
        self._rules: dict[str, Known] = {}

    async def prepare(
        self, specs: Iterable[Spec], refused: dict[str, InvalidSchedule] | None = None
    ) -> dict[str, Known]:
        """Write their rules, before anything that others could wait for; those that are new, and
        may be kept when they are committed.

        A rule that cannot be used fails all, or is `refused` alone, by its text.
        """
        distinct: dict[str, Terms] = {}
        for spec in specs:
            text = spec.terms.text
            if text not in distinct:
                distinct[text] = spec.terms
                if (known := self._book.get(text)) is not None:
                    self._rules[text] = known
        missing = {text: terms for text, terms in distinct.items() if text not in self._rules}
        compiled = await self._compiled(missing, refused)
        if not compiled:
            return {}
        ids = await self._schedules.rules(sorted({text for text, _ in compiled.values()}))
        made = {text: Known(ids[exact], rule) for text, (exact, rule) in compiled.items()}
        self._rules |= made
        return {text: each for text, each in made.items() if not distinct[text].when.calendars}

    async def _compiled(
        self, wanted: Mapping[str, Terms], refused: dict[str, InvalidSchedule] | None
    ) -> dict[str, tuple[str, Rule]]:
        names = {ref.name for terms in wanted.values() for ref in terms.when.calendars}
        calendars: Mapping[CalendarRef, Calendar] = {}
        if names:
            await self._store.calendars.hold(self._tenant)
            calendars = await self._store.calendars.current(self._tenant, names)
        found: dict[str, tuple[str, Rule]] = {}
        for text, terms in wanted.items():
            try:
                found[text] = pinned(terms, calendars)
            except InvalidSchedule as error:
                if refused is None:
                    raise
                refused[text] = error
        return found

    def known(self, spec: Spec) -> Known:
        """Its rule, once it is prepared."""
        return self._rules[spec.terms.text]

    async def refuse_over(self, specs: Iterable[Spec], refused: dict[str, InvalidSchedule]) -> None:
        """Those whose rules would never fire, before `add` fails for all."""
        now = await self._schedules.clock()
        distinct = {spec.terms.text: spec.terms for spec in specs}
        async for text, terms in in_turns(distinct.items()):
            if text not in refused:
                try:
                    self._demand_first(text, terms, now)
                except InvalidSchedule as error:
                    refused[text] = error

    async def add(self, specs: Sequence[Spec], *, exist_ok: bool) -> list[Registered]:
        """All of them; while PostgreSQL takes in one chunk, the next is computed."""
        _demand_distinct(specs)
        await self._schedules.hold_bulk(self._tenant)
        added: list[Registered] = []
        parts = [specs[first : first + CHUNK] for first in range(0, len(specs), CHUNK)]
        chunk = await self._reserved(parts[0]) if parts else None
        for part, following in itertools.zip_longest(parts, parts[1:]):
            assert chunk is not None
            # The connection takes one statement at a time, so these ids come before that is sent.
            reserved = following and await self._schedules.reserve(len(following))
            sending = asyncio.create_task(self._send(chunk, part, specs, exist_ok))
            try:
                await asyncio.sleep(0)
                if reserved and following:
                    chunk = self._computed(*reserved, following)
            finally:
                added += await sending
        await self._schedules.notify()
        return added

    async def _reserved(self, specs: Sequence[Spec]) -> _Chunk:
        return self._computed(*await self._schedules.reserve(len(specs)), specs)

    def _computed(self, now: datetime, ids: list[int], specs: Sequence[Spec]) -> _Chunk:
        chunk = _Chunk(now, ids)
        firsts: dict[str, tuple[int, float, float, Rule, Any]] = {}
        for id, spec in zip(ids, specs, strict=True):
            text = spec.terms.text
            known = firsts.get(text)
            if known is None:
                known = firsts[text] = self._first(spec, now)
            rule_id, anchor, at, rule, gap = known
            scheduled_at = None
            if rule.timetable.has_jitter:
                planned = first_fire(rule, fresh_anchor(spec.terms, now), now, id)
                assert planned is not None
                if planned.fire_at != planned.scheduled_at:
                    at, scheduled_at = planned.fire_at.timestamp(), at
            chunk.rules.append(rule_id)
            chunk.anchors.append(anchor)
            chunk.next_at.append(at)
            chunk.scheduled_at.append(scheduled_at)
            if gap is not None:
                chunk.gaps.append((id, gap))
        return chunk

    def _first(self, spec: Spec, now: datetime) -> tuple[int, float, float, Rule, Gap | None]:
        try:
            known, anchor, planned = self._demand_first(spec.terms.text, spec.terms, now)
        except InvalidSchedule as error:
            raise InvalidSchedule(f"{spec.name!r}: {error}") from None
        gaps = excluded_before(known.rule, planned, anchor, now)
        at = planned.scheduled_at.timestamp()
        return known.id, anchor.timestamp(), at, known.rule, gaps[0] if gaps else None

    def _demand_first(
        self, text: str, terms: Terms, now: datetime
    ) -> tuple[Known, datetime, Planned]:
        known, anchor = self._rules[text], fresh_anchor(terms, now)
        with at_most(NEW_RULE):
            at = known.first(anchor, now)
        if at is None:
            raise InvalidSchedule(NEVER)
        return known, anchor, Planned(at, at)

    async def _send(
        self,
        chunk: _Chunk,
        part: Sequence[Spec],
        everything: Sequence[Spec],
        exist_ok: bool,
    ) -> list[Registered]:
        try:
            async with self._held.savepoint():
                await self._insert(chunk, part)
        except asyncpg.UniqueViolationError:
            return await self._add_others(part, everything, exist_ok)
        return [Registered(id) for id in chunk.ids]

    async def _insert(self, chunk: _Chunk, specs: Sequence[Spec]) -> None:
        await self._schedules.add_many(
            *(self._tenant, chunk.now, chunk.ids, specs, chunk.rules, chunk.anchors),
            *(chunk.next_at, chunk.scheduled_at, chunk.gaps),
        )

    async def _add_others(
        self,
        part: Sequence[Spec],
        everything: Sequence[Spec],
        exist_ok: bool,
    ) -> list[Registered]:
        """Some names are taken: by schedules that stay, or that were cancelled and begin again."""
        if not exist_ok:
            await self._refuse(everything)
        found = await self._schedules.standings(self._tenant, [spec.name for spec in part])
        verbs = Verbs(self._store, self._tenant)
        new = [spec for spec in part if spec.name not in found]
        answers: dict[str, Registered] = {}
        if new:
            chunk = await self._reserved(new)
            sent = await self._send(chunk, new, everything, exist_ok)
            answers |= {spec.name: each for spec, each in zip(new, sent, strict=True)}
        for spec in part:
            if (standing := found.get(spec.name)) is not None:
                again = standing.state == "cancelled" and await verbs.add(spec, exist_ok=True)
                answers[spec.name] = Registered(standing.id, existed=not again)
        return [answers[spec.name] for spec in part]

    async def _refuse(self, specs: Sequence[Spec]) -> None:
        """Say which rows are in the way, if there are any but cancelled ones."""
        taken: list[str] = []
        for first in range(0, len(specs), CHUNK):
            part = specs[first : first + CHUNK]
            found = await self._schedules.standings(self._tenant, [spec.name for spec in part])
            taken += [
                f"row {row}: there is a schedule {spec.name!r} already"
                for row, spec in enumerate(part, first + 1)
                if spec.name in found and found[spec.name].state != "cancelled"
            ]
        _complain(taken)


def _demand_distinct(specs: Sequence[Spec]) -> None:
    rows: dict[str, int] = {}
    wrong: list[str] = []
    for row, spec in enumerate(specs, 1):
        before = rows.setdefault(spec.name, row)
        if before != row:
            wrong.append(f"row {row}: {spec.name!r} is in row {before} already")
    _complain(wrong)


def _complain(wrong: list[str]) -> None:
    if wrong:
        more = f"; and {len(wrong) - SHOWN:,} more" if len(wrong) > SHOWN else ""
        raise InvalidSchedule("; ".join(wrong[:SHOWN]) + more)
