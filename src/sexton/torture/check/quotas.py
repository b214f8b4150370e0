"""Tenants that have as many live jobs as they may: who is said to be, and whether it is true."""

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from sexton.torture.check.evidence import UNSEEN_IN_TROUBLE, Evidence
from sexton.torture.check.folder import SECOND, Change

# The leader counts what is committed, and says so a moment later: what was written in these seconds
# may be counted or not, and so may what was written since PostgreSQL was in trouble all along.
COUNTED_WITHIN = 3 * SECOND
_LONGER = [seconds * SECOND for seconds in (30, 20, 10)]
# So many jobs may be those of transactions that go on for longer: of a task, or a client, that
# stands still before its commit.
UNDER_WAY = 20
# In so many seconds there were fires, nothing was done to who leads or to everybody, nor had been
# for a while, and what is said was not so. A count that takes long is not made all the time.
UNSAID, A_WHILE = 12, 5 * SECOND


@dataclass(slots=True)
class _Tenant:
    """Its jobs, as they were written, and what is said of it."""

    quota: int | None = None
    over: bool = False
    said: int = 0  # when
    live: int = 0
    came: deque[int] = field(default_factory=deque)
    went: deque[int] = field(default_factory=deque)
    wrong: int = 0  # seconds in which somebody should have said something else
    second: int = 0  # the last of them

    def at_most(self, at: int, within: int) -> int:
        """Live jobs that somebody may have seen, who did not see the ends of these seconds."""
        return self.live + _since(self.went, at - within) + UNDER_WAY

    def at_least(self, at: int, within: int) -> int:
        """Those that everybody must have seen, unless they have ended."""
        return self.live - _since(self.came, at - within) - UNDER_WAY

    def is_misjudged(self, at: int, ends: int, beginnings: int) -> bool:
        """Whether what is said cannot be, though what ended or began in so long was not seen."""
        if self.quota is None:
            return self.over
        if self.over:
            return self.at_most(at, ends) < self.quota
        return self.at_least(at, beginnings) >= self.quota


class Quotas:
    """Fed with tenants, jobs and fires; says what is wrong."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._tenants: dict[int, _Tenant] = defaultdict(_Tenant)
        self.many = 0

    def tenant(self, change: Change) -> str | None:
        """What was said of it just now, if that is not so."""
        if change.op == "D":
            self._tenants.pop(change.id, None)
            return None
        quota, over = change.now["max_live_jobs"], change.now["over_quota"]
        tenant = self._tenants[change.id]
        tenant.quota = quota
        if over == tenant.over:
            return None
        self.many += 1
        tenant.over, tenant.said, tenant.wrong = over, change.at, 0
        return self._untrue(change.id, tenant, change.at)

    def _untrue(self, id: int, tenant: _Tenant, at: int) -> str | None:
        unseen = self._evidence.may_be_unseen
        within = next((each for each in _LONGER if unseen(at - each, at)), COUNTED_WITHIN)
        # Whoever makes hundreds at once may be held up before its commit.
        if not tenant.is_misjudged(at, within, UNSEEN_IN_TROUBLE):
            return None
        if tenant.quota is None:
            return f"tenant {id} is over its quota, and has none"
        where = "over" if tenant.over else "within"
        return f"tenant {id} is {where} its quota of {tenant.quota} with {tenant.live} live jobs"

    def job(self, change: Change, tenant_id: int) -> None:
        """One more, or one less."""
        tenant = self._tenants[tenant_id]
        tenant.live += 1 if change.op == "I" else -1
        times = tenant.came if change.op == "I" else tenant.went
        times.append(change.at)
        while times[0] < change.at - UNSEEN_IN_TROUBLE:
            times.popleft()

    def fires(self, at: int) -> Iterator[str]:
        """Somebody does: of whom something else is said for too long."""
        second = at // SECOND
        for id, tenant in self._tenants.items():
            if tenant.second == second or tenant.quota is None:
                continue
            tenant.second = second
            wrong = tenant.is_misjudged(at, COUNTED_WITHIN, COUNTED_WITHIN)
            tenant.wrong = tenant.wrong + 1 if wrong and not self._troubled(at) else 0
            if tenant.wrong == UNSAID:
                still = "still" if tenant.over else "not yet"
                yield f"for {UNSAID} s tenant {id} is {still} over its quota, with {tenant.live}"

    def _troubled(self, at: int) -> bool:
        evidence, first = self._evidence, at - A_WHILE
        leaders = evidence.world.charge.leaders(first, at)
        return (
            None in leaders
            or evidence.all_in_trouble(first, at)
            or evidence.any_in_trouble(leaders, first, at)
        )

    def may_be_over(self, tenant_id: int, at: int) -> bool:
        """Whether somebody may have seen that it is, who looked then."""
        tenant = self._tenants[tenant_id]
        return tenant.over or (tenant.said > 0 and self._evidence.may_be_unseen(tenant.said, at))

    def is_over(self, tenant_id: int, at: int) -> bool:
        """Whether everybody must have seen that it is, who looked then."""
        tenant = self._tenants[tenant_id]
        return tenant.over and not self._evidence.may_be_unseen(tenant.said, at)


def _since(times: deque[int], first: int) -> int:
    """How many of them are not before that; they are in order, and few."""
    many = 0
    for at in reversed(times):
        if at < first:
            break
        many += 1
    return many
