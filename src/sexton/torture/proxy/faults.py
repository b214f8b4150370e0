"""What a proxy can be told to do, and what it answers: plain values that travel as JSON."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Side = Literal["frontend", "backend", "both"]
Action = Literal["reset", "fin", "blackhole", "hold", "lose_reply", "count"]
How = Literal["reset", "fin"]


@dataclass(frozen=True)
class Latency:
    """Everything arrives later by `ms`, and by up to `jitter_ms` more, in order."""

    ms: float
    jitter_ms: float = 0.0
    up: bool = True
    down: bool = True


@dataclass(frozen=True)
class Blackhole:
    """Nothing arrives, nothing closes; when it is lifted, what was on its way arrives after all.

    As with packets that are sent again: cut the connections first if it never shall. The proxy's
    kernel still accepts new connections; behind them is the same silence.
    """

    up: bool = True
    down: bool = True


@dataclass(frozen=True)
class Refuse:
    """New connections are reset; those there are go on."""


@dataclass(frozen=True)
class HalfOpen:
    """Nobody is told that the other side has gone, ever; what is sent there disappears."""


@dataclass(frozen=True)
class LoseReply:
    """What ends a transaction is carried out, its answer is lost, and the connection is reset.

    Only on connections that have finished their start-up; `share` of such answers, by chance.
    """

    share: float = 1.0


Fault = Latency | Blackhole | Refuse | HalfOpen | LoseReply
KINDS: dict[str, type[Fault]] = {
    "latency": Latency,
    "blackhole": Blackhole,
    "refuse": Refuse,
    "half_open": HalfOpen,
    "lose_reply": LoseReply,
}


@dataclass(frozen=True)
class Trip:
    """Once, at the `at`-th message from now that matches, or at the one that has this `place`.

    `hold` stops every connection of this proxy at that message and reports it: kill the process,
    and what was held is forgotten; then `release`, for the next one. `lose_reply` lets everything
    through to the server, withholds the answer from this message on until the server is ready
    again, and resets. `blackhole` lasts until `set(name, None)`. `count` only counts.
    """

    at: int
    do: Action
    side: Side = "both"
    when: Literal["before", "after"] = "before"
    types: str = ""  # by their letters; "!" is the start-up packet, "#" a cancel request
    # Only from connections on which, since this was armed, a statement was sent with one of these
    # in its first words (see `shortened`); of those everything from then on.
    about: tuple[str, ...] = ()
    ready: bool = False  # only from connections that have finished their start-up
    scope: Literal["link", "all"] = "link"  # what is hit: this connection, or also all others
    log: bool = False  # keep a line for each message that matched; * is of a statement in `about`
    # As in `places` of the tally: a message by what it belongs to, wherever others come in between.
    place: str = ""

    def __post_init__(self) -> None:
        if self.place and not self.about:
            raise ValueError("a place is one among the messages of a trip that is about something")


@dataclass(frozen=True)
class Tripped:
    """The message at which a trip went off."""

    side: str
    type: str
    at: int
    link: int  # which connection, counted from 1 since the proxy was opened
    text: str


@dataclass(frozen=True)
class Tally:
    """What went through: since the last `arm`, or since the proxy was opened."""

    connections: int  # accepted
    open: int  # at this moment
    frontend: int  # messages from the process
    backend: int  # messages from the server
    bytes_up: int
    bytes_down: int
    matched: int  # of the trip that is or was armed
    log: tuple[str, ...] = ()
    # Of a trip that is about something: "statement/Bind 2/DataRow 3" and the connection, of each.
    places: tuple[str, ...] = ()
    links: tuple[int, ...] = ()


def to_json(fault: Fault | None) -> dict[str, Any] | None:
    if fault is None:
        return None
    kind = next(name for name, each in KINDS.items() if isinstance(fault, each))
    return {"kind": kind, **asdict(fault)}


def fault_from(given: dict[str, Any] | None) -> Fault | None:
    if given is None:
        return None
    values = dict(given)
    return KINDS[values.pop("kind")](**values)


def trip_from(given: dict[str, Any]) -> Trip:
    values = {field.name: given[field.name] for field in fields(Trip) if field.name in given}
    return Trip(**{**values, "about": tuple(values.get("about", ()))})
