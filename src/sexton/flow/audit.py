"""Every fire that the schedules promised, computed anew and compared with the ledger."""

import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter

from sexton.domain.audit import Audit, Auditor, Decided, Passed
from sexton.domain.expected import (
    NOTHING,
    SECOND,
    Promised,
    Slice,
    Version,
    instant,
    micros,
    slices,
    with_lost,
)
from sexton.domain.schedule import Rule, ScheduleView
from sexton.domain.spec import checked_name
from sexton.errors import ConfigurationError, InvalidSchedule
from sexton.flow.rules import Rules
from sexton.flow.verbs import Verbs
from sexton.store import Borrowed, Pool, Store
from sexton.store.ledger import LAST, SNAPSHOT, Bounds, Ledger, Window
from sexton.store.schedules import DEFAULT_TENANT

SCHEDULES = 1000
ROWS = 10_000
MOST_STRAYS = 100_000
_by_schedule = itemgetter(0)


@contextlib.asynccontextmanager
async def snapshot(store: Store, pool: Pool) -> AsyncIterator[Store]:
    """The store as of one instant, and only to read."""
    async with pool.transaction() as connection:
        await connection.execute(SNAPSHOT, timeout=pool.address.patience)
        yield store.over(Borrowed(connection))


async def find(store: Store, name: str, tenant: str) -> ScheduleView:
    """A schedule by its name, or an error that may know what was meant."""
    id = await store.schedules.tenant(checked_name(tenant, "tenant"))
    if id is None:
        raise InvalidSchedule(f"tenant: there is no {tenant!r}")
    view = await store.schedules.get(id, checked_name(name))
    if view is None:
        await Verbs(store, id).unknown(name)
    return view


async def audit(
    store: Store,
    pool: Pool,
    from_: datetime,
    to: datetime,
    schedule: str | None = None,
    tenant: str = DEFAULT_TENANT,
) -> Audit:
    """Fires of [from_, to), of one schedule or of all; what is still to come is left out."""
    if from_ >= to:
        raise ConfigurationError(
            f"from: {from_.isoformat()} is not before to: {to.isoformat()}: nothing to audit"
        )
    async with snapshot(store, pool) as seen:
        bounds = await seen.ledger.bounds(from_)
        if bounds.dropped:
            raise ConfigurationError(
                f"from: the ledger is kept from {bounds.kept_from.isoformat()} on; what was before "
                "that cannot be checked any more: begin there or later"
            )
        whole = Window(from_, max(from_, min(to, bounds.now)))
        if schedule is not None:
            id = (await find(seen, schedule, tenant)).id
            whole = replace(whole, after=id - 1, until=id)
        strays = await seen.ledger.strays(whole, MOST_STRAYS)
        auditor = Auditor(micros(bounds.now), strays, led=bounds.led)
        reader = _Reader(seen, auditor, bounds)
        for begins, ends in slices(micros(whole.from_), micros(whole.to)):
            await reader.read(replace(whole, from_=instant(begins), to=instant(ends)))
        names = await seen.ledger.names(auditor.concerned())
        return auditor.result(micros(whole.from_), micros(whole.to), names)


class _Reader:
    """Goes through versions and ledger together, in the order of the schedules."""

    def __init__(self, store: Store, auditor: Auditor, bounds: Bounds) -> None:
        self._ledger = store.ledger
        self._rules = Rules(store)
        self._auditor = auditor
        self._jitter = timedelta(seconds=bounds.jitter)
        self._certain_from = bounds.certain_from

    async def read(self, window: Window) -> None:
        """One slice of time, a page of schedules after the other: whatever their number."""
        time = Slice(micros(window.from_), micros(window.to))
        for row in await self._ledger.lost(window, self._certain_from, MOST_STRAYS):
            self._auditor.job_is_lost(*row)
        checked = 0
        more = True
        while more:
            versions = await self._ledger.versions(window, SCHEDULES, self._certain_from)
            more = sum(each.until is None for each in versions) == SCHEDULES
            # The last page also has what the ledger knows of schedules that do not exist.
            page = replace(window, until=versions[-1].schedule) if more else window
            checked += await self._check(page, time, versions)
            window = replace(window, after=page.until)
        self._auditor.schedules = max(self._auditor.schedules, checked)

    async def _check(self, page: Window, time: Slice, versions: Sequence[Version]) -> int:
        """Compare a page; returns how many schedules had a version that promises fires."""
        rules = await self._rules.get(each.rule for each in versions)
        gaps: dict[int, list[Passed]] = {}
        reaching = replace(page, from_=page.from_ - self._jitter)
        for schedule, first, last, decision, fires in await self._ledger.gaps(reaching):
            here = time.begins <= first < time.ends
            gaps.setdefault(schedule, []).append(Passed(first, last, decision, fires, here))
        ledger = _Rows(self._ledger, page)
        checked = 0
        for schedule, group in groupby(versions, _by_schedule):
            mine: Sequence[Decided] = ()
            for other, decided in await ledger.until(schedule):
                if other == schedule:
                    mine = decided
                else:
                    self._auditor.check(other, NOTHING, decided, (), None)
            said = list(group)
            checked += any(each.fires and each.since < time.ends for each in said)
            try:
                promised = _promised(time, said, rules)
            except Exception as error:  # whatever is wrong with one, the others are checked
                self._auditor.cannot_check(schedule, f"{type(error).__name__}: {error}")
                continue
            self._auditor.check(schedule, promised, mine, gaps.get(schedule, ()), said[-1])
            for each in said:
                if each.broke and each.until is not None and time.begins <= each.until < time.ends:
                    why = f"it was quarantined at {instant(each.until).isoformat()}"
                    self._auditor.cannot_check(schedule, why)
        for other, decided in await ledger.until(LAST):
            self._auditor.check(other, NOTHING, decided, (), None)
        return checked


def _promised(
    time: Slice, versions: Sequence[Version], rules: Mapping[int, Rule | str]
) -> Promised:
    """What the versions of one schedule promise together; their fires follow on each other."""
    whole: Promised | None = None
    for version in versions:
        if not version.fires or version.since >= time.ends:
            continue
        rule = rules[version.rule]
        if isinstance(rule, str):
            raise InvalidSchedule(rule)
        part = time.promised(with_lost(version, rule.timetable), rule.timetable)
        whole = part if whole is None else whole.then(part)
    return whole or NOTHING


class _Rows:
    """The ledger of a page, read on as it is asked for."""

    def __init__(self, ledger: Ledger, window: Window) -> None:
        self._ledger = ledger
        self._window = window
        self._after = (window.after, math.inf)
        self._read: deque[tuple[int, list[Decided]]] = deque()
        self._more = True

    async def until(self, schedule: int) -> list[tuple[int, list[Decided]]]:
        """What was not asked for yet, up to this schedule: mostly only of itself."""
        found: list[tuple[int, list[Decided]]] = []
        while True:
            # The last one that was read may have more.
            while self._more and len(self._read) < 2:
                await self._read_on()
            if not self._read or self._read[0][0] > schedule:
                return found
            found.append(self._read.popleft())

    async def _read_on(self) -> None:
        rows = await self._ledger.fires(self._window, self._after, ROWS)
        self._more = len(rows) == ROWS
        for schedule, group in groupby(rows, _by_schedule):
            decided = [row[1:] for row in group]
            if self._read and self._read[-1][0] == schedule:
                self._read[-1][1].extend(decided)
            else:
                self._read.append((schedule, decided))
        if rows:
            self._after = (rows[-1][0], rows[-1][1] / SECOND)
