"""Whose lanes a claim looks at: a bounded number of tenants, in turn, and nobody left out.

A tenant is *astir* if something of it was claimed lately, or if somebody said that there is
something: a notification, the sweep, or a look ahead whose instant has come. The others are visited
in rotation, so that a thousand quiet tenants cost a claim no more than a few.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

# So many tenants are looked at together; of those that are not astir at least so many.
AT_ONCE = 16
VISITED = 4
# Who had something is looked at for so long (s) after.
LATELY = 2.0


class Turns:
    """The tenants of one claimer. Instants are the caller's, in seconds."""

    def __init__(self, bound: Sequence[int] | None = None) -> None:
        self.bound = None if bound is None else list(bound)
        self.known = self.bound is not None  # somebody has said which there are
        self._tenants: set[int] = set(self.bound or ())
        self._quiet: deque[int] = deque(self.bound or ())  # the next to be visited comes first
        self._astir: dict[int, float] = {}  # until when
        self._expected: dict[int, float] = {}  # from when on
        self.soonest = math.inf  # when the first of those is due
        # In which round it had its last turn, and how many jobs it got in all: the odd ones, which
        # cannot be shared, go to those who got fewest.
        self._served: dict[int, tuple[int, int]] = {}
        self._round = 0

    @property
    def several(self) -> bool:
        return len(self._tenants) > 1

    def know(self, tenants: Collection[int]) -> None:
        """All that there are; those that are new are visited next."""
        self.known = True
        everybody = set(tenants)
        for tenant in sorted(everybody - self._tenants):
            self._tenants.add(tenant)
            self._quiet.appendleft(tenant)
        for gone in self._tenants - everybody:
            self._tenants.discard(gone)
            if self._astir.pop(gone, None) is None:
                self._quiet.remove(gone)
            self._expected.pop(gone, None)
            self._served.pop(gone, None)

    def stir(self, tenant: int, now: float) -> bool:
        """There may be something of this tenant; whether that is news."""
        if tenant not in self._tenants:
            if self.bound is not None:
                return False
            self._tenants.add(tenant)
            self._quiet.appendleft(tenant)
        news = tenant not in self._astir
        if news:
            self._quiet.remove(tenant)
        self._astir[tenant] = now + LATELY
        return news

    def stir_all(self, now: float) -> None:
        """Nobody can say of whom there may be something."""
        for tenant in list(self._quiet):
            self.stir(tenant, now)

    def expect(self, tenant: int, at: float) -> None:
        """Something of it will be due."""
        self._expected[tenant] = min(at, self._expected.get(tenant, math.inf))
        self.soonest = min(self.soonest, at)

    def expect_nothing(self, tenants: Collection[int]) -> None:
        """What was expected of these may have come, or gone: somebody looks anew."""
        for tenant in self._expected.keys() & tenants:
            del self._expected[tenant]
        self.soonest = min(self._expected.values(), default=math.inf)

    def parties(self, now: float) -> Iterator[list[int]]:
        """Whom to look at together, in the order of turns; then, if there is room, whom next."""
        self._look_up(now)
        astir = sorted(self._astir, key=self._last_turn)
        visited = self._visit(max(VISITED, AT_ONCE - len(astir)))
        yield sorted([*astir[:AT_ONCE], *visited], key=self._last_turn)
        for first in range(AT_ONCE, len(astir), AT_ONCE):
            yield astir[first : first + AT_ONCE]

    def served(self, jobs: Mapping[int, int], now: float) -> None:
        """Who got something has its next turn after those who did not."""
        self._round += 1
        for tenant, count in jobs.items():
            self.stir(tenant, now)
            self._served[tenant] = self._round, self._last_turn(tenant)[1] + count

    def _last_turn(self, tenant: int) -> tuple[int, int]:
        return self._served.get(tenant, (0, 0))

    def _look_up(self, now: float) -> None:
        """Of whom something is due by now is astir; of whom nothing was seen lately is not."""
        if now >= self.soonest:
            for tenant in [each for each, at in self._expected.items() if at <= now]:
                del self._expected[tenant]
                self.stir(tenant, now)
            self.soonest = min(self._expected.values(), default=math.inf)
        for tenant in [each for each, until in self._astir.items() if until < now]:
            del self._astir[tenant]
            self._quiet.append(tenant)

    def _visit(self, count: int) -> list[int]:
        visited = [self._quiet.popleft() for _ in range(min(count, len(self._quiet)))]
        self._quiet.extend(visited)
        return visited
