"""The schedules that everybody gets, and when they are due; for peers too: no imports of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Seconds that a task takes, so that a fault meets some of them half way.
WORK = 0.3
# How many schedules of each group, and how many seconds lie between two fires of one.
SIZES = {"second": (10, 1), "ten": (100, 10), "minute": (10, 60)}


@dataclass(frozen=True)
class Schedule:
    """One schedule: due at every second since 1970 whose rest by `every` is `offset`."""

    name: str
    group: str
    every: int
    offset: int

    @property
    def seconds(self) -> str:
        """The field of seconds in a cron expression."""
        if self.every == 1:
            return "*"
        return ",".join(map(str, range(self.offset, 60, self.every)))

    @property
    def seconds_first(self) -> str:
        return f"{self.seconds} * * * * *"

    @property
    def seconds_last(self) -> str:
        """As croniter reads it; plain cron where there is nothing to say of seconds."""
        return "* * * * *" if self.group == "minute" else f"* * * * * {self.seconds}"

    def due_at(self, instant: float) -> int:
        """The latest due instant that is not after this one."""
        return math.floor((instant - self.offset) / self.every) * self.every + self.offset

    def due(self, begin: int, end: int) -> range:
        """Every due instant from `begin` and before `end`."""
        first = self.due_at(begin + self.every - 1)
        return range(first, end, self.every)


def schedules(groups: tuple[str, ...]) -> list[Schedule]:
    """Of a group with longer gaps as many are due in each second; each minute, all at once."""
    found: list[Schedule] = []
    for group in groups:
        count, every = SIZES[group]
        for n in range(count):
            offset = n % every if group == "ten" else 0
            found.append(Schedule(f"{group}-{n}", group, every, offset))
    return found


def described() -> str:
    """In short: only runs of one and the same workload can be pooled."""
    groups = ", ".join(f"{count} every {every} s" for count, every in SIZES.values())
    return f"schedules: {groups}; each task takes {WORK:g} s"
