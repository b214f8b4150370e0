"""Declared schedules, brought into the database at deploy: what would change, and changing it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from sexton.domain.change import Body, Standing, fires_left
from sexton.domain.plan import Plan, Step, differences
from sexton.domain.schedule import Rule
from sexton.domain.spec import Spec
from sexton.domain.version import fresh_anchor, next_body, same_meaning
from sexton.errors import InvalidSchedule
from sexton.flow.verbs import Verbs
from sexton.store import Store

SHOWN_FIRES = 3
OVER = "over: it would never fire"


class Sync:
    """The schedules of one application, in one transaction."""

    def __init__(
        self, store: Store, tenant: int, application: str, declared: Mapping[str, Spec]
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._verbs = Verbs(store, tenant)
        self._application = application
        self._declared = declared

    async def plan(self, *, adopt: bool = False) -> Plan:
        """What would be done, with the fires before and after; changes nothing."""
        was = await self._store.schedules.declared(self._tenant, self._application)
        names = sorted({*was, *self._declared})
        standing = await self._store.schedules.standings(self._tenant, names)
        now = await self._store.history.clock()
        steps = []
        for name in names:
            with _named(name):
                steps.append(await self._step(name, standing.get(name), now, adopt))
        return Plan(self._application, tuple(steps))

    async def apply(self, *, adopt: bool = False) -> Plan:
        """Do it, all or nothing; two deployments at once are one after the other."""
        await self._store.schedules.hold_application(self._application)
        plan = await self.plan(adopt=adopt)
        if refused := plan.of("refuse"):
            raise InvalidSchedule("; ".join(f"{step.name!r}: {step.note}" for step in refused))
        done = []
        for step in plan.steps:
            with _named(step.name):
                done.append(await self._do(step))
        return replace(plan, steps=tuple(done))

    async def _do(self, step: Step) -> Step:
        """One of them; what an operator has done to it since it was planned stays."""
        verbs, application = self._verbs, self._application
        match step.kind:
            case "retire":
                await verbs.retire(step.name)
            case "add" | "restore":
                spec = self._declared[step.name]
                if not await verbs.add(spec, exist_ok=True, declared_by=application):
                    raise InvalidSchedule("somebody has just added it: sync again")
            case "change":
                spec = self._declared[step.name]
                done = await verbs.amend(spec, declared_by=application, demand=False)
                if done is None:
                    return Step("keep", step.name, note="stays cancelled, as it has just been")
        return step

    async def _step(self, name: str, standing: Standing | None, now: datetime, adopt: bool) -> Step:
        before = await self._fires_now(standing)
        spec = self._declared.get(name)
        if spec is None:
            return Step("retire", name, before, note="not declared any more")
        rule_text, rule = await self._verbs.rule_of(spec.terms)
        if standing is None or standing.state == "cancelled":
            return await self._begin(spec, rule, standing, now)
        if standing.body.declared_by != self._application and not adopt:
            return Step("refuse", name, before, note=_whose(standing.body.declared_by))
        rule_id = standing.body.rule_id if rule_text == standing.rule_text else 0  # another one
        body = next_body(spec, standing, rule_id, rule, self._application)
        if same_meaning(body, standing.body):
            return Step("keep", name, before, before, note=_state(standing))
        after = _fires(rule, body.anchor, now, standing.id)
        if fires_left(standing, body.max_fires, demand=False) == 0:
            after = ()
        if not after and standing.state == "ended":
            return Step("keep", name, note=OVER)
        note = _state(standing, "paused") if after else OVER
        changes = differences(_said(standing.body), _said(body))
        return Step("change", name, before, _unless_paused(standing, after), changes, note)

    async def _begin(
        self, spec: Spec, rule: Rule, standing: Standing | None, now: datetime
    ) -> Step:
        """One that is not there, or not any more."""
        mine = standing is not None and standing.body.declared_by == self._application
        if standing is not None and mine and not await self._verbs.was_retired(standing):
            return Step("keep", spec.name, note=_state(standing))
        id = 0 if standing is None else standing.id
        fires = _fires(rule, fresh_anchor(spec.terms, now), now, id)
        if not fires:
            return Step("keep", spec.name, note=OVER)
        return Step("restore" if mine else "add", spec.name, (), fires)

    async def _fires_now(self, standing: Standing | None) -> tuple[datetime, ...]:
        if standing is None or standing.state != "active":
            return ()
        rule = await self._verbs.rule(standing)
        return () if rule is None else _fires(rule, standing.body.anchor, standing.now, standing.id)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """What is wrong with one of many says with which."""
    try:
        yield
    except InvalidSchedule as error:
        raise InvalidSchedule(f"{name!r}: {error}") from None


def _unless_paused(standing: Standing, fires: tuple[datetime, ...]) -> tuple[datetime, ...]:
    return () if standing.state == "paused" else fires


def _fires(rule: Rule, anchor: datetime, now: datetime, seed: int) -> tuple[datetime, ...]:
    planned = rule.timetable.preview(now, SHOWN_FIRES, anchor, seed)
    return tuple(each.fire_at for each in planned)


def _said(body: Body) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.json.decode(body.said)
    arguments = msgspec.json.decode(body.payload)
    return {"task": body.task, "arguments": arguments, **said, "declared_by": body.declared_by}


def _state(standing: Standing, *only: str) -> str | None:
    """What an operator has done to it, which a deployment leaves as it is."""
    state = standing.state
    if state == "active" or (only and state not in only):
        return None
    return f"stays {state}" + (f": {standing.reason}" if standing.reason else "")


def _whose(declared_by: str | None) -> str:
    if declared_by is None:
        return "there is one that was not declared by code; cancel it, or sync with adopt"
    return (
        f"it is declared by {declared_by!r}; give this application that name, cancel the "
        "schedule, or sync with adopt"
    )
