"""What happened to an attempt, as values; `transitions` says what follows from each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The task returned; `result` is JSON text, `note` says why it could not be kept."""

    result: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised; `retry_in` is an exact delay that somebody asked for."""

    error: str
    permanent: bool = False
    retry_in: float | None = None


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The task asked to be tried later; not an attempt of the budget."""

    delay: float
    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Put back untried or unfinished, because its worker is leaving."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody cancelled the job while it ran."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease ran out, with its worker or without it; counts as an attempt."""

    error: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Taken over by somebody else, who is to settle it within so many seconds."""

    hold_for: float


Outcome = Succeeded | Failed | Snoozed | Released | Cancelled | Lost | Accepted
PLAIN_SUCCESS = Succeeded()
