"""Quotas: how fast a tenant may ask, how much it may have, and how often its schedules may fire."""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from sexton.api.principal import Principal
from sexton.api.problems import Problem
from sexton.domain.spec import RULES, Spec, Terms
from sexton.domain.version import fresh_anchor
from sexton.domain.when.definition import Definition
from sexton.domain.when.timetable import Timetable

if TYPE_CHECKING:
    from sexton.api.desk import Desk

Header = tuple[bytes, bytes]
What = Literal["schedules", "jobs", "workers", "endpoints"]

# How long a count is believed, and how much room there must be for that.
BELIEVED_FOR = 3.0
NEAR = 1000
FIRES_LOOKED_AT = 50
# Whoever enqueues looks through all workers for one that sleeps, and whoever claims through all
# tasks, of which each endpoint is one.
MOST_WORKERS, MOST_ENDPOINTS = 1000, 100_000
_ROUNDING = 1e-6
_KEPT = 4096


@dataclass(slots=True)
class _Bucket:
    """A token for each request; as many at once as a second has."""

    tokens: float
    at: float


@dataclass(slots=True)
class _Room:
    """What may be added without counting again."""

    left: int
    until: float


class Limits:
    """What this process remembers of its tenants' quotas; each process by itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[int, _Bucket] = {}
        self._rooms: dict[tuple[int, What], _Room] = {}

    def forget(self) -> None:
        """Quotas have changed."""
        self._rooms.clear()

    def request(self, principal: Principal) -> tuple[Header, ...]:
        """Count a request; headers for its answer, or a Problem if there were too many."""
        rate = principal.quotas.requests_per_second
        if rate is None:
            return ()
        most = max(1.0, rate)
        now = self._clock()
        bucket = self._buckets.get(principal.tenant_id)
        if bucket is None:
            bucket = self._buckets[principal.tenant_id] = _Bucket(most, now)
        tokens = min(most, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        policy = f'"tenant";q={most:.0f};w={math.ceil(most / rate)}'
        if tokens < 1.0:
            bucket.tokens = tokens
            wait = math.ceil((1.0 - tokens) / rate)
            raise Problem(
                429,
                "rate_limited",
                f"this tenant may send {rate:g} requests a second",
                headers={
                    "Retry-After": str(wait),
                    "RateLimit-Policy": policy,
                    "RateLimit": f'"tenant";r=0;t={wait}',
                },
            )
        bucket.tokens = tokens = tokens - 1.0
        left = f'"tenant";r={int(tokens)};t={math.ceil((most - tokens) / rate)}'
        return (b"ratelimit-policy", policy.encode()), (b"ratelimit", left.encode())

    async def room(
        self,
        desk: "Desk",
        what: What,
        quota: int | None,
        many: int,
        count: Callable[[int, int], Awaitable[int]],
    ) -> None:
        """Refuse what would be more than the quota.

        Far from it, a count is believed for a moment, and half of the room it found is given away
        without counting again. Near it, everybody counts, one after the other.
        """
        if quota is None or many <= 0:
            return
        now = self._clock()
        believed = self._rooms.get((desk.tenant_id, what))
        if believed is not None and now < believed.until and many <= believed.left:
            believed.left -= many
            return
        await desk.store.tenants.hold_room(desk.tenant_id, what)
        left = quota - many - await count(desk.tenant_id, quota + 1)
        if left < 0:
            self._rooms.pop((desk.tenant_id, what), None)
            raise _exceeded(what, quota, many)
        if left >= NEAR:
            self._rooms[desk.tenant_id, what] = _Room(left // 2, now + BELIEVED_FOR)


_QUOTAS: dict[What, str] = {
    "schedules": "max_schedules",
    "jobs": "max_live_jobs",
    "workers": "workers",
    "endpoints": "endpoints",
}


def _exceeded(what: What, quota: int, many: int) -> Problem:
    """Jobs and workers get fewer by themselves, so it is worth coming back; others do not."""
    name = _QUOTAS[what]
    more = "another" if many == 1 else f"{many:,} more"
    detail = f"{name}: this tenant may have {quota:,} {what}; {more} would be too many"
    if what in ("jobs", "workers"):
        headers = {"Retry-After": "5"}
        return Problem(429, "quota_exceeded", detail, quota=name, headers=headers)
    return Problem(403, "quota_exceeded", detail, quota=name)


async def room_for_schedules(desk: "Desk", many: int) -> None:
    """Before so many schedules are added: a Problem if the tenant may not have them."""
    quota = desk.principal.quotas.max_schedules
    count = desk.store.tenants.schedules_in
    await desk.service.limits.room(desk, "schedules", quota, many, count)


async def room_for_jobs(desk: "Desk", many: int) -> None:
    """Before so many jobs are enqueued: a Problem if the tenant may not have them."""
    quota = desk.principal.quotas.max_live_jobs
    await desk.service.limits.room(desk, "jobs", quota, many, desk.store.jobs.live_in)


async def room_for_worker(desk: "Desk") -> None:
    """Before a remote worker joins: a Problem if there are more of the tenant's than can be."""
    quota = None if desk.tenant_id == 1 else MOST_WORKERS
    await desk.service.limits.room(desk, "workers", quota, 1, desk.store.remote.live)


async def room_for_endpoint(desk: "Desk") -> None:
    """Before an endpoint is made: a caller may write out another with every job."""
    quota = None if desk.tenant_id == 1 else MOST_ENDPOINTS
    await desk.service.limits.room(desk, "endpoints", quota, 1, desk.store.endpoints.count)


_shortest: dict[str, float] = {}


def demand_interval(principal: Principal, spec: Spec) -> None:
    """A Problem if a schedule would fire more often than its tenant's may."""
    least = principal.quotas.min_interval
    if not least:
        return
    text = spec.terms.text
    shortest = _shortest.get(text)
    if shortest is None:
        if len(_shortest) >= _KEPT:
            _shortest.clear()
        shortest = _shortest[text] = shortest_interval(spec.terms, datetime.now(UTC))
    if shortest < least - _ROUNDING:
        field = next((each for each in RULES if each in spec.terms.options), "when")
        raise Problem(
            422,
            "interval_too_short",
            f"{field}: fires {shortest:g} s after the fire before; "
            f"this tenant's schedules may do so after {least:g} s at the soonest",
            field=field,
        )


def shortest_interval(terms: Terms, now: datetime) -> float:
    """The shortest time between two of its next fires, as a whole and of each rule by itself: what
    calendars take out is looked at too, jitter is not.
    """
    when = msgspec.structs.replace(terms.when, exclude=(), only=(), when_excluded="skip")
    wholes = [
        Definition(timezone=when.timezone, dst=when.dst, **msgspec.structs.asdict(clause))
        for clause in when.any
    ]
    anchor = fresh_anchor(terms, now)
    start = now if when.starts_at is None else max(now, when.starts_at)
    return min(_shortest_of(each, start, anchor) for each in (when, *wholes))


def _shortest_of(definition: Definition, start: datetime, anchor: datetime) -> float:
    if definition.every is not None:
        return definition.every
    rule = Timetable.compile(definition).rule(anchor)
    shortest = math.inf
    before = rule.after(start)
    for _ in range(FIRES_LOOKED_AT):
        at = None if before is None else rule.after(before)
        if before is None or at is None:
            break
        shortest = min(shortest, (at - before).total_seconds())
        before = at
    return shortest
