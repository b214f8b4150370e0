"""How many fires `sexton audit` checks in a minute.

    python -m bench.audit                     # a ledger of a million fires
    python -m bench.audit --fires 100000      # a look

The ledger is as 10,000 schedules would leave it: some of one rule, some in a time zone, some with
an anchor of their own, some with jitter; each job has its row of history. What is measured is the
whole audit, from the first statement to the result, at first without statistics and then with.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg

from bench.server import Server, ServerFailed
from sexton import Sexton
from sexton.domain.expected import Slice, Version, instant, micros
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.when import Definition
from sexton.store.connection import Address
from sexton.store.migrations import migrate

SCHEDULES = 10_000
GOAL = 1_000_000  # fires a minute
KINDS: tuple[dict[str, Any], ...] = (
    {"cron": "* * * * *"},
    {"cron": "*/2 * * * *", "timezone": "Europe/Paris"},
    {"every": 90},
    {"cron": "* * * * *", "jitter": 20},
)
LAG = timedelta(milliseconds=4)
Copied = Iterator[tuple[Any, ...]]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.audit", description=__doc__)
    parser.add_argument("--fires", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


class Made:
    """Schedules since an instant, and the ledger of everything they promised until another."""

    def __init__(self, schedules: int, fires: int) -> None:
        self.texts = [RuleText(Definition.of(**kind)).to_json() for kind in KINDS]
        self.rules = [Rule.compile(text, {}) for text in self.texts]
        self.schedules = schedules
        self.fires = fires
        self.to = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
        self.from_ = self.to - timedelta(seconds=self._seconds())

    def _seconds(self) -> float:
        """How long they take to fire so often."""
        a_second = sum((1 / 60, 1 / 120, 1 / 90, 1 / 60)) / len(KINDS)
        return self.fires / self.schedules / a_second

    def anchor(self, id: int) -> datetime:
        return self.from_ + timedelta(seconds=id % 90)

    def schedule_rows(self) -> Copied:
        for id in range(1, self.schedules + 1):
            rule = id % len(KINDS)
            since, anchor = self.from_, self.anchor(id)
            yield id, f"s{id}", since, since, rule + 1, anchor, "t", "{}"

    def due_rows(self) -> Copied:
        for id in range(1, self.schedules + 1):
            yield id, self.to, self.anchor(id), id % len(KINDS) + 1, id % 256

    def fire_rows(self) -> Copied:
        time = Slice(micros(self.from_), micros(self.to))
        job = 0
        for id in range(1, self.schedules + 1):
            rule, anchor = id % len(KINDS), micros(self.anchor(id))
            version = Version(id, time.begins, None, "active", rule, anchor, None, None, False)
            fires, scheduled = time.promised(version, self.rules[rule].timetable)
            for fire, stands_for in zip(fires, scheduled, strict=True):
                job += 1
                at = instant(fire)
                yield id, at, instant(stands_for), at + LAG, job, 1, 1, "fired", "due"


async def fill(url: str, made: Made) -> int:
    """Returns how many fires there are."""
    await migrate(Address(url), "sexton")
    connection = await asyncpg.connect(url)
    try:
        for text in made.texts:
            await connection.execute("insert into sexton.rule (definition) values ($1)", text)
        days = made.from_.date(), made.to.date() + timedelta(days=1)
        await connection.execute("select sexton.make_buckets($1, $2)", *days)
        for table, columns, rows in (
            ("schedule", "id name since created_at rule_id anchor task said", made.schedule_rows()),
            ("due", "schedule_id next_fire_at anchor rule_id partition", made.due_rows()),
            (
                "fire",
                "schedule_id fire_at scheduled_at decided_at job_id term node_id decision kind",
                made.fire_rows(),
            ),
        ):
            await connection.copy_records_to_table(
                table, schema_name="sexton", columns=columns.split(), records=rows
            )
        # In the order in which they would have come about.
        await connection.execute("""
            create temporary table row as select * from sexton.fire order by fire_at;
            truncate sexton.fire;
            insert into sexton.fire select * from row;
            insert into sexton.attempt (
                job_id, fence, created_at, due_at, claimed_at, finished_at, attempt, outcome, next,
                task, queue, payload, schedule_id, fire_at)
            select job_id, job_id, decided_at, decided_at, decided_at, decided_at, 1, 'succeeded',
                'succeeded', 't', 'default', '{}', schedule_id, fire_at
            from row;
            drop table row""")
        many: int = await connection.fetchval("select count(*) from sexton.fire")
        return many
    finally:
        await connection.close()


async def measured(url: str, fires: int, rounds: int) -> None:
    made = Made(SCHEDULES, fires)
    begun = time.perf_counter()
    many = await fill(url, made)
    print(f"a ledger of {many:,} fires, made in {time.perf_counter() - begun:.0f} s", flush=True)
    async with Sexton(url) as app:
        for number in range(rounds):
            if number == 1:
                connection = await asyncpg.connect(url)
                await connection.execute("vacuum analyze")
                await connection.close()
            begun, busy = time.perf_counter(), time.process_time()
            found = await app.audit(made.from_, made.to)
            took, busy = time.perf_counter() - begun, time.process_time() - busy
            assert found.clean, found
            assert found.expected == found.fired == many, found
            rate = 60 * many / took
            verdict = "met" if rate >= GOAL else "MISSED"
            print(
                f"{many:,} fires checked in {took:.2f} s ({busy:.2f} s of them ours): "
                f"{rate:,.0f} a minute, goal {GOAL:,} {verdict}; "
                f"RSS {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
                flush=True,
            )


def main() -> int:
    arguments = parsed()
    try:
        with Server() as server:
            asyncio.run(measured(server.url, arguments.fires, arguments.rounds))
    except ServerFailed as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
