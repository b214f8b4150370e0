"""Fires to come, computed beside the loop: some rules take their time, and others wait."""

import asyncio
import time
from datetime import datetime

from sexton.api.problems import Problem
from sexton.domain.when.effort import NEXT_FIRE, at_most
from sexton.domain.when.timetable import Planned, Timetable

WITHIN = 2.0
_AT_ONCE = 10


async def upcoming(
    timetable: Timetable, after: datetime, count: int, anchor: datetime, seed: int = 0
) -> list[Planned]:
    """The next so many; a Problem if they are not found in time."""
    loop = asyncio.get_running_loop()
    # Not with `to_thread`, which takes along how much this request may compute on the loop.
    return await loop.run_in_executor(None, _upcoming, timetable, after, count, anchor, seed)


def _upcoming(
    timetable: Timetable, after: datetime, count: int, anchor: datetime, seed: int
) -> list[Planned]:
    until = time.monotonic() + WITHIN
    found: list[Planned] = []
    while len(found) < count:
        few = min(_AT_ONCE, count - len(found))
        with at_most(NEXT_FIRE):
            found += (more := timetable.preview(after, few, anchor, seed))
        if len(more) < few:
            break
        after = more[-1].scheduled_at
        if time.monotonic() > until and len(found) < count:
            raise Problem(
                422,
                "invalid",
                f"count: only {len(found)} fires of this rule were found in {WITHIN:g} s; "
                "ask for fewer",
                field="count",
            )
    return found
