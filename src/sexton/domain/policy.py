"""What happens when a fire is found late, or while the job before it still lives."""

from typing import Any, Literal, get_args

import msgspec

from sexton.domain.duration import Duration, seconds
from sexton.errors import InvalidSchedule, did_you_mean

Misfire = Literal["latest", "skip", "all"]
Overlap = Literal["skip", "queue_one", "queue_all", "allow", "replace"]

MAX_LIVE = 1000
_NO_LIMIT = 2**31 - 1
_GRACE = 3600.0


class Policy(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """How a schedule deals with misfires and overlaps.

    misfire  latest: one fire for the whole gap · skip: none · all: each of them, in order;
             always within `grace`, what is older is passed over and recorded as missed
    overlap  skip: not while a job of this schedule lives · queue_one: one may wait for it ·
             queue_all: up to `max_queued` may wait · allow: up to `max_running` live at once ·
             replace: cancel the one that lives, and run when it has ended
    """

    misfire: Misfire = "latest"
    grace: float = _GRACE
    overlap: Overlap = "skip"
    max_queued: int = 100
    max_running: int | None = None

    @classmethod
    def of(
        cls,
        *,
        misfire: str = "latest",
        grace: Duration = _GRACE,
        overlap: str = "skip",
        max_queued: int | None = None,
        max_running: int | None = None,
    ) -> "Policy":
        """Everything that a user may give, checked."""
        _one_of("misfire", misfire, get_args(Misfire))
        _one_of("overlap", overlap, get_args(Overlap))
        _count("max_queued", max_queued, overlap, "queue_all")
        _count("max_running", max_running, overlap, "allow")
        try:
            patience = seconds(grace)
        except ValueError as error:
            raise InvalidSchedule(f"grace: {error}") from None
        given: dict[str, Any] = {"misfire": misfire, "grace": patience, "overlap": overlap}
        given |= {"max_queued": max_queued, "max_running": max_running}
        # What is equal to the usual but not the very same object would be in the text all the same.
        return cls(
            **{
                name: value
                for name, value in given.items()
                if value is not None and value != _USUAL[name]
            }
        )

    @property
    def live_limit(self) -> int | None:
        """A fire makes a job only if fewer than so many of the schedule live; None: always."""
        match self.overlap:
            case "skip":
                return 1
            case "queue_one":
                return 2
            case "queue_all":
                return 1 + self.max_queued
            case "allow":
                return self.max_running
            case "replace":
                return _NO_LIMIT

    @property
    def serial(self) -> bool:
        """Whether a job waits until those before it have ended."""
        return self.overlap in ("queue_one", "queue_all", "replace")


_USUAL: dict[str, Any] = {field.name: field.default for field in msgspec.structs.fields(Policy)}


def _one_of(field: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        hint = did_you_mean(str(given), known)
        raise InvalidSchedule(f"{field}: {given!r} is none of {', '.join(known)}{hint}")


def _count(field: str, given: Any, overlap: str, needed: str) -> None:
    if given is None:
        return
    if overlap != needed:
        raise InvalidSchedule(f"{field}: says something about overlap={needed!r} only")
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_LIVE:
        raise InvalidSchedule(f"{field}: {given!r} is not a number from 1 to {MAX_LIVE}")
