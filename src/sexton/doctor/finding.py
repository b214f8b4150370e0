"""What a check found."""

from dataclasses import dataclass
from typing import Literal

from sexton.store import Store
from sexton.store.migrations import SchemaState

# unknown: it may not look, or looking took too long.
Level = Literal["ok", "warning", "problem", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of what there is, and one of what to do, unless all is well."""

    check: str
    level: Level
    what: str
    do: str = ""


def ok(check: str, what: str) -> Finding:
    return Finding(check, "ok", what)


def warning(check: str, what: str, do: str) -> Finding:
    return Finding(check, "warning", what, do)


def problem(check: str, what: str, do: str) -> Finding:
    return Finding(check, "problem", what, do)


def unknown(check: str, what: str, do: str) -> Finding:
    return Finding(check, "unknown", what, do)


@dataclass(frozen=True, slots=True)
class Patient:
    """What the checks look at."""

    store: Store
    schema: SchemaState
    skew: float  # this host's clock minus the database's


def judged(value: float, warning: float, problem: float) -> Level:
    """By how much it is."""
    if value >= problem:
        return "problem"
    return "warning" if value >= warning else "ok"


def lasted(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def counted(many: int, one: str, more: str) -> str:
    """`1 node lives`, `2 nodes live`."""
    return f"{many:,} {one if many == 1 else more}"


def listed(names: list[str], most: int = 5) -> str:
    """The first few of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
