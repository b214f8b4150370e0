"""Compiled rules, kept: a million schedules share a few thousand of them."""

import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable

from sexton.domain.schedule import Rule, RuleText
from sexton.domain.when.calendar import Calendar, CalendarRef
from sexton.store import Store

log = logging.getLogger("sexton.fire")

KEPT = 10_000


class Rules:
    """Rules by id, read once and compiled once; they never change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[int, Rule | str] = OrderedDict()

    async def get(self, ids: Iterable[int]) -> dict[int, Rule | str]:
        """Each as a rule, or as the reason why it cannot be one."""
        wanted = set(ids)
        found: dict[int, Rule | str] = {}
        for id in wanted & self._kept.keys():
            found[id] = self._kept[id]
            self._kept.move_to_end(id)
        missing = wanted - found.keys()
        if missing:
            found |= await self._load(missing)
        return found

    async def _load(self, ids: set[int]) -> dict[int, Rule | str]:
        texts = await self._store.due.rules(ids)
        found: dict[int, Rule | str] = dict.fromkeys(ids, "its rule does not exist")
        said: dict[int, RuleText] = {}
        for id, text in texts.items():
            try:
                said[id] = RuleText.from_json(text)
            except Exception as error:
                found[id] = _why(error)
        wanted = {ref for each in said.values() for ref in each.when.calendars}
        calendars = await self._calendars(wanted)
        for id, each in said.items():
            try:
                found[id] = Rule.compile(texts[id], _usable(calendars, each.when.calendars))
            except Exception as error:
                found[id] = _why(error)
        self._kept |= found
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    async def _calendars(
        self, refs: Collection[CalendarRef]
    ) -> dict[CalendarRef, Calendar | Exception]:
        """Each, or why it cannot be read: that is the concern of the rules that name it only."""
        found: dict[CalendarRef, Calendar | Exception] = {}
        for ref, text in (await self._store.due.calendar_texts(refs)).items():
            try:
                found[ref] = Calendar.from_json(text)
            except Exception as error:
                found[ref] = error
        return found


def _usable(
    calendars: dict[CalendarRef, Calendar | Exception], refs: Iterable[CalendarRef]
) -> dict[CalendarRef, Calendar]:
    found: dict[CalendarRef, Calendar] = {}
    for ref in refs:
        calendar = calendars.get(ref)
        if isinstance(calendar, Exception):
            raise calendar
        if calendar is not None:
            found[ref] = calendar
    return found


def _why(error: Exception) -> str:
    return f"its rule cannot be used: {type(error).__name__}: {error}"
