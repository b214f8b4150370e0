"""What will go wrong, to whom, when and for how long: all of it from one seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

# Nothing happens before that: the cluster has just come together.
WARM_UP = 3.0
# Clocks: wrong by minutes, and by hours.
OFFSETS = (-7200.0, -600.0, -90.0, -5.0, 5.0, 90.0, 600.0, 7200.0, 86400.0)
LEASES = (0.5, 1.5, 10.0)


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault: `for_s` seconds from `at_s` on; 0 is a moment."""

    n: int
    at_s: float
    fault: str
    target: str
    for_s: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Field:
    """Who can be hurt, and by what."""

    nodes: Sequence[str]
    workers: Sequence[str]
    apis: Sequence[str]
    remote: Sequence[str] = ()  # workers without a database
    clients: Sequence[str] = ()
    ways: Sequence[str] = ()  # on which somebody speaks HTTP
    lease: float = 3.0
    node_lease: float = 1.5
    remote_lease: float = 5.0
    # Whether the server is ours to stop and to fill; an operator's scratch server is not.
    server: bool = True

    @property
    def everyone(self) -> Sequence[str]:
        return (*self.nodes, *self.workers, *self.apis)


@dataclass(frozen=True, slots=True)
class Sketch:
    """A fault before it has a time and a number."""

    fault: str
    target: str
    for_s: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)


Draw = Callable[[Random, Field], Sketch]


def _victim(random: Random, about: Field) -> str:
    """The leader more often than a single node would be."""
    if random.random() < 0.15:
        return "leader"
    return random.choice(about.everyone)


def _kill(random: Random, about: Field) -> Sketch:
    return Sketch("kill", _victim(random, about), random.uniform(0.2, 4.0))


def _stop(random: Random, about: Field) -> Sketch:
    target = _victim(random, about)
    lease = about.lease if target in about.workers else about.node_lease
    leases = random.choices(LEASES, (3, 4, 1))[0]
    return Sketch("stop", target, lease * leases, {"leases": leases})


def _overtake(random: Random, about: Field) -> Sketch:
    """Who comes back after a lease and a half finds others at what it was about to finish."""
    target = random.choice((*about.workers, *about.workers, *about.nodes))
    lease = about.lease if target in about.workers else about.node_lease
    return Sketch("stop", target, 1.5 * lease, {"leases": 1.5})


def _far(random: Random, about: Field) -> Sketch:
    """Of those who have only a URL, as of other workers; where there are none, of these."""
    if not about.remote:
        return _overtake(random, about)
    target = random.choice(about.remote)
    leases = random.choices((0.0, *LEASES), (3, 3, 6, 1))[0]
    if not leases:
        return Sketch("kill", target, random.uniform(0.2, 4.0))
    return Sketch("stop", target, leases * about.remote_lease, {"leases": leases})


def _rolling(random: Random, about: Field) -> Sketch:
    kind = random.choice(("nodes", "workers", "apis"))
    return Sketch("rolling", kind)


def _clock(random: Random, about: Field) -> Sketch:
    target = random.choice((*about.nodes, *about.workers))
    return Sketch("clock", target, detail={"offset": random.choice(OFFSETS)})


def _network(random: Random, about: Field) -> Sketch:
    target = random.choice((*about.everyone, *about.clients, *about.ways))
    kind = random.choice(("latency", "blackhole", "half_open", "refuse", "reset"))
    match kind:
        case "latency":
            slow = {"ms": random.choice((5, 50, 300)), "jitter_ms": random.choice((0, 100))}
            return Sketch(kind, target, random.uniform(2, 10), slow)
        case "blackhole":
            ways = random.choice(((True, True), (True, False), (False, True)))
            silent = {"up": ways[0], "down": ways[1]}
            return Sketch(kind, target, random.uniform(1, 8), silent)
        case "half_open" | "refuse":
            return Sketch(kind, target, random.uniform(1, 6))
        case _:
            return Sketch("reset", target)


def _message(random: Random, about: Field) -> Sketch:
    """At the k-th message from now on: cut, or the answer to a commit lost."""
    target = random.choice((*about.everyone, *about.clients))
    how = random.choice(("reset", "blackhole", "lose_reply", "lose_reply"))
    return Sketch(
        "message",
        target,
        random.uniform(2, 5),
        {"how": how, "k": random.randint(1, 60), "side": random.choice(("up", "down"))},
    )


def _server(random: Random, about: Field) -> Sketch:
    fault = random.choices(
        ("restart", "immediate", "kill9", "promote", "terminate"), (2, 2, 2, 3, 4)
    )[0]
    match fault:
        case "terminate":
            return Sketch(fault, "postgres", detail={"share": random.choice((0.2, 0.5, 1.0))})
        case "promote":
            return Sketch(fault, "postgres")
        case _:
            return Sketch(fault, "postgres", random.choice((0.0, 0.5, 3.0)))


def _host(random: Random, about: Field) -> Sketch:
    fault = random.choice(("hog", "connections"))
    if fault == "hog":
        return Sketch(fault, "host", random.uniform(2, 6), {"processes": random.randint(1, 3)})
    return Sketch(fault, "postgres", random.uniform(1, 5))


def _outage(random: Random, about: Field) -> Sketch:
    """Nobody fires, or nobody does anything, for longer than some graces."""
    whom = random.choice(("nodes", "everyone"))
    return Sketch("outage", whom, random.uniform(8, 25))


# Each lane has one fault at a time, drawn from its deck, after a pause of so many seconds on
# average; lanes know nothing of each other, so faults compose.
_LANES: Sequence[tuple[float, Sequence[tuple[int, Draw]]]] = (
    (6.0, ((5, _kill), (4, _stop), (1, _clock))),
    (9.0, ((3, _kill), (4, _stop), (2, _clock))),
    (6.0, ((1, _network),)),
    (9.0, ((1, _network), (2, _message))),
    (22.0, ((1, _server),)),
    (40.0, ((1, _host),)),
    (75.0, ((1, _rolling),)),
    (240.0, ((1, _outage),)),
    (12.0, ((1, _overtake),)),
    (15.0, ((1, _far),)),
)
_NEEDS_SERVER = {"restart", "immediate", "kill9", "promote", "connections"}


def plan(seed: int, seconds: float, about: Field, *, intensity: float = 1.0) -> list[Planned]:
    """The faults of a run, in order; the same for the same seed and the same cluster."""
    if not intensity:
        return []
    drawn: list[tuple[float, Sketch]] = []
    for number, (pause, deck) in enumerate(_LANES):
        random = Random(f"{seed}/{number}")
        drawn += _lane(random, pause / intensity, deck, seconds, about)
    drawn.sort(key=lambda each: each[0])
    return [
        Planned(n, round(at, 3), sketch.fault, sketch.target, round(sketch.for_s, 3), sketch.detail)
        for n, (at, sketch) in enumerate(drawn, 1)
    ]


def _lane(
    random: Random,
    pause: float,
    deck: Sequence[tuple[int, Draw]],
    seconds: float,
    about: Field,
) -> Iterator[tuple[float, Sketch]]:
    weights, draws = zip(*deck, strict=True)
    at = WARM_UP + random.uniform(0, min(pause, seconds / 3))
    while at < seconds:
        sketch = random.choices(draws, weights)[0](random, about)
        if about.server or sketch.fault not in _NEEDS_SERVER:
            yield at, sketch
        at += sketch.for_s + random.expovariate(1 / pause)
