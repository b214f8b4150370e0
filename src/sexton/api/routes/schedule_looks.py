"""What can be asked about a schedule: what it has done, will do, and would do after a change."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response

from sexton.api import pages, tellings
from sexton.api.call import Answer, Operator, Viewer
from sexton.api.desk import Desk
from sexton.api.foresee import upcoming
from sexton.api.models.common import Instant, Name
from sexton.api.models.schedule_out import (
    ExplanationOut,
    FireOut,
    PlanOut,
    PreviewOut,
    VersionOut,
)
from sexton.api.models.schedules import MOST_FIRES, PlanIn, PreviewIn
from sexton.api.pages import Cursor, Limit, Page
from sexton.api.planning import plan
from sexton.api.problems import Problem, problems
from sexton.api.schedule import IfMatch, find, options_of, standing_of, targets, verbs
from sexton.domain.given import MOST
from sexton.domain.schedule import Decided
from sexton.domain.spec import Terms
from sexton.domain.version import fresh_anchor
from sexton.domain.when.effort import NEW_RULE, at_most
from sexton.flow.explain import explain_seen
from sexton.store.ledger import SNAPSHOT, Place

router = APIRouter(prefix="/v1/schedules", tags=["schedules"])

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(8999, 12, 31, tzinfo=UTC)
Count = Annotated[int, Query(ge=1, le=MOST_FIRES, description="How many fires.")]


@router.post("/preview", responses=problems() | {200: {"model": PreviewOut}}, response_model=None)
async def preview_definition(body: PreviewIn, call: Viewer) -> Response:
    """The next fires of a schedule that is not there, with notes on clocks and calendars."""

    async def work(desk: Desk) -> Answer:
        given = {name: value for name, value in options_of(body).items() if value is not None}
        with at_most(NEW_RULE):
            terms = Terms.of(body.name or "", given)
        _, rule = await verbs(desk).rule_of(terms)
        start = body.from_ or await desk.store.schedules.clock()
        fires = await upcoming(rule.timetable, start, body.count, fresh_anchor(terms, start))
        return Answer({"fires": [*map(tellings.planned, fires)]})

    return await call.read(work)


@router.get(
    "/{name}/preview",
    responses=problems(404, 409) | {200: {"model": PreviewOut}},
    response_model=None,
)
async def preview_schedule(
    name: Name,
    call: Viewer,
    count: Count = 10,
    from_: Annotated[
        Instant | None, Query(alias="from", description="After this instant; now.")
    ] = None,
) -> Response:
    """Its next fires, with notes on what clocks and calendars do to them."""

    async def work(desk: Desk) -> Answer:
        standing = await standing_of(desk, name)
        rule = await verbs(desk).rule(standing)
        if rule is None:
            raise Problem(409, "conflict", f"schedule {name!r}: its rule cannot be used: update it")
        fires = await upcoming(
            rule.timetable, from_ or standing.now, count, standing.body.anchor, standing.id
        )
        return Answer({"fires": [*map(tellings.planned, fires)]})

    return await call.read(work)


@router.get(
    "/{name}/explain",
    responses=problems(404) | {200: {"model": ExplanationOut}},
    response_model=None,
)
async def explain_fire(
    name: Name,
    call: Viewer,
    at: Annotated[
        Instant, Query(description="Which fire; all of its second, if it has no fraction.")
    ],
) -> Response:
    """What became of a fire and why, or of those next to an instant."""

    async def work(desk: Desk) -> Answer:
        await desk.connection.execute(SNAPSHOT, timeout=desk.service.patience)  # the first of all
        view = await find(desk, name)
        return Answer(tellings.explanation(await explain_seen(desk.store, view, at)))

    return await call.read(work)


@router.get(
    "/{name}/fires",
    responses=problems(404) | {200: {"model": Page[FireOut]}},
    response_model=None,
)
async def list_fires(
    name: Name,
    call: Viewer,
    from_: Annotated[
        Instant | None, Query(alias="from", description="Fires from this instant on.")
    ] = None,
    to: Annotated[Instant | None, Query(description="Fires before this instant.")] = None,
    decision: Annotated[Decided | None, Query(description="Only with this decision.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The ledger: every decision about its fires, newest first."""
    after: Place = pages.place(cursor, tuple[datetime, datetime, datetime]) or (END, END, END)

    async def work(desk: Desk) -> Answer:
        view = await find(desk, name)
        found, reached = await desk.store.ledger.page(
            view.id,
            from_=from_ or BEGINNING,
            to=to or END,
            decision=decision,
            after=after,
            limit=limit + 1,
            look_at=limit + 1 if decision is None else max(pages.LOOKED_AT, limit + 1),
        )
        if len(found) > limit:
            reached = tellings.place(found[limit - 1])
        following = None if reached is None else pages.cursor(*reached)
        return Answer(pages.page([*map(tellings.decision, found[:limit])], following))

    return await call.read(work)


@router.get(
    "/{name}/versions",
    responses=problems(404) | {200: {"model": Page[VersionOut]}},
    response_model=None,
)
async def list_versions(
    name: Name, call: Viewer, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Everything it has said, newest first, each with the instants between which it held."""
    before = pages.place(cursor, tuple[int])

    async def work(desk: Desk) -> Answer:
        view = await find(desk, name)
        start = MOST if before is None else min(MOST, max(0, before[0]))
        found = await desk.store.schedules.versions_page(view.id, start, limit + 1)
        following = pages.cursor(found[limit - 1].version) if len(found) > limit else None
        known = await targets(desk, {each.task for each in found})
        items = [tellings.version(each, known[each.task]) for each in found[:limit]]
        return Answer(pages.page(items, following))

    return await call.read(work)


@router.post(
    "/{name}/plan",
    responses=problems(404, 409, 412) | {200: {"model": PlanOut}},
    response_model=None,
)
async def plan_change(
    name: Name, body: PlanIn, call: Operator, if_match: IfMatch = None
) -> Response:
    """What a PATCH with the same body would do to its fires; nothing is changed."""
    return await plan(call, name, body, if_match)
