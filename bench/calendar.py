"""The next fire of many mixed (expression, zone, instant), for Sexton and for whoever is installed.

    python -m bench.calendar                       # 100,000 for Sexton, a share of them for peers
    PYTHONPATH=… python -m bench.calendar          # with croniter and apscheduler<4 installed there

Contenders take turns, part by part, on the same cases; a ratio is the median over the parts. The
slow get only a share of each part, and their seconds are scaled up to all of it. Seconds are the
processor's, of a single thread, so that a busy machine counts less.
"""  # noqa: A005

from __future__ import annotations

import argparse
import gc
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import import_module
from time import process_time
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from bench.report import table
from sexton.domain.when.cron import parse_cron
from sexton.domain.when.zone import Zoned

EXPRESSIONS = 1000
PARTS = 25
GOAL = 1.0  # seconds for 100,000
ZONES = (
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Chicago",
    "America/Los_Angeles",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/London",
    "Europe/Paris",
    "Pacific/Apia",
    "Pacific/Auckland",
)


class Case(NamedTuple):
    expression: str
    zone: str
    instant: datetime


Next = Callable[[Case], datetime | None]


@dataclass
class Contender:
    name: str
    following: Next
    share: float = 1.0
    seconds: list[float] = field(default_factory=list)  # for a part, all of it
    answers: int = 0
    agreed: int = 0


def expression(noise: random.Random) -> str:
    """As people write them: mostly daily or every few minutes, some weekly, monthly, yearly."""
    minute, hour = noise.randrange(60), noise.randrange(24)
    kinds = (
        (4, f"{minute} {hour} * * *"),
        (4, f"*/{noise.choice((2, 5, 10, 15, 20, 30))} * * * *"),
        (2, f"{minute} * * * *"),
        (2, f"{minute} {hour} * * {noise.choice(('mon-fri', 'sun', 'mon,wed,fri', 'sat'))}"),
        (2, f"{minute} {hour} {noise.randint(1, 28)} * *"),
        (1, f"{minute} {hour} 1 {noise.choice(('1', '1,4,7,10', '6', '12'))} *"),
        (1, f"{minute},{(minute + 30) % 60} 8-18 * * mon-fri"),
        (1, f"{minute} */{noise.choice((2, 3, 4, 6, 8, 12))} * * *"),
    )
    weights, texts = zip(*kinds, strict=True)
    chosen: list[str] = noise.choices(texts, weights)
    return chosen[0]


def cases(count: int) -> list[Case]:
    noise = random.Random(1)
    expressions = sorted({expression(noise) for _ in range(2 * EXPRESSIONS)})
    noise.shuffle(expressions)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Case(
            noise.choice(expressions[:EXPRESSIONS]),
            noise.choice(ZONES),
            start + timedelta(seconds=noise.randrange(3 * 365 * 86400)),
        )
        for _ in range(count)
    ]


def sexton_kept() -> Next:
    """As the engine does: a rule for each distinct expression and zone, kept."""
    kept: dict[tuple[str, str], Zoned] = {}

    def following(case: Case) -> datetime | None:
        key = case.expression, case.zone
        rule = kept.get(key)
        if rule is None:
            rule = kept[key] = Zoned(parse_cron(case.expression), case.zone)
        return rule.after(case.instant)

    return following


def sexton_each(case: Case) -> datetime | None:
    return Zoned(parse_cron(case.expression), case.zone).after(case.instant)


def croniter() -> Next:
    iterator: Any = import_module("croniter").croniter

    def following(case: Case) -> datetime | None:
        local = case.instant.astimezone(ZoneInfo(case.zone))
        found: datetime = iterator(case.expression, local).get_next(datetime)
        return found

    return following


def cronsim() -> Next:
    simulator: Any = import_module("cronsim").CronSim

    def following(case: Case) -> datetime | None:
        local = case.instant.astimezone(ZoneInfo(case.zone))
        found: datetime = next(simulator(case.expression, local))
        return found

    return following


def apscheduler_each() -> Next:
    trigger: Any = import_module("apscheduler.triggers.cron").CronTrigger

    def following(case: Case) -> datetime | None:
        rule = trigger.from_crontab(case.expression, ZoneInfo(case.zone))
        later = case.instant + timedelta(microseconds=1)  # it answers with the instant itself
        found: datetime | None = rule.get_next_fire_time(None, later)
        return found

    return following


def apscheduler_kept() -> Next:
    trigger: Any = import_module("apscheduler.triggers.cron").CronTrigger
    kept: dict[tuple[str, str], Any] = {}

    def following(case: Case) -> datetime | None:
        key = case.expression, case.zone
        rule = kept.get(key)
        if rule is None:
            rule = kept[key] = trigger.from_crontab(case.expression, ZoneInfo(case.zone))
        later = case.instant + timedelta(microseconds=1)
        found: datetime | None = rule.get_next_fire_time(None, later)
        return found

    return following


PEERS: tuple[tuple[str, Callable[[], Next], float], ...] = (
    ("cronsim, parsed each time", cronsim, 0.1),
    ("APScheduler 3, triggers kept", apscheduler_kept, 0.05),
    ("APScheduler 3, parsed each time", apscheduler_each, 0.05),
    ("croniter, parsed each time", croniter, 0.02),
)


def contenders() -> tuple[list[Contender], list[str]]:
    """Those who are installed, and a line about each who is not."""
    present = [
        Contender("Sexton, rules kept", sexton_kept()),
        Contender("Sexton, parsed each time", sexton_each),
    ]
    absent = []
    for name, make, share in PEERS:
        try:
            present.append(Contender(name, make(), share))
        except ImportError as reason:
            absent.append(f"{name.partition(',')[0]} is not installed here: {reason}")
    return present, sorted(set(absent))


def measure(everyone: list[Contender], part: list[Case]) -> None:
    """One turn for each on this part."""
    reference: list[datetime | None] = []
    for contender in everyone:
        mine = part[: max(1, int(len(part) * contender.share))]
        following = contender.following
        gc.collect()
        began = process_time()
        found = [following(case) for case in mine]
        contender.seconds.append((process_time() - began) / len(mine) * len(part))
        reference = reference or found
        contender.answers += len(mine)
        pairs = zip(found, reference, strict=False)
        contender.agreed += sum(_utc(mine) == _utc(other) for mine, other in pairs)


def _utc(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.astimezone(UTC)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.calendar", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    count: int = max(PARTS, parser.parse_args().cases)
    everyone, absent = contenders()
    wanted = cases(count)
    size = count // PARTS
    for start in range(0, size * PARTS, size):
        measure(everyone, wanted[start : start + size])
    first = everyone[0]
    rows = []
    for contender in everyone:
        ratios = [mine / its for mine, its in zip(contender.seconds, first.seconds, strict=True)]
        each = sum(contender.seconds) / (size * PARTS)
        rows.append(
            [
                contender.name,
                f"{each * 100_000:.2f}",
                f"{each * 1e6:.1f}",
                f"{statistics.median(ratios):.1f}",
                f"{contender.answers:,}",
                f"{100 * contender.agreed / contender.answers:.1f}",
            ]
        )
    print(table(["next fire", "s / 100,000", "µs each", "× Sexton", "asked", "% same"], rows))
    for line in absent:
        print(f"- {line}")
    distinct = len({case[:2] for case in wanted})
    print(f"\n{count:,} cases, {distinct:,} distinct of expression and zone; ", end="")
    reached = sum(first.seconds) / (size * PARTS) * 100_000
    print(f"goal: ≤ {GOAL:g} s per 100,000: {'reached' if reached <= GOAL else 'not reached'}")


if __name__ == "__main__":
    main()
