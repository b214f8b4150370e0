"""The invariants, looked at with every commit and every act, from a record of its own.

It asks none of the guards: it remembers what has happened, and knows what must not happen.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from sexton.domain.partition import PARTITIONS
from sexton.store.cluster import Ownership
from sexton.store.due import Guard
from sexton.torture.simulate import rules

if TYPE_CHECKING:
    from sexton.domain.job import Claim
    from sexton.domain.lease import Lease
    from sexton.torture.simulate.process import Process
    from sexton.torture.simulate.tables import LeaderRow, LeaseRow, ScheduleRow, Tables

MAX_ATTEMPTS = 3
_LIVE_AT_MOST = {"skip": 1, "queue_one": 2}
_SERIAL = ("queue_one", "queue_all", "replace")
# As long as a question to the database may take, on the quickest clock.
ASKS_FOR = 1.2
# What a timer may be late, on a clock of the process's own.
_MOMENT = 0.001


class Violation(BaseException):
    """Something happened that must never happen; no actor catches it."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant


def _broken(invariant: str, what: str) -> NoReturn:
    raise Violation(invariant, what)


class Watch:
    """What was committed and done so far, and whether that can be right."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.term = self.epoch = self.fence = 0
        self.decisions: dict[tuple[int, float], str] = {}
        self.made_for: dict[tuple[int, float], int] = {}
        self.live: dict[int, tuple[int, str]] = {}  # job to its schedule and overlap
        self.ended: dict[int, str] = {}
        self.claims: dict[int, tuple[int, int, Process | None]] = {}

    # ── the cluster ─────────────────────────────────────────────────────────

    def elected(self, before: int | None, free: bool, node: int, lives: bool, term: int) -> None:
        self.seen["elections"] += 1
        if not lives:
            _broken("without a lease do nothing", f"node {node} was elected")
        if not free:
            _broken("one leader", f"node {node} took the place of {before}, whose lease holds")
        if term <= self.term:
            _broken("terms grow", f"term {term} came after {self.term}")
        self.term = term

    def leads(self, who: "Process", believers: Sequence[str]) -> None:
        """Somebody has just heard that it leads; these others trust that they do."""
        self.seen["leaders"] += 1
        if believers and not who.overslept:
            _broken("one leader", f"{who.name} and {believers} all trust that they lead")

    def assigned(
        self,
        node: int,
        term: int | None,
        leader: "LeaderRow",
        before: Mapping[int, Ownership],
        after: Mapping[int, Ownership],
        alive: Sequence[int],
    ) -> None:
        self.seen["assignments"] += 1
        if term is not None and (leader.node, leader.term) != (node, term):
            _broken("only the leader assigns", f"node {node} in term {term}: not {leader}")
        if alive:
            _broken("only a lease that is over is lost", f"nodes {alive} were not silent")
        owned = [each for share in after.values() for each in share.partitions]
        if len(set(owned)) != len(owned):
            _broken("one owner of a partition", f"{len(owned)} shares of {PARTITIONS}")
        top = self.epoch
        for id, share in after.items():
            if before.get(id) != share:
                if share.epoch <= top:
                    _broken("epochs grow", f"node {id}: {share.epoch} after {top}")
                self.epoch = max(self.epoch, share.epoch)

    def trusts(self, who: "Process", lease: "Lease", row: "LeaseRow | None", now: float) -> None:
        """Somebody was answered: it may trust its lease no longer than the database does."""
        self.seen["leases"] += 1
        trusted_until = now + (lease.trusted_until - who.clock()) / who.rate
        ends_at = now if row is None else row.lease_until
        if trusted_until > ends_at and trusted_until > now and not who.overslept:
            _broken("a lease ends before the database's", f"{who.name}: {trusted_until:.3f}")

    # ── fires ───────────────────────────────────────────────────────────────

    def sends(self, who: "Process", node: int, tables: "Tables") -> None:
        """A node is about to fire: by the database's clock its lease must hold."""
        self.seen["acts"] += 1
        row = tables.nodes.get(node)
        if not who.overslept and (row is None or row.lease_until <= tables.now):
            _broken("without a lease do nothing", f"{who.name} fires as node {node}")

    def fired(
        self, row: "ScheduleRow", guard: Guard, late: bool, tables: "Tables", fire_at: float
    ) -> None:
        self.seen["fires"] += 1
        if fire_at > tables.now or row.next_fire > tables.now:
            _broken("none early", f"schedule {row.id}: {fire_at:g} at {tables.now:.3f}")
        if row.state != "active":
            _broken("none after a pause", f"schedule {row.id} is {row.state}")
        if guard.epoch is None:
            leader = tables.leader
            if not late or (leader.node, leader.term) != (guard.node, guard.term):
                _broken("only its owner fires", f"schedule {row.id}: {guard} is not {leader}")
            return
        owned = tables.ownership.get(guard.node)
        if owned is None or owned.epoch != guard.epoch or row.partition not in owned.partitions:
            _broken("only its owner fires", f"schedule {row.id}: {guard}, of {row.partition}")

    def decided(self, schedule: int, at: float, decision: str) -> None:
        if (schedule, at) in self.decisions:
            _broken("one decision", f"schedule {schedule}, {at:g}: {decision} too")
        self.decisions[schedule, at] = decision

    def passed(
        self, id: int, rule: int, first: float, last: float, fires: int | None, decision: str
    ) -> None:
        period = rules.period_of(rule)
        instants = range(round(first), round(last) + 1, period)
        if fires is not None and fires != len(instants):
            _broken("every fire is decided", f"schedule {id}: {fires} from {first:g} to {last:g}")
        for at in instants:
            self.decided(id, at, decision)

    def made(self, job: int, schedule: int, rule: int, fire_at: float) -> None:
        self.seen["jobs"] += 1
        if (schedule, fire_at) in self.made_for:
            _broken("one job for a fire", f"schedule {schedule}, {fire_at:g}: job {job} too")
        if self.decisions.get((schedule, fire_at)) != "fired":
            _broken("one decision", f"job {job} has no line in the ledger")
        self.made_for[schedule, fire_at] = job
        overlap = rules.KINDS[rule][0]
        most = _LIVE_AT_MOST.get(overlap)
        if most is not None:
            before = [id for id, (whose, _) in self.live.items() if whose == schedule]
            if len(before) >= most:
                _broken("overlap", f"schedule {schedule}: job {job} beside {before}")
        self.live[job] = (schedule, overlap)

    def moved(self, id: int, rule: int, was: float, following: float) -> None:
        """With the same commit everything that was moved past is decided, and made if fired."""
        period = rules.period_of(rule)
        if following % period and following != float("inf"):
            _broken("by the rule that holds", f"schedule {id}: {following:g} of every {period} s")
        last = was + period if following == float("inf") else following
        self._all_decided(id, period, was, last)

    def _all_decided(self, id: int, period: int, first: float, end: float) -> None:
        at = first
        while at < end:
            decision = self.decisions.get((id, at))
            if decision is None:
                _broken("every fire is decided", f"schedule {id}: nothing about {at:g}")
            if decision == "fired" and (id, at) not in self.made_for:
                _broken("a fire makes its job", f"schedule {id}: {at:g}")
            at += period

    def changed(
        self, row: "ScheduleRow", rule: int, was: float, paused: float | None, since: float
    ) -> None:
        """A change decides what was due until then, and the next fire comes after it."""
        self.seen["changes"] += 1
        period = rules.period_of(rule)
        if paused is not None:
            was = (paused // period + 1) * period
        if was <= since:
            self._all_decided(row.id, period, was, since + 0.000001)
        if row.next_fire <= since:
            _broken("none before its edit", f"schedule {row.id}: {row.next_fire:g} of {since:g}")

    # ── jobs ────────────────────────────────────────────────────────────────

    def enqueued(self, job: int) -> None:
        self.seen["jobs"] += 1
        self.live[job] = (0, "allow")

    def balanced(self, live: int) -> None:
        """At the end: what was made lives, or has ended."""
        if self.seen["jobs"] != live + len(self.ended):
            _broken(
                "none is lost", f"{self.seen['jobs']} made, {live} live, {len(self.ended)} ended"
            )

    def claimed(
        self, job: int, fence: int, worker: int, attempt: int, lives: bool, by: "Process | None"
    ) -> None:
        self.seen["claims"] += 1
        if not lives:
            _broken("the lost stay lost", f"worker {worker} claimed job {job}")
        if job in self.ended:
            _broken("terminal is terminal", f"job {job} is {self.ended[job]} and was claimed")
        if job in self.claims:
            _broken("one claim at a time", f"job {job} is claimed: {self.claims[job][:2]}")
        if fence <= self.fence:
            _broken("fences grow", f"job {job}: {fence} after {self.fence}")
        if attempt > MAX_ATTEMPTS:
            _broken("attempts within their maximum", f"job {job}: attempt {attempt}")
        self.fence = fence
        schedule, overlap = self.live[job]
        if overlap in _SERIAL:
            for id, (whose, _) in self.live.items():
                if whose == schedule and id < job:
                    _broken("overlap", f"job {job} runs before {id} has ended")
        self.claims[job] = fence, worker, by

    def settled(
        self, job: int, fence: int, outcome: str, following: str, gone: bool, by: "Process | None"
    ) -> None:
        self.seen["settlements"] += 1
        if job in self.ended:
            _broken("terminal is terminal", f"job {job} is {self.ended[job]}, then {outcome}")
        claim = self.claims.pop(job, None)
        if claim is None or claim[0] != fence:
            _broken(
                "a stale fence settles nothing", f"job {job}: {fence}, not {claim and claim[0]}"
            )
        if by is not claim[2] and not gone:
            _broken("only the lost are reaped", f"job {job}: worker {claim[1]} was not lost")
        if following != "waiting":
            self._end(job, following)

    def cancelled(self, job: int) -> None:
        if job in self.claims:
            _broken("a running job is only asked", f"job {job}")
        self._end(job, "cancelled")

    def _end(self, job: int, how: str) -> None:
        self.ended[job] = how
        del self.live[job]

    def lost(self, worker: int, lease_until: float, lease_for: float, tables: "Tables") -> None:
        self.seen["lost workers"] += 1
        if lease_until >= tables.now:
            _broken("only the lost are reaped", f"worker {worker} lives until {lease_until:g}")
        if tables.started_at >= tables.now - lease_for:
            _broken("silence that was the server's", f"worker {worker} could not renew")

    def effect(
        self, who: "Process", claim: "Claim", worker: int, lease: "Lease | None", tables: "Tables"
    ) -> None:
        """An attempt does something in the world outside."""
        self.seen["effects"] += 1
        current = self.claims.get(claim.id)
        row = tables.workers.get(worker)
        stale = current is None or current[0] != claim.fence
        if stale and row is not None and row.lease_until > tables.now:
            _broken("one attempt at a time", f"{who.name} runs job {claim.id}, fence {claim.fence}")
        if lease is None or who.clock() > self._may_go_on_until(who, lease):
            _broken("without a lease do nothing", f"{who.name} goes on with job {claim.id}")
        over = row is None or row.lease_until <= tables.now
        if over and lease.trusted(who.clock()) and not who.overslept:
            _broken("without a lease do nothing", f"{who.name} trusts a lease that is over")

    def _may_go_on_until(self, who: "Process", lease: "Lease") -> float:
        """Who slept through the end of its lease first asks the database whether it was late."""
        if who.resumed_at > lease.trusted_until:
            return who.resumed_at + ASKS_FOR
        return lease.trusted_until + _MOMENT
