"""What goes wrong in a simulated world: the network's climate, blows at instants, and traps."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import choice, random, sample
from typing import Literal

from sexton.torture.simulate.kernel import Climate

Kind = Literal["kill", "stop", "suspend", "cut", "deafen", "leave", "jump", "restart", "stall"]
# Some twice: a process that goes on with an old view of the world is the hardest to bear.
KINDS: tuple[Kind, ...] = (
    *("kill", "stop", "stop", "suspend", "cut", "deafen", "leave", "jump", "restart", "stall"),
)
OF_THE_SERVER = ("restart", "stall")
OF_A_PROCESS: tuple[Kind, ...] = ("kill", "stop", "stop", "suspend", "cut", "deafen")
LEADER = "leader"  # whoever it is then
# Seconds: less than a lease, a little more than one, or so long that everything else has gone on.
LENGTHS = (0.2, 1.5, 3.5, 3.5, 4.5, 9.0)
# Statements with which something changes hands: there a trap is laid.
CRITICAL = (
    *("elect", "elect", "assign", "assign", "roster", "heartbeat", "fire", "late"),
    *("catch_up", "catch_up", "claim", "renew", "settle", "settle_succeeded"),
    *("settle_succeeded", "lose_workers", "orphans"),
)


@dataclass(frozen=True, slots=True)
class Blow:
    """One fault, at one instant."""

    at: float
    kind: Kind
    target: str  # a process, whoever leads, or the server
    seconds: float


@dataclass(frozen=True, slots=True)
class Trap:
    """A fault for whoever sends a certain statement for the n-th time; which then arrives late."""

    statement: str
    nth: int
    kind: Kind
    seconds: float
    late: float


def climate() -> Climate:
    """Calm, or some of everything; many seeds have only one kind, so that it shows."""
    made = Climate(quick=choice((0.4, 0.7, 0.9)), hears=choice((0.0, 0.7, 1.0)), toil=6.0)
    for kind in sample(("lost", "unanswered", "slow"), choice((0, 1, 1, 2, 3))):
        setattr(made, kind, choice((0.05, 0.15, 0.3)))
    return made


def blows(names: Sequence[str], first: float, last: float) -> list[Blow]:
    """A handful of some kinds, in the order of time; often they all hit the same few."""
    kinds = sample(KINDS, choice((1, 2, 3, 5)))
    theme = choice(("node", "worker", LEADER, ""))
    targets = [LEADER] if theme == LEADER else [name for name in names if name.startswith(theme)]
    planned = []
    for _ in range(choice((1, 2, 3, 4, 6))):
        kind = choice(kinds)
        target = "server" if kind in OF_THE_SERVER else choice(targets)
        planned.append(Blow(first + (last - first) * random(), kind, target, _seconds()))
    return sorted(planned, key=lambda blow: blow.at)


def traps() -> list[Trap]:
    return [_trap() for _ in range(choice((0, 1, 1, 2)))]


def _trap() -> Trap:
    kind = choice(OF_A_PROCESS)
    late = choice((0.0, 3.5, 5.0)) * (0.8 + 0.4 * random())
    return Trap(choice(CRITICAL), choice((1, 1, 2, 3)), kind, _seconds(), late)


def _seconds() -> float:
    return choice(LENGTHS) * (0.8 + 0.4 * random())
