"""A schedule in a request: found, held, compared with what the client believes, and told."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Header

from sexton.api import limits, tellings
from sexton.api.desk import Collided, Desk
from sexton.api.models.schedules import OptionsIn, ScheduleChangeIn
from sexton.api.paths import segment_of
from sexton.api.problems import Problem
from sexton.api.targets import target_of, task_of
from sexton.domain.change import Standing
from sexton.domain.schedule import ScheduleView
from sexton.domain.spec import OPTIONS, Spec, Terms
from sexton.domain.version import changed
from sexton.domain.when.effort import NEW_RULE, at_most
from sexton.errors import UnknownSchedule
from sexton.flow.begin import begin, rule_for
from sexton.flow.rulebook import Known
from sexton.flow.verbs import Verbs
from sexton.targets.http import PREFIX

T = TypeVar("T")
CALENDARS = ("exclude", "only")
_OPTIONS = frozenset(OPTIONS)

IfMatch = Annotated[
    str | None,
    Header(
        max_length=200,
        description="The version that is to be changed, as the ETag has it; another is refused.",
        examples=['"3"'],
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(max_length=200, description="With *: only if there is none.")
]
_TAGS = re.compile(r'\s*(?:W/)?"([^"]*)"\s*(?:,|$)|\s*([^",\s]+)\s*(?:,|$)')


def verbs(desk: Desk) -> Verbs:
    return Verbs(desk.store, desk.tenant_id)


# ── finding ─────────────────────────────────────────────────────────────────


async def find(desk: Desk, name: str) -> ScheduleView:
    """To look at."""
    return _there(await desk.store.schedules.get(desk.tenant_id, name), name)


async def standing_of(desk: Desk, name: str) -> Standing:
    """To decide from."""
    return _there(await desk.store.schedules.standing(desk.tenant_id, name), name)


async def hold(desk: Desk, name: str) -> ScheduleView:
    """To change: as it is, and as it stays until then."""
    return _there(await desk.store.schedules.hold(desk.tenant_id, name), name)


def _there(found: T | None, name: str) -> T:
    """Without a word on what was meant: looking for names like it costs more than all the rest."""
    if found is None:
        raise UnknownSchedule(f"no schedule {name!r}")
    return found


async def hold_calendars(desk: Desk, options: Iterable[str]) -> None:
    """Before a schedule is held: that is also the order in which a calendar's change goes."""
    if not {*CALENDARS}.isdisjoint(options):
        await desk.store.calendars.hold(desk.tenant_id)


def demand_state(view: ScheduleView, *refused: str) -> None:
    if view.state in refused:
        raise Problem(409, "conflict", f"schedule {view.name!r} is {view.state}", state=view.state)


def etag(view: ScheduleView) -> dict[str, str]:
    return {"ETag": f'"{view.version}"'}


def location(view: ScheduleView) -> dict[str, str]:
    return {"Location": f"/v1/schedules/{segment_of(view.name)}"}


def demand_match(
    view: ScheduleView | None, if_match: str | None, if_none_match: str | None = None
) -> None:
    """Whether it is what the client believes; one that was cancelled is not there to change."""
    version = None if view is None or view.state == "cancelled" else view.version
    demand_version(version, if_match, if_none_match)


def demand_version(
    version: int | None, if_match: str | None, if_none_match: str | None = None
) -> None:
    if if_match is not None:
        tags = {quoted or plain for quoted, plain in _TAGS.findall(if_match)}
        if version is None or not {"*", str(version)} & tags:
            there = "there is none" if version is None else f"it is version {version}"
            raise Problem(
                412,
                "precondition_failed",
                f"If-Match: {there}; read it again, and change that",
                version=version,
            )
    if if_none_match is not None and if_none_match.strip() == "*" and version is not None:
        raise Problem(
            412,
            "precondition_failed",
            f"If-None-Match: there is one already, in version {version}",
            version=version,
        )


# ── making ──────────────────────────────────────────────────────────────────


async def spec_of(
    desk: Desk,
    name: str,
    target: Mapping[str, Any],
    payload: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Spec:
    """A schedule to be, within what its tenant may have."""
    task = await task_of(desk, target)
    with at_most(NEW_RULE):
        spec = desk.schedules.spec(name, task, payload, **options)
        limits.demand_interval(desk.principal, spec)
    return spec


def options_of(body: OptionsIn) -> dict[str, Any]:
    """What was given, null included; of the rules of a union only what says something."""
    given = body.model_dump(include=body.model_fields_set & _OPTIONS)
    if given.get("any") is not None:
        given["any"] = [
            each
            if isinstance(each, str)
            else {name: value for name, value in each.items() if value is not None}
            for each in given["any"]
        ]
    return given


async def changed_spec(
    desk: Desk, view: ScheduleView, standing: Standing, body: ScheduleChangeIn
) -> Spec:
    """What a schedule that is held says after a change."""
    changes = options_of(body)
    if "target" in body.model_fields_set:
        if body.target is None:
            raise Problem(422, "invalid", "target: cannot be taken back", field="target")
        changes["task"] = await task_of(desk, body.target)
    if "payload" in body.model_fields_set:
        given = body.payload
        changes["arguments"] = {} if given is None else merged(view.payload, given)
    with at_most(NEW_RULE):
        spec = changed(view.name, standing, changes, desk.schedules.payload)
        limits.demand_interval(desk.principal, spec)
    return spec


def merged(before: Any, patch: Any) -> Any:
    """RFC 7396; what is nested too deeply for this was refused at the door."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = merged(kept.get(name), value)
    return kept


async def rule_of(desk: Desk, terms: Terms) -> Known:
    """The rule in the database; the next who needs it need not ask."""
    book = desk.service.rulebook
    known, new = await rule_for(desk.store, desk.tenant_id, terms, book)
    if new:
        desk.after_commit(lambda: book.keep({terms.text: known}))
    return known


async def begun(desk: Desk, spec: Spec) -> ScheduleView | None:
    """A new one; None: the name is taken, if only by one that is cancelled."""
    await limits.room_for_schedules(desk, 1)
    known = await rule_of(desk, spec.terms)
    return await begin(desk.store, desk.tenant_id, desk.tenant, spec, known)


async def begun_again(desk: Desk, spec: Spec) -> ScheduleView:
    """One that was cancelled; refused if it is not."""
    await verbs(desk).add(spec)
    return await find(desk, spec.name)


async def become(desk: Desk, before: ScheduleView, standing: Standing, spec: Spec) -> ScheduleView:
    """One that is held, made to say this; itself if it does."""
    known = await rule_of(desk, spec.terms)
    became = await verbs(desk).become(standing, spec, known.id, known.rule)
    if became is None:
        raise Collided
    return await find(desk, spec.name) if became else before


# ── telling ─────────────────────────────────────────────────────────────────


async def targets(desk: Desk, tasks: Iterable[str]) -> dict[str, dict[str, Any]]:
    """As a client says them, by the tasks that they became."""
    wanted = set(tasks)
    numbers = [each.removeprefix(PREFIX) for each in wanted if each.startswith(PREFIX)]
    ids = {int(each) for each in numbers if each.isdecimal()}
    endpoints = {}
    if ids:
        rows = await desk.store.endpoints.by_id([*ids], desk.tenant_id)
        endpoints = {row.id: row for row in rows}
    return {task: target_of(task, endpoints) for task in wanted}


async def told(desk: Desk, view: ScheduleView) -> dict[str, Any]:
    return tellings.schedule(view, (await targets(desk, [view.task]))[view.task])
