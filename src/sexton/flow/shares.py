"""Whose schedules are read, and how many of each, when more are due than can be read at once."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sexton.store.due import DueRow

# So many are read of all who have more than they are given, and as many of all others together.
READ = 2000
# Of one who did not have more, at first.
AT_FIRST = 64
# So many tenants are looked at in one read; the others in the next.
PARTY = 2000


class Shares:
    """An equal share for each tenant; who has little leaves the rest to those who have more."""

    def __init__(self) -> None:
        self._tenants: list[int] = [1]
        self._rich: set[int] = set()
        self._next = 0
        self.in_use = False  # while there is more than one can read

    @property
    def several(self) -> bool:
        return len(self._tenants) > 1

    def know(self, tenants: Iterable[int]) -> None:
        self._tenants = sorted(tenants)

    def begin(self, rows: Sequence[DueRow]) -> None:
        """A read was full, of the schedules of these."""
        self._rich = {row.tenant for row in rows}

    def limits(self) -> dict[int, int]:
        """Whom to read, and how many of each."""
        rotation = self._tenants[self._next :] + self._tenants[: self._next]
        party = dict.fromkeys([*self._rich, *rotation[:PARTY]])
        self._next = (self._next + PARTY) % len(self._tenants) if len(rotation) > PARTY else 0
        poor = max(1, len(party) - len(self._rich))
        most = max(1, READ // max(1, len(self._rich)))
        few = max(1, min(AT_FIRST, READ // poor))
        return {tenant: most if tenant in self._rich else few for tenant in party}

    def divide(self, rows: Iterable[DueRow], limits: Mapping[int, int]) -> list[DueRow]:
        """No more than fit a statement, everybody's first before anybody's second; oldest first."""
        read: Counter[int] = Counter()
        ranked = []
        for row in sorted(rows, key=_instant):
            read[row.tenant] += 1
            ranked.append((read[row.tenant], row))
        self._rich = {tenant for tenant, count in read.items() if count >= limits[tenant]}
        self.in_use = bool(self._rich) or len(ranked) > READ
        ranked.sort(key=_nth)
        return sorted((row for _, row in ranked[:READ]), key=_instant)


def _instant(row: DueRow) -> float:
    return row.next_fire


def _nth(ranked: tuple[int, DueRow]) -> int:
    return ranked[0]
