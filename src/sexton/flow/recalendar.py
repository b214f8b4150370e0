"""A calendar changes, and with it every schedule that goes by it: all in one transaction."""

from dataclasses import replace

import msgspec

from sexton.domain.change import Change, Standing, activated, stopped
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.domain.when.timetable import Timetable
from sexton.errors import InvalidSchedule, did_you_mean
from sexton.store import Store
from sexton.store.calendars import CalendarView

CHUNK = 1000
SHOWN = 5


async def put(store: Store, tenant: int, name: str, calendar: Calendar) -> int:
    """Give it this content; returns how many schedules go by it, and changed with it."""
    await store.calendars.hold(to_change=True)
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
    await store.calendars.hold(to_change=True)
    before = await find(store, tenant, name)
    if before is None:
        raise await unknown(store, tenant, name)
    rules = await store.calendars.rules(_reference(CalendarRef(name, before.version)))
    users = await store.calendars.users(rules, SHOWN + 1)
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
        found = []
        for standing in held:
            before = replace(standing, now=now)
            rule_id = ids[repinned[standing.body.rule_id].to_json()]
            change = _changed(before, rule_id, *pairs[standing.body.rule_id])
            if change is not None:
                found.append((before, change))
        if found:
            await store.calendars.change(now, found)
            changed += len(found)
    await store.schedules.notify()
    return changed


def _changed(standing: Standing, rule_id: int, old: Rule, new: Rule) -> Change | None:
    """What is paused or quarantined stays so; what is over stays over, or begins again."""
    body, left = replace(standing.body, rule_id=rule_id), standing.fires_left
    if standing.state in ("paused", "quarantined"):
        state, reason = standing.state, standing.reason
        return stopped("calendar", standing, body, old, state, reason, left=left)
    change = activated("calendar", standing, body, old, new, left=left, demand=False)
    return None if standing.state == change.state == "ended" else change


def _versions(said: RuleText, new: CalendarRef) -> dict[str, int]:
    return {ref.name: ref.version for ref in said.when.calendars} | {new.name: new.version}


def _reference(ref: CalendarRef) -> str:
    """As it stands in the text of a rule."""
    return msgspec.json.encode(ref, order="sorted").decode()
