"""Thousands of schedules from a seed, each with a description that needs no engine to be computed.

One line of dump/population.jsonl for each, as it was registered:

    tenant, tenant_id, name, id    names are a tenant's own: many are there several times
    task, payload                  what each fire makes
    when, timezone                 see `rules`
    starts_us, ends_us             the first instant that may be scheduled, the first that may not
    exclude, only                  names of calendars, in dump/calendars.jsonl: {tenant, name,
                                   ranges_us: [[from, before], …]}; what is in an excluded one, or
                                   in none of the only ones, is not fired
    jitter                         null, or {"kind", "us"}: a fire happens later than scheduled, by
                                   digest × room >> 64 microseconds, the digest being eight bytes
                                   (big endian) of blake2b over the text "<id>:<salt>". fixed: salt
                                   is 0, room is us. random: salt is the scheduled instant, room is
                                   us or the way to the following instant, whichever is less
    overlap, max_queued, max_running, misfire, grace_s, max_fires
                                   the policies, with what holds where nothing was said
    options                        everything but the payload, as the engine was told
    rate                           fires a second, on average, while it is active
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, product
from random import Random
from typing import Any

from sexton.torture.work.clock import SECOND
from sexton.torture.work.rules import Clause, Rule, cron, every, iso, once, union

TENANTS = ("default", "acme", "birch", "cedar", "flood")
FLOODS = "flood"
_WEIGHTS = (20, 18, 16, 14, 32)
OVERLAPS = ("skip", "queue_one", "queue_all", "allow", "replace")
MISFIRES = ("latest", "skip", "all")
USUAL_GRACE, USUAL_QUEUED = 3600.0, 100
DAY = 86_400.0
FREEZES, OPENINGS = "freezes", "openings"
_LONGEST = {FREEZES: 20, OPENINGS: 40}
AHEAD = 30  # minutes that a calendar is drawn for while a run lasts

# Tasks that some of the schedules have, with how often; what needs more is in `_payload`.
_TASKS = {
    "quick": 64.0,
    "quick_sync": 7.0,
    "slow": 7.0,
    "slow_sync": 2.0,
    "transactional": 6.0,
    "fails": 3.0,
    "fails_sync": 1.0,
    "always_fails": 0.6,
    "permanent": 0.6,
    "snoozes": 1.5,
    "limited": 1.5,
    "apart": 0.8,
    "far": 1.5,
    "sink": 5.0,
    "rough": 0.5,
}
# Those that hurt, each so many seconds apart over the whole cluster.
_HARSH = {
    "long": 3,
    "burns": 9,
    "burns_sync": 14,
    "hangs": 11,
    "hangs_sync": 16,
    "suicide_apart": 21,
    "blocks": 37,
    "suicide": 53,
}
ENDPOINTS = ("sink", "rough")


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a population is to be, and when its run takes place."""

    begins: int  # µs
    seconds: float
    fires_per_second: float = 110.0
    lease: float = 3.0
    harsh: float = 1.0  # how often those that hurt come; 0: never


@dataclass(slots=True)
class Planned:
    """A schedule to be."""

    tenant: str
    name: str
    task: str  # or the name of an endpoint
    payload: dict[str, Any]
    rule: Rule
    options: dict[str, Any] = field(default_factory=dict)
    starts_us: int | None = None
    ends_us: int | None = None

    @property
    def told(self) -> dict[str, Any]:
        """Its options, as the engine is told."""
        return {**self.rule.whole, **self.options}

    def line(self, id: int, tenant_id: int, task: str) -> dict[str, Any]:
        """Its description, once it is registered."""
        given = self.options
        jitter = None
        if "jitter" in given:
            jitter = {"kind": given["jitter_kind"], "us": round(given["jitter"] * SECOND)}
        return {
            "tenant": self.tenant,
            "tenant_id": tenant_id,
            "name": self.name,
            "id": id,
            "task": task,
            "payload": self.payload,
            "when": self.rule.when,
            "timezone": self.rule.timezone,
            "starts_us": self.starts_us,
            "ends_us": self.ends_us,
            "exclude": given.get("exclude", []),
            "only": given.get("only", []),
            "jitter": jitter,
            "overlap": given["overlap"],
            "max_queued": given.get("max_queued", USUAL_QUEUED),
            "max_running": given.get("max_running"),
            "misfire": given["misfire"],
            "grace_s": given.get("grace", USUAL_GRACE),
            "max_fires": given.get("max_fires"),
            "options": self.told,
            "rate": round(self.rule.rate, 6),
        }


