"""Schedules with a past: a ledger that reaches back for weeks, of which a run forgets day by day.

They are of the population, and nobody edits them. What they fired before the run is put into the
ledger, and in dump/ledger.jsonl: {schedule, fire_at, job}. The rest of their instants were never
fired, and may be: operators ask for stretches of that past, also of what is forgotten, as

    backfill        of a schedule that is old; see `operators`
    keep_history    {days}: so many are kept from now on, mostly fewer than before
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import asyncpg

from sexton import sql
from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.clock import SECOND, now_us
from sexton.torture.work.hands import Hand, PythonHand
from sexton.torture.work.population import TENANTS, Planned
from sexton.torture.work.rules import every

OLD = "old"
MANY = 10
DAY = 86_400 * SECOND
APART = 6 * 3600
# The ledger reaches back for so many days, of which so many are kept when the run begins: whoever
# starts first drops the others.
DAYS, KEPT = 24, 16
RATE = 20.0
# Of their instants every so manieth was never fired.
HOLES = 5
_FIRES = Path(__file__).with_name("old_fires.sql")
# What is put there has not happened just now.
_UNSEEN = "alter table sexton.fire disable trigger user"
_SEEN = "alter table sexton.fire enable trigger user"
_BEGAN = (
    "update sexton.schedule set created_at = created_at - interval '1 year' where id = any ($1)"
)
_BUCKETS = (
    "select sexton.make_buckets_of('fire', (now() at time zone 'utc')::date - $1::integer,"
    " (now() at time zone 'utc')::date)"
)
_KEEP = "update sexton.installation set retention = make_interval(days => $1)"


def is_old(line: dict[str, Any]) -> bool:
    return str(line["name"]).startswith(OLD)


def planned(seed: int, begins: int) -> Iterator[Planned]:
    """A few, of every tenant."""
    random = Random(f"past {seed}")
    for nth in range(MANY):
        tenant, name = TENANTS[nth % len(TENANTS)], f"{OLD} {nth:02}"
        payload = {"id": f"{tenant}/{name}", "tenant": tenant, "rev": 0}
        options = {"overlap": "allow", "misfire": "latest"}
        yield Planned(tenant, name, "quick", payload, every(random, begins, APART), options)


async def put(
    connection: asyncpg.Connection, schema: str, lines: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Their past, into the ledger; what was put there."""

    def of(text: str) -> str:
        return sql.for_schema(text, schema)

    found: list[dict[str, Any]] = []
    old = [line for line in lines if is_old(line)]
    async with connection.transaction():
        await connection.execute(of(_KEEP), KEPT)
        await connection.execute(of(_BEGAN), [line["id"] for line in old])
        await connection.fetchval(of(_BUCKETS), DAYS + 2)
        await connection.execute(of(_UNSEEN))
        for line in old:
            rows = await connection.fetch(of(_FIRES.read_text()), line["id"], [*_fired(line)])
            found += [{"schedule": line["id"], "fire_at": at, "job": job} for at, job in rows]
        await connection.execute(of(_SEEN))
    return found


def _fired(line: dict[str, Any]) -> Iterator[int]:
    [rule] = line["when"]
    apart, last = rule["every_us"], now_us() - DAY
    last -= (last - rule["anchor_us"]) % apart
    for nth in range(DAYS * DAY // apart):
        if nth % HOLES:
            yield last - nth * apart


class Drawn(NamedTuple):
    """A request that may be made."""

    verb: str
    tenant: Tenant
    subject: str | None
    body: dict[str, Any]
    work: Callable[[str], Awaitable[dict[str, Any]]]


class Past:
    """Draws what is asked about it."""

    def __init__(
        self, hand: Hand, access: Access, random: Random, population: Sequence[dict[str, Any]]
    ) -> None:
        self._hand = hand
        self._access = access
        self._random = random
        self._old = [line for line in population if is_old(line)]

    async def draw(self) -> Drawn | None:
        """A stretch that begins on any of its days; now and then fewer days are kept, or more."""
        random, hand = self._random, self._hand
        if isinstance(hand, PythonHand) and random.random() < 0.3:
            # More again, so that what was dropped is within the days that are kept.
            days = min(DAYS, await hand.days_kept() + random.choice((-3, -2, -1, -1, 4, 8)))
            tenant = self._access.tenants[TENANTS[0]]
            work = partial(hand.keep_history, days)
            return Drawn("keep_history", tenant, None, {"days": days}, work) if days > 0 else None
        if not self._old:
            return None
        line = random.choice(self._old)
        # As likely as not of what was dropped at first.
        latest = random.choice((round(1.5 * DAY), KEPT * DAY))
        first = now_us() - random.randrange(latest, (DAYS - 1) * DAY)
        end = first + random.randrange(DAY // 4, round(1.5 * DAY))
        body = {"from_us": first, "to_us": end, "rate": RATE}
        tenant = self._access.tenants[line["tenant"]]
        work = partial(hand.backfill, tenant, line["name"], first, end, RATE)
        return Drawn("backfill", tenant, line["name"], {**body, "alone": False}, work)
