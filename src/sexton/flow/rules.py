"""Compiled rules, kept: a million schedules share a few thousand of them."""

import logging
from collections import OrderedDict
from collections.abc import Iterable

from sexton.domain.schedule import Rule, RuleText
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
        missing = wanted - self._kept.keys()
        if missing:
            await self._load(missing)
        found = {}
        for id in wanted:
            found[id] = self._kept[id]
            self._kept.move_to_end(id)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    async def _load(self, ids: set[int]) -> None:
        texts = await self._store.due.rules(ids)
        said: dict[int, RuleText] = {}
        for id in ids:
            try:
                said[id] = RuleText.from_json(texts[id])
            except Exception as error:
                self._kept[id] = _why(error)
        wanted = {ref for each in said.values() for ref in each.when.calendars}
        calendars = await self._store.due.calendars(wanted)
        for id in said:
            try:
                self._kept[id] = Rule.compile(texts[id], calendars)
            except Exception as error:
                self._kept[id] = _why(error)


def _why(error: Exception) -> str:
    return f"its rule cannot be used: {type(error).__name__}: {error}"
