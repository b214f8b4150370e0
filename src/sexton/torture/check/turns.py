"""Tenants that wait to be caught up with: each has its turn, whatever others have missed."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sexton.torture.check.folder import SECOND, Change

# In so many seconds others were caught up with, and somebody was not. What is locked is left for
# the next time, but whoever holds a lock and does not stir is ended, which takes less.
PASSED_OVER = 40


@dataclass(slots=True)
class _Waits:
    """A tenant with something late, of which nothing was moved on since then."""

    since: int
    last: int = 0  # second in which somebody else had a turn
    seconds: int = 0  # of them


class Turns:
    """Fed with where schedules stand, and with what is caught up; says who was passed over."""

    def __init__(self) -> None:
        self._late: dict[int, set[int]] = defaultdict(set)  # schedules of each tenant
        self._tenants: dict[int, int] = {}  # of schedules
        self._waits: dict[int, _Waits] = {}

    def move(self, change: Change) -> str | None:
        """A schedule is late, or is moved on; by whomever that is, its tenant had a turn."""
        now = change.now or {"late": False, "next": None, "tenant": 0}
        tenant = self._tenants.setdefault(change.id, now["tenant"])
        late = self._late[tenant]
        turn = change.id in late and not (now["late"] and change.was["next"] == now["next"])
        (late.add if now["late"] else late.discard)(change.id)
        waited = self._waits.pop(tenant, None) if turn else None
        if late and tenant not in self._waits:
            self._waits[tenant] = _Waits(change.at)
        return None if waited is None else _passed_over(tenant, waited, change.at)

    def caught_up(self, change: Change) -> None:
        """A fire that was made up for: somebody had a turn."""
        whose, second = self._tenants.get(change.id), change.at // SECOND
        for tenant, waits in self._waits.items():
            if whose not in (None, tenant) and waits.last != second:
                waits.last = second
                waits.seconds += 1

    def left(self, at: int) -> Iterator[str]:
        """Those that wait at the end."""
        for tenant, waits in self._waits.items():
            if (what := _passed_over(tenant, waits, at)) is not None:
                yield what


def _passed_over(tenant: int, waits: _Waits, at: int) -> str | None:
    if waits.seconds < PASSED_OVER:
        return None
    what = f"tenant {tenant} waited for {(at - waits.since) / SECOND:.0f} s to be caught up with"
    return f"{what}, and others were in {waits.seconds} of them"
