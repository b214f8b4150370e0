"""What is known about a fire, gathered from one snapshot, and put into words."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sexton.domain.change import VersionView
from sexton.domain.explain import Explanation, Nearby, sentences
from sexton.domain.facts import Entry, Facts, verdict
from sexton.domain.moment import (
    Moment,
    Spoken,
    in_effect,
    moment_after,
    moment_at,
    moment_before,
    second_of,
    taken_out,
)
from sexton.domain.schedule import ScheduleView
from sexton.domain.when.rule import MOMENT
from sexton.flow.audit import find, snapshot
from sexton.flow.rules import Rules
from sexton.store import Pool, Store
from sexton.store.ledger import Bounds
from sexton.store.schedules import DEFAULT_TENANT

_A_FEW = 100


async def explain(
    store: Store, pool: Pool, name: str, at: datetime, tenant: str = DEFAULT_TENANT
) -> Explanation:
    """The fire at this instant, or the ones next to it."""
    async with snapshot(store, pool) as seen:
        return await explain_seen(seen, await find(seen, name, tenant), at)


async def explain_seen(seen: Store, view: ScheduleView, at: datetime) -> Explanation:
    """The same, for who has a snapshot already."""
    said = await seen.ledger.said(view.id)
    rules = await Rules(seen).get(rule for _, rule in said)
    versions = [Spoken(each, rules[rule]) for each, rule in said]
    bounds = await seen.ledger.bounds(at)
    return await _Telling(seen, view, versions, bounds).tell(at)


class _Telling:
    """One schedule, as it was and is."""

    def __init__(
        self,
        store: Store,
        view: ScheduleView,
        versions: Sequence[Spoken],
        bounds: Bounds,
    ) -> None:
        self._store = store
        self._view = view
        self._versions = versions
        self._bounds = bounds

    async def tell(self, at: datetime) -> Explanation:
        facts = await self._facts(await self._entry(at), at)
        before = after = None
        if facts.entry is None and facts.moment is None:
            before = await self._nearby(moment_before(self._versions, self._view.id, at))
            after = await self._nearby(moment_after(self._versions, self._view.id, at))
        moment = facts.moment
        return Explanation(
            self._view.name,
            at,
            verdict(facts),
            tuple(sentences(facts)),
            None if moment is None else moment.fire_at,
            None if moment is None else moment.scheduled_at,
            None if moment is None else moment.note,
            None if facts.version is None else facts.version.view,
            facts.entry,
            facts.passage,
            facts.job,
            before,
            after,
        )

    async def _entry(self, at: datetime) -> Entry | None:
        """What the ledger has for an instant: rather a fire of the rule than a trigger."""
        begins, ends = second_of(at)
        reach = ends + timedelta(seconds=self._bounds.jitter)
        fires = self._store.ledger.entries
        found = [
            entry
            for entry in await fires(self._view.id, begins, reach, _A_FEW)
            if begins <= entry.scheduled_at < ends or begins <= entry.fire_at < ends
        ]
        return min(found, key=lambda entry: (entry.kind == "trigger", entry.fire_at), default=None)

    async def _facts(self, entry: Entry | None, at: datetime) -> Facts:
        """Everything about the fire of an instant, whatever became of it."""
        scheduled = at if entry is None else entry.scheduled_at
        version = in_effect(self._versions, scheduled)
        moment = None
        if version is not None:
            moment = moment_at(version, self._view.id, scheduled)
        if entry is not None and (moment is None or moment.fire_at != entry.fire_at):
            moment = Moment(entry.scheduled_at, entry.fire_at)
        facts = Facts(
            self._bounds.now,
            self._bounds.kept_from,
            self._view.next_fire_at,
            self._view.late,
            self._view.until if version is not None and version.view.until is None else None,
            version,
            self._following(version),
            moment,
            entry,
            led=self._bounds.led,
        )
        return await self._with_reasons(facts)

    async def _with_reasons(self, facts: Facts) -> Facts:
        """What the ledger and the jobs say about why."""
        ledger, id = self._store.ledger, self._view.id
        entry, moment = facts.entry, facts.moment
        if entry is not None:
            if entry.job is not None:
                facts = replace(facts, job=await self._store.history.job(entry.job))
            if entry.decision == "overlap":
                lived = await ledger.lived(id, entry.fire_at, entry.decided_at)
                facts = replace(facts, lived=lived)
            return facts
        if moment is None:
            return facts
        passage = await ledger.passage(id, moment.scheduled_at)
        facts = replace(facts, passage=passage)
        if passage is not None and passage.decision == "coalesced":
            after = passage.last_at + MOMENT
            instead = next(iter(await ledger.entries(id, after, None, 1)), None)
            facts = replace(facts, instead=instead)
        timetable = facts.version.timetable if facts.version else None
        if moment.excluded and timetable is not None:
            calendars = await self._store.due.calendars(timetable.definition.calendars)
            why = taken_out(timetable.definition, calendars, moment.scheduled_at)
            facts = replace(facts, taken_out=why)
        return facts

    def _following(self, version: Spoken | None) -> VersionView | None:
        """The version that came after one; they are the newest first."""
        later = None
        for each in self._versions:
            if version is not None and each.view.version == version.view.version:
                return later
            later = each.view
        return later

    async def _nearby(self, moment: Moment | None) -> Nearby | None:
        if moment is None:
            return None
        found = await self._store.ledger.entries(
            self._view.id, moment.fire_at, moment.fire_at + MOMENT, 1
        )
        facts = await self._facts(found[0] if found else None, moment.scheduled_at)
        return Nearby(moment.fire_at, moment.scheduled_at, verdict(facts), moment.note)
