"""What an operator hands in, checked at the door: each error names its field and what to give."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sexton.domain.duration import Duration, seconds
from sexton.errors import ConfigurationError, UnknownJob

LARGEST_ID = 2**63 - 1
MOST = 2**31 - 1


def checked_id(id: Any) -> int:
    """A job's id; what cannot be one is the id of no job."""
    if isinstance(id, bool) or not isinstance(id, int) or not 0 < id <= LARGEST_ID:
        hint = ": unpack it, like cancel(*ids)" if isinstance(id, list | tuple | set) else ""
        raise UnknownJob(f"{id!r:.100} is not a job's id, which is a whole number{hint}")
    return id


def checked_ids(ids: Iterable[Any]) -> list[int]:
    """Each once, and in order: whoever locks several locks them alike."""
    return sorted({checked_id(id) for id in ids})


def checked_limit(limit: Any) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise ConfigurationError(f"limit is {limit!r}; it must be a whole number, at least 1")
    return limit


def checked_text(given: Any, field: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise ConfigurationError(f"{field} is {given!r:.100}; it must be a string")
    try:
        if given is not None and "\x00" in given.encode().decode():
            raise ConfigurationError(f"{field} is {given!r:.100}: PostgreSQL knows no NUL")
    except UnicodeError:
        raise ConfigurationError(f"{field} is {given!r:.100}: that is not Unicode") from None
    return given


def checked_instant(given: Any, field: str) -> datetime | None:
    if given is None:
        return None
    if not isinstance(given, datetime):
        raise ConfigurationError(f"{field} is {given!r:.100}; it must be a datetime")
    if given.tzinfo is None:
        raise ConfigurationError(
            f"{field} is {given} without a time zone: give one, like datetime.now(UTC)"
        )
    return given


def checked_length(given: Duration, field: str) -> float:
    try:
        return seconds(given)
    except ValueError as error:
        raise ConfigurationError(f"{field}: {error}") from None