def calendars(random: Random, shape: Shape) -> dict[str, list[list[int]]]:
    """Ranges of instants of two calendars: freezes to keep out of, openings to keep within."""
    minutes = round(shape.seconds / 60) + 60
    return {name: ranges(random, name, shape.begins, minutes) for name in _LONGEST}


def ranges(random: Random, name: str, begins: int, minutes: int = AHEAD) -> list[list[int]]:
    """One of them, for so long; it is drawn anew while its schedules fire."""
    found = []
    for nth in range(minutes):
        first = begins + (60 * nth + random.randrange(20)) * SECOND
        found.append([first, first + random.randint(8, _LONGEST[name]) * SECOND])
    return found


def as_ranges(listed: Sequence[Sequence[int]]) -> list[str]:
    """As a calendar is told them."""
    return [f"{iso(first)}/{iso(last)}" for first, last in listed]


def population(seed: int, shape: Shape) -> Iterator[Planned]:
    """Schedules until they make as many fires a second as wanted, and those that hurt."""
    random = Random(f"population {seed}")
    numbers = {tenant: count(1) for tenant in TENANTS}
    policies = [*product(OVERLAPS, MISFIRES)]
    random.shuffle(policies)
    rate = 0.0
    for nth in count():
        if rate >= shape.fires_per_second:
            break
        tenant = random.choices(TENANTS, _WEIGHTS)[0]
        planned = Planned(
            tenant,
            f"s{next(numbers[tenant]):05}",
            random.choices([*_TASKS], [*_TASKS.values()])[0],
            {},
            _rule(random, shape),
        )
        planned.payload = _payload(random, planned.task, planned.tenant, planned.name)
        _set_policies(random, planned, *policies[nth % len(policies)])
        _set_bounds(random, planned, shape)
        rate += planned.rule.rate
        yield planned
    for task, seconds in _HARSH.items() if shape.harsh > 0 else ():
        tenant = random.choice(TENANTS)
        apart = max(2, round(seconds / shape.harsh))
        rule = every(random, shape.begins, apart)
        payload = _payload(random, task, tenant, f"harsh {task}", shape.lease)
        options = {"overlap": "allow", "misfire": "latest"}
        yield Planned(tenant, f"harsh {task}", task, payload, rule, options)


def _rule(random: Random, shape: Shape) -> Rule:
    match random.choices(("every", "cron", "once", "union"), (56, 34, 5, 5))[0]:
        case "every":
            return every(random, shape.begins)
        case "cron":
            return cron(random)
        case "once":
            return once(random, shape.begins, shape.seconds)
        case _:
            return union(random, shape.begins, shape.seconds)


def _payload(
    random: Random, task: str, tenant: str, name: str, lease: float = 3.0
) -> dict[str, Any]:
    return {"id": f"{tenant}/{name}", "tenant": tenant, "rev": 0} | more(random, task, lease)


