"""A calendar changes, and with it every schedule that goes by it: all in one transaction."""

from dataclasses import replace
from datetime import datetime

import msgspec

from sexton.domain.change import Change, Standing, activated, is_overdue, resumed, stopped
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.effort import NEXT_FIRE, at_most
from sexton.domain.when.timetable import Timetable
from sexton.errors import InvalidSchedule, did_you_mean
from sexton.flow.decide import in_turns
from sexton.store import Store
from sexton.store.calendars import CalendarView

CHUNK = 1000
SHOWN = 5


async def put(store: Store, tenant: int, name: str, calendar: Calendar) -> int:
    """Give it this content; returns how many schedules go by it, and changed with it."""
    await store.calendars.hold(tenant, to_change=True)
    before = await find(store, tenant, name)
    if before is not None and before.calendar == calendar:
        return 0
    version, _ = await store.calendars.put(tenant, name, calendar)
    if before is None:
        return 0
    old, new = CalendarRef(name, before.version), CalendarRef(name, version)
    return await _repin(store, old, new)


async def remove(store: Store, tenant: int, name: str) -> None:
    """End it; refused while a schedule goes by it."""
    await store.calendars.hold(tenant, to_change=True)
    before = await find(store, tenant, name)
    if before is None:
        raise await unknown(store, tenant, name)
    users = await store.calendars.users(await rules_of(store, before), SHOWN + 1)
    if users:
        more = ", …" if len(users) > SHOWN else ""
        raise InvalidSchedule(
            f"calendar {name!r} is used by {', '.join(users[:SHOWN])}{more}: "
            "cancel or update those first"
        )
    await store.calendars.put(tenant, name, None)


async def find(store: Store, tenant: int, name: str) -> CalendarView | None:
    found = await store.calendars.list(tenant, [name])
    return found[0] if found else None


async def rules_of(store: Store, view: CalendarView) -> dict[int, str]:
    """The rules in use that name it."""
    return await store.calendars.rules(_reference(CalendarRef(view.name, view.version)))


async def unknown(store: Store, tenant: int, name: str) -> InvalidSchedule:
    near = [each.name for each in await store.calendars.list(tenant)]
    return InvalidSchedule(f"calendar {name!r} does not exist{did_you_mean(name, near)}")


async def _repin(store: Store, old: CalendarRef, new: CalendarRef) -> int:
    rules = await store.calendars.rules(_reference(old))
    said = {id: RuleText.from_json(text) for id, text in rules.items()}
    repinned = {
        id: RuleText(each.when.pinned(_versions(each, new)), each.policy)
        for id, each in said.items()
    }
    ids = await store.schedules.rules(sorted(each.to_json() for each in repinned.values()))
    refs = {ref for each in (*said.values(), *repinned.values()) for ref in each.when.calendars}
    calendars = await store.due.calendars(refs)

    def compiled(text: RuleText) -> Rule:
        return Rule(Timetable.compile(text.when, calendars), text.policy)

    pairs = {id: (compiled(said[id]), compiled(repinned[id])) for id in said}
    changed, after = 0, 0
    while True:
        now = await store.history.clock()
        held = await store.calendars.schedules(said, after, CHUNK, now)
        if not held:
            break
        after = held[-1].id
        # Nobody fires them from here on: this is the instant from which the new version holds.
        now = max(await store.history.clock(), *(each.now for each in held))
        standings = [
            await _after_pause(store, each, now, pairs[each.body.rule_id][0]) for each in held
        ]
        found = []
        async for standing in in_turns(standings):
            before = replace(standing, now=now)
            rule_id = ids[repinned[standing.body.rule_id].to_json()]
            with at_most(NEXT_FIRE):
                found.append((before, _changed(before, rule_id, *pairs[standing.body.rule_id])))
        await store.calendars.change(now, found)
        changed += len(found)
    await store.schedules.notify()
    return changed


async def _after_pause(store: Store, standing: Standing, now: datetime, rule: Rule) -> Standing:
    """As it stands once a pause that is over has ended, as of then."""
    if standing.until is None or not is_overdue(replace(standing, now=now)):
        return standing
    then = replace(standing, now=max(standing.until, standing.since))
    change = resumed(then, rule)
    await store.calendars.change(then.now, [(then, change)])
    planned = change.next
    return replace(
        standing,
        version=standing.version + 1,
        since=then.now,
        state=change.state,
        reason=change.reason,
        until=None,
        next_fire_at=None if planned is None else planned.fire_at,
        scheduled_at=None if planned is None else planned.scheduled_at,
    )


def _changed(standing: Standing, rule_id: int, old: Rule, new: Rule) -> Change:
    """What is paused or quarantined stays so; what is over stays over, or begins again.

    In every case it goes by the new calendar from now on: nobody will look at the old one again.
    """
    body, left = replace(standing.body, rule_id=rule_id), standing.fires_left
    if standing.state in ("paused", "quarantined"):
        state, reason = standing.state, standing.reason
        return stopped("calendar", standing, body, old, state, reason, left=left)
    try:
        return activated("calendar", standing, body, old, new, left=left, demand=False)
    except InvalidSchedule as error:  # the calendar is fine, and so are the others
        return stopped("calendar", standing, body, old, "quarantined", str(error), left=left)


def _versions(said: RuleText, new: CalendarRef) -> dict[str, int]:
    return {ref.name: ref.version for ref in said.when.calendars} | {new.name: new.version}


def _reference(ref: CalendarRef) -> str:
    """As it stands in the text of a rule."""
    return msgspec.json.encode(ref, order="sorted").decode()
