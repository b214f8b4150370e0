"""The verbs of schedules: each change is a version from an instant on, decided from one reading.

What was read may have moved on when the change is written: somebody fired it, or changed it. Then
nothing was written, and the schedule is read and decided again.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

import asyncpg

from sexton.domain.change import (
    Change,
    Standing,
    activated,
    demand_first,
    excluded_before,
    is_overdue,
    resumed,
    stopped,
    updated,
)
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.spec import Spec, Terms, checked_name
from sexton.domain.version import (
    Payload,
    body_of,
    changed,
    fresh_anchor,
    next_body,
    pinned,
    same_meaning,
)
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.effort import NEW_RULE, at_most
from sexton.domain.when.timetable import Timetable
from sexton.errors import InvalidSchedule, Unavailable, UnknownSchedule, did_you_mean
from sexton.store import Store

log = logging.getLogger("sexton.schedule")

TRIES = 20
AT_ONCE = 100
RESUME_EVERY = 1.0
RETIRED = "retired"  # the reason; what tells it from an operator's is the verb
Decide = Callable[[Standing, Rule | None], Change | None]


@dataclass(frozen=True, slots=True)
class Inserted:
    """A schedule that has just begun."""

    id: int
    since: datetime
    next_fire_at: datetime


class Verbs:
    """What can be done to the schedules of one tenant; in a transaction if calendars are used."""

    def __init__(self, store: Store, tenant: int = 1) -> None:
        self._store = store
        self._schedules = store.schedules
        self._tenant = tenant

    # ── adding ──────────────────────────────────────────────────────────────

    async def add(
        self, spec: Spec, *, exist_ok: bool = False, declared_by: str | None = None
    ) -> bool:
        """Whether it was added; a name that was cancelled begins again as a new version."""
        text, rule = await self.rule_of(spec.terms)
        rule_id = (await self._schedules.rules([text]))[text]
        for _ in range(TRIES):
            standing = await self._schedules.standing(self._tenant, spec.name)
            if standing is None:
                done = await self.insert(spec, rule_id, rule, declared_by) is not None
            elif standing.state != "cancelled":
                if exist_ok:
                    return False
                raise InvalidSchedule(
                    f"name: there is a schedule {spec.name!r} already; put it or update it instead"
                )
            else:
                done = await self.begin_again(standing, spec, rule_id, rule, declared_by)
            if done:
                return True
        raise restless(spec.name)

    async def begin_again(
        self,
        standing: Standing,
        spec: Spec,
        rule_id: int,
        rule: Rule,
        declared_by: str | None = None,
    ) -> bool:
        """One that was cancelled; False: it has moved on since it was read."""
        body = body_of(spec, rule_id, fresh_anchor(spec.terms, standing.now), declared_by)
        old, left = await self.rule(standing), spec.terms.max_fires
        change = activated("add", standing, body, old, rule, left=left)
        return await self._schedules.change(standing, change)

    async def insert(
        self, spec: Spec, rule_id: int, rule: Rule, declared_by: str | None = None
    ) -> Inserted | None:
        """Without looking whether its name is free; None: it is not."""
        now, [id] = await self._schedules.reserve(1)
        body = body_of(spec, rule_id, fresh_anchor(spec.terms, now), declared_by)
        with at_most(NEW_RULE):
            planned = demand_first(rule, body.anchor, now, id)
            gaps = excluded_before(rule, planned, body.anchor, now)
        gap = gaps[0] if gaps else None
        made = await self._schedules.add(id, self._tenant, spec.name, now, body, planned, gap)
        return Inserted(id, now, planned.fire_at) if made else None

    async def put(self, spec: Spec, *, declared_by: str | None = None) -> bool:
        """Make it so; whether that changed anything."""
        if await self.add(spec, exist_ok=True, declared_by=declared_by):
            return True
        return await self._become(spec.name, lambda _: spec, declared_by)

    async def update(self, name: str, changes: Mapping[str, Any], payload_of: Payload) -> bool:
        """Change some of what it says; whether that changed anything."""
        return await self._become(name, lambda now: changed(name, now, changes, payload_of), None)

    async def amend(
        self, spec: Spec, *, declared_by: str | None = None, demand: bool = True
    ) -> bool | None:
        """Make one that exists say this; whether that changed anything. None: it is cancelled, and
        stays so."""
        for _ in range(TRIES):
            standing = await self.demand(spec.name)
            if standing.state == "cancelled":
                return None
            text, rule = await self.rule_of(spec.terms)
            rule_id = (await self._schedules.rules([text]))[text]
            done = await self.become(standing, spec, rule_id, rule, declared_by, demand=demand)
            if done is not None:
                return done
        raise restless(spec.name)

    async def _become(
        self, name: str, spec_of: Callable[[Standing], Spec], declared_by: str | None
    ) -> bool:
        for _ in range(TRIES):
            standing = await self.demand(name)
            _refuse_cancelled(name, standing)
            spec = spec_of(standing)
            text, rule = await self.rule_of(spec.terms)
            rule_id = (await self._schedules.rules([text]))[text]
            done = await self.become(standing, spec, rule_id, rule, declared_by)
            if done is not None:
                return done
        raise restless(name)

    async def become(
        self,
        standing: Standing,
        spec: Spec,
        rule_id: int,
        rule: Rule,
        declared_by: str | None = None,
        *,
        demand: bool = True,
    ) -> bool | None:
        """From how it was read; whether that changed anything. None: it has moved on since.

        What would never fire is refused, or if nobody demands that it does, has ended.
        """
        if is_overdue(standing):
            if not await self._end_pause(standing):
                return None
            standing = await self.demand(spec.name)
        body = next_body(spec, standing, rule_id, rule, declared_by)
        if same_meaning(body, standing.body) and standing.state != "quarantined":
            return False
        change = updated(standing, body, await self.rule(standing), rule, demand)
        return await self._schedules.change(standing, change) or None

    # ── stopping and going on ───────────────────────────────────────────────

    async def pause(
        self, name: str, reason: str | None, until: datetime | None, *, of_task: str | None = None
    ) -> bool:
        """No fires until it is resumed, or until an instant; whether that changed anything. With
        `of_task` only if it still is for that one."""

        def decide(standing: Standing, old: Rule | None) -> Change | None:
            if of_task is not None and standing.body.task != of_task:
                return None
            if standing.state in ("cancelled", "ended"):
                raise InvalidSchedule(f"schedule {name!r} is {standing.state}: nothing to pause")
            if until is not None and until <= standing.now:
                raise InvalidSchedule(f"until: {until.isoformat()} is over already")
            if (standing.state, standing.reason, standing.until) == ("paused", reason, until):
                return None
            left = standing.fires_left
            return stopped(
                "pause", standing, standing.body, old, "paused", reason, left=left, until=until
            )

        return await self._change(name, decide)

    async def resume(self, name: str) -> bool:
        """Go on with the first fire after now; those of the pause are recorded, not made up for."""

        def decide(standing: Standing, old: Rule | None) -> Change | None:
            if standing.state in ("cancelled", "ended"):
                raise InvalidSchedule(f"schedule {name!r} is {standing.state}: nothing to resume")
            if standing.state == "active":
                return None
            _demand_usable(name, old)
            return resumed(standing, old)

        return await self._change(name, decide)

    async def resume_if_over(self, name: str) -> bool:
        """End a pause that had an end, as of that instant: what is due since then is just late."""

        for _ in range(TRIES):
            standing = await self.demand(name)
            if not is_overdue(standing):
                return False
            if await self._end_pause(standing):
                return True
        raise restless(name)

    async def _end_pause(self, standing: Standing) -> bool:
        """As of its end, whoever comes by first: the leader, or somebody with another verb."""
        assert standing.until is not None
        then = replace(standing, now=max(standing.until, standing.since))
        change = resumed(then, await self.rule(standing))
        return await self._schedules.change(then, change)

    async def retire(self, name: str) -> bool:
        """Cancel what code does not declare any more."""
        return await self.cancel(name, RETIRED, verb="retire")

    async def was_retired(self, standing: Standing) -> bool:
        """Whether it was not an operator who cancelled it."""
        before = await self._schedules.versions_page(standing.id, standing.version, 1)
        return standing.state == "cancelled" and [each.ended_by for each in before] == ["retire"]

    async def cancel(self, name: str, reason: str | None, *, verb: str = "cancel") -> bool:
        """No more fires; jobs that live go on. Whether that changed anything."""

        def decide(standing: Standing, old: Rule | None) -> Change | None:
            if standing.state == "cancelled":
                return None
            left = standing.fires_left
            return stopped(verb, standing, standing.body, old, "cancelled", reason, left=left)

        return await self._change(name, decide)

    async def trigger(
        self, name: str, arguments: Mapping[str, Any] | None, payload_of: Payload
    ) -> int:
        """A job of it, now; returns its id."""
        standing = await self.demand(name)
        _refuse_cancelled(name, standing)
        payload = None if arguments is None else payload_of(standing.body.task, arguments)
        for _ in range(TRIES):
            with suppress(asyncpg.UniqueViolationError):  # another trigger at the same instant
                id = await self._schedules.trigger(self._tenant, name, payload)
                if id is not None:
                    return id
                _refuse_cancelled(name, await self.demand(name))
        raise restless(name)

    # ── reading and writing ─────────────────────────────────────────────────

    async def demand(self, name: str) -> Standing:
        """As it stands, or an error that may know what was meant."""
        standing = await self._schedules.standing(self._tenant, checked_name(name))
        if standing is None:
            await self.unknown(name)
        return standing

    async def unknown(self, name: str) -> NoReturn:
        hint = did_you_mean(name, await self._schedules.near(self._tenant, name))
        raise UnknownSchedule(f"no schedule {name!r}{hint}")

    async def _change(self, name: str, decide: Decide) -> bool:
        ended = False
        for _ in range(TRIES):
            standing = await self.demand(name)
            if is_overdue(standing):
                # What has been due since belongs to the time after the pause.
                ended = await self._end_pause(standing)
                continue
            change = decide(standing, await self.rule(standing))
            if change is None:
                return ended
            if await self._schedules.change(standing, change):
                return True
        raise restless(name)

    async def rule(self, standing: Standing) -> Rule | None:
        """The rule it goes by, with the calendars that it was made with; None: not to be used."""
        try:
            said = RuleText.from_json(standing.rule_text)
            calendars = await self._store.due.calendars(said.when.calendars)
            return Rule(Timetable.compile(said.when, calendars), said.policy)
        except InvalidSchedule:
            return None

    async def rule_of(self, terms: Terms) -> tuple[str, Rule]:
        """The text and the rule of new terms, with the calendars as they are now."""
        calendars: Mapping[CalendarRef, Calendar] = {}
        if terms.when.calendars:
            names = {ref.name for ref in terms.when.calendars}
            await self._store.calendars.hold(self._tenant)
            calendars = await self._store.calendars.current(self._tenant, names)
        return pinned(terms, calendars)


async def resume_all_over(store: Store, rules: object, guard: object) -> int:
    """The leader's errand: end the pauses that are over. Two leaders at once do no harm."""
    resumed = 0
    for tenant, name in await store.schedules.resumable(AT_ONCE):
        try:
            resumed += await Verbs(store, tenant).resume_if_over(name)
        except asyncpg.LockNotAvailableError:
            log.info("schedule %r is locked: its pause ends a little later", name)
    return resumed


def _demand_usable(name: str, rule: Rule | None) -> None:
    if rule is None:
        raise InvalidSchedule(f"schedule {name!r}: its rule cannot be used: update it")


def _refuse_cancelled(name: str, standing: Standing) -> None:
    if standing.state == "cancelled":
        raise InvalidSchedule(f"schedule {name!r} is cancelled: add it again first")


def restless(name: str) -> Unavailable:
    return Unavailable(f"schedule {name!r} changes all the time: nothing was done, try again")