def more(random: Random, task: str, lease: float = 3.0) -> dict[str, Any]:
    """What a task, or an endpoint, is told beside the id: for how long, how often."""
    match task:
        case "slow" | "slow_sync":
            return {"seconds": round(random.uniform(0.1, 2.0), 2)}
        case "long":
            return {"seconds": round(random.uniform(1.3, 2.2) * lease, 2)}
        case "blocks":
            return {"seconds": round(random.uniform(1.1, 1.5) * lease, 2)}
        case "burns" | "burns_sync" | "keyed" | "far" | "limited":
            return {"seconds": round(random.uniform(0.05, 0.5), 2)}
        case "transactional":
            # Some take their time, so that their worker may be stopped before they commit.
            return {"seconds": round(max(0.0, random.uniform(-4.0, 2.0)), 2)}
        case "fails" | "fails_sync":
            return {"times": random.randint(1, 3)}
        case "suicide" | "suicide_apart":
            return {"times": random.choice((1, 1, 2))}
        case "snoozes":
            rest = round(random.uniform(0.2, 1.0), 2)
            return {"seconds": round(random.uniform(0.1, 2.0) * rest, 2), "rest": rest}
        case "sink":
            answer = random.choices(("ok", "slow", "later", "fails_later"), (14, 2, 3, 1))[0]
            return {"answer": answer, "times": random.choice((0, 0, 1)), "seconds": 0.3}
        case "rough":
            answers = ("ok", "fails", "busy", "refuses", "always_fails", "hangs")
            answer = random.choices(answers, (8, 4, 3, 1, 1, 1))[0]
            return {"answer": answer, "times": 1, "seconds": 0.1}
    return {}


def _set_policies(random: Random, planned: Planned, overlap: str, misfire: str) -> None:
    options = planned.options
    options |= {"overlap": overlap, "misfire": misfire}
    if overlap == "queue_all":
        options["max_queued"] = random.randint(2, 8)
    if overlap == "allow" and random.random() < 0.6:
        options["max_running"] = random.randint(2, 20)
    if random.random() < 0.3:
        options["grace"] = random.choice((15.0, 30.0, 60.0))


def _set_bounds(random: Random, planned: Planned, shape: Shape) -> None:
    """Of some: jitter, calendars, an end."""
    options, shortest = planned.options, _shortest(planned.rule.when)
    match random.randrange(100):
        case 0 | 1 | 2 if shortest >= 5:
            options |= {"jitter": round(random.uniform(0.2, 2.5), 3), "jitter_kind": "random"}
        case 3 | 4 | 5 if shortest >= 5:
            options |= {"jitter": round(random.uniform(0.2, 2.5), 3), "jitter_kind": "fixed"}
        case 6 | 7 | 8 if shortest < DAY:
            options["exclude"] = [FREEZES]
        case 9 | 10 | 11 if shortest <= 10:
            options["only"] = [OPENINGS]
        case 12 | 13 | 14 if shortest < DAY:
            options["max_fires"] = random.randint(3, 40)
        case 15 | 16 | 17 if shortest < DAY:
            _start(random, planned, shape)
            _end(random, planned, shape)
        case 18 | 19 if shortest < DAY:
            _start(random, planned, shape)


def _start(random: Random, planned: Planned, shape: Shape) -> None:
    most = max(4.0, min(60.0, shape.seconds * 0.2))
    planned.starts_us = shape.begins + round(random.uniform(2.0, most) * 1000) * 1000
    planned.options["starts_at"] = iso(planned.starts_us)


def _end(random: Random, planned: Planned, shape: Shape) -> None:
    """Late enough for every rule to have fired once: what never fires is refused."""
    seconds = max(200.0, shape.seconds * random.uniform(0.3, 0.9))
    planned.ends_us = shape.begins + round(seconds * 1000) * 1000
    planned.options["ends_at"] = iso(planned.ends_us)


def _shortest(when: Sequence[Clause]) -> float:
    """Seconds that lie between two fires at least; a day for what fires once, or not all day."""
    if len(when) > 1:
        return 0.0  # of several rules, fires may come close to each other
    [clause] = when
    if "every_us" in clause:
        return float(clause["every_us"] / SECOND)
    if "at_us" in clause:
        return DAY
    fields: dict[str, list[int] | None] = clause["fields"]
    if fields["minute"] or fields["hour"] or fields["weekday"]:
        return DAY
    seconds = fields["second"] or [*range(60)]
    return float(min(b - a for a, b in pairwise([*seconds, seconds[0] + 60])))
