"""What is known about one fire, and in one word what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sexton.domain.audit import PATIENCE
from sexton.domain.change import VersionView
from sexton.domain.job import JobView
from sexton.domain.moment import Moment, Spoken
from sexton.domain.schedule import Decided, FireKind

# A decision of the ledger, or why there is none.
Verdict = (
    Decided
    | Literal[
        "not_yet",
        "pending",
        "missing",
        "not_scheduled",
        "not_created",
        "cancelled",
        "ended",
        "quarantined",
        "not_kept",
        "unknown",
    ]
)
_PATIENCE = timedelta(microseconds=PATIENCE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A fire as the ledger has it."""

    fire_at: datetime
    scheduled_at: datetime
    decided_at: datetime
    decision: Decided
    kind: FireKind
    job: int | None
    term: int | None
    node: int | None
    node_name: str | None


@dataclass(frozen=True, slots=True)
class Passage:
    """Fires that were passed over together, as the ledger has them."""

    first_at: datetime
    last_at: datetime
    decided_at: datetime
    fires: int | None
    decision: Decided
    term: int | None
    node: int | None
    node_name: str | None


@dataclass(frozen=True, slots=True)
class Lived:
    """A job of an earlier fire that lived when this one was decided; None: it still does."""

    job: int
    fire_at: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that is known about one fire."""

    now: datetime
    kept_from: datetime
    next_fire_at: datetime | None
    late: bool
    paused_until: datetime | None
    version: Spoken | None
    following: VersionView | None  # the version after it
    moment: Moment | None
    entry: Entry | None = None
    passage: Passage | None = None
    job: JobView | None = None
    lived: Sequence[Lived] = ()
    instead: Entry | None = None  # the fire that stands for it
    led: bool = True  # somebody is there to catch up what is late
    taken_out: Sequence[str] = ()


def verdict(facts: Facts) -> Verdict:
    """One word; what the ledger says comes first."""
    if facts.entry is not None:
        return facts.entry.decision
    version, moment = facts.version, facts.moment
    if facts.passage is not None and not (moment and moment.excluded):
        broke = version is not None and version.view.ended_by == "quarantine"
        missed = facts.passage.decision == "missed" and facts.passage.fires is None
        return "quarantined" if broke and missed else facts.passage.decision
    if version is None:
        return "not_created"
    if isinstance(version.rule, str):
        return "unknown"
    if moment is None:
        return "not_scheduled"
    if moment.excluded:
        return "excluded"
    match version.view.state:
        case "paused" | "cancelled" | "quarantined" | "ended":
            return version.view.state
        case "active":
            return _of_active(facts, version.view, moment)


def _of_active(facts: Facts, version: VersionView, moment: Moment) -> Verdict:
    if version.ended_by == "quarantine":
        return "quarantined"
    if version.until is not None and moment.fire_at > version.until:
        return "superseded"
    if moment.fire_at > facts.now:
        return "not_yet"
    stands = facts.next_fire_at
    if stands is not None and stands <= moment.fire_at:
        coming = (facts.late and facts.led) or facts.now - stands < _PATIENCE
        return "pending" if coming else "missing"
    return "not_kept" if moment.fire_at < facts.kept_from else "missing"
