"""What somebody wants to be scheduled: a name, a task with its arguments, and the terms."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from sexton.domain.duration import seconds
from sexton.domain.job import PRIORITIES
from sexton.domain.policy import Policy
from sexton.domain.schedule import RuleText
from sexton.domain.when.calendar import CalendarRef
from sexton.domain.when.cron import parse_cron
from sexton.domain.when.definition import Clause, Definition
from sexton.domain.when.spread import is_spread
from sexton.errors import InvalidSchedule, did_you_mean

RULES = ("cron", "every", "at", "rrule", "any")
WHEN = (
    *RULES,
    *("dialect", "anchor", "timezone", "dst", "starts_at", "ends_at", "jitter", "jitter_kind"),
    *("exclude", "only", "when_excluded"),
)
POLICY = ("misfire", "grace", "overlap", "max_queued", "max_running")
JOB = ("queue", "priority", "tags", "expires_in", "max_fires")
OPTIONS = (*WHEN, *POLICY, *JOB)
# What says something about one kind of rule, and goes when the rule does.
_OF_A_RULE = (*RULES, "dialect", "anchor", "dst")
LONGEST_NAME = 200
LONGEST_REASON = 2000
MOST = MAX_FIRES = 2**31 - 1
_FIRST_YEAR, _LAST_YEAR = 1970, 8999


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """When, under which policies and as which jobs; shared by every schedule that says the same."""

    when: Definition
    policy: Policy
    queue: str | None
    priority: int | None
    tags: tuple[str, ...] | None
    expires_in: float | None
    max_fires: int | None
    said: str
    text: str  # of the rule, with its calendars not looked up yet

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any]) -> "Terms":
        """Everything that a user may give, checked; computed once for equal options."""
        key = (*options.items(), *_spread(name, options))
        if any(isinstance(value, datetime) for value in options.values()):
            # Equal ones may be an hour apart: of a reading that comes twice, each time is equal.
            key = tuple([(each, _told_apart(value)) for each, value in key])
        try:
            known = _shared.get(key)
        except TypeError:
            key = tuple([(each, _hashable(value)) for each, value in key])
            try:
                known = _shared.get(key)
            except TypeError:  # rules of a union, for example
                return _terms(name, options)
        # 1, 1.0 and True are equal, but not the same thing to say.
        if known is not None and known[0] == [*map(type, options.values())]:
            return known[1]
        found = _terms(name, options)
        if "any" not in options:
            if len(_shared) >= _KEPT:
                _shared.clear()
            _shared[key] = [*map(type, options.values())], found
        return found

    @property
    def options(self) -> dict[str, Any]:
        """As they were given."""
        found: dict[str, Any] = msgspec.json.decode(self.said)
        return found


class Spec(msgspec.Struct, frozen=True, gc=False):
    """A schedule to be; every part already checked."""

    name: str
    task: str
    payload: str
    terms: Terms


class Registered(msgspec.Struct, frozen=True, gc=False):
    """The answer for one of many; one that existed was left as it is."""

    id: int
    existed: bool = False


_KEPT = 4096
_shared: dict[tuple[tuple[str, Any], ...], tuple[list[type], Terms]] = {}


def merged(said: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What holds after a change: a rule replaces the one before, None takes an option back."""
    _demand_known(changes)
    kept = dict(said)
    if any(changes.get(rule) is not None for rule in RULES):
        kept = {name: value for name, value in kept.items() if name not in _OF_A_RULE}
    if "overlap" in changes:
        kept.pop("max_queued", None)
        kept.pop("max_running", None)
    return {name: value for name, value in (kept | dict(changes)).items() if value is not None}


def same_grid(one: Definition, other: Definition) -> bool:
    """Whether what is counted from an anchor is the same, so that the anchor may stay."""

    def counted(clause: Clause) -> tuple[float | None, str | None, datetime | None]:
        return clause.every, clause.rrule, clause.anchor

    return [*map(counted, one.clauses)] == [*map(counted, other.clauses)]


def checked_name(name: Any, what: str = "name", longest: int = LONGEST_NAME) -> str:
    """A text that PostgreSQL can keep, and a name also index."""
    if not isinstance(name, str) or not name:
        raise InvalidSchedule(f"{what}: must be a string that is not empty, not {name!r}")
    if "\x00" in name:
        raise InvalidSchedule(f"{what}: holds a NUL character, which PostgreSQL cannot keep")
    if len(name) > longest or not name.isascii():
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise InvalidSchedule(f"{what}: holds half a character: {name!r:.100}") from None
        if size > longest:
            raise InvalidSchedule(f"{what}: is {size} bytes long; at most {longest} are allowed")
    return name


def checked_search(given: Any, field: str) -> str | None:
    """Something to look for: any text that PostgreSQL can compare, or nothing."""
    return given if given is None or given == "" else checked_name(given, field, LONGEST_REASON)


def checked_count(given: Any, field: str, most: int = MOST) -> int:
    """How many are wanted."""
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
        raise InvalidSchedule(f"{field}: {given!r:.100} is not a whole number from 1 to {most:,}")
    return given


def checked_instant(given: Any, field: str) -> datetime:
    """An instant that everybody understands alike."""
    read = given
    if isinstance(given, str):
        with suppress(ValueError):
            read = datetime.fromisoformat(given.strip())
    if not isinstance(read, datetime) or read.tzinfo is None:
        raise InvalidSchedule(
            f"{field}: {given!r} is not an instant with an offset; write 2026-03-28T12:00:00Z"
        )
    if not _FIRST_YEAR <= read.year <= _LAST_YEAR:
        raise InvalidSchedule(
            f"{field}: {given} is not between the years {_FIRST_YEAR} and {_LAST_YEAR}"
        )
    return read.astimezone(UTC)


def _terms(name: str, options: Mapping[str, Any]) -> Terms:
    _demand_known(options)
    given = {each: value for each, value in options.items() if value is not None}
    try:
        when = Definition.of(
            name=name, **{each: value for each, value in given.items() if each in WHEN}
        )
        policy = Policy.of(**{each: value for each, value in given.items() if each in POLICY})
    except (TypeError, OverflowError) as error:  # of a kind that no check expects
        raise InvalidSchedule(f"when: {error}") from None
    zone = ZoneInfo(when.timezone)
    said = {each: _written(_second_time(value, zone)) for each, value in given.items()}
    try:
        text = msgspec.json.encode(said).decode()
    except (TypeError, UnicodeError) as error:
        raise InvalidSchedule(f"this cannot be written down: {error}") from None
    return Terms(
        when,
        policy,
        _one(given, "queue", checked_name),
        _one(given, "priority", _priority),
        _one(given, "tags", _tags),
        _one(given, "expires_in", _expires_in),
        _one(given, "max_fires", _max_fires),
        text,
        RuleText(when, policy).to_json(),
    )


def _demand_known(options: Iterable[str]) -> None:
    for each in options:
        if each not in OPTIONS:
            raise InvalidSchedule(f"no option {each!r}{did_you_mean(each, OPTIONS)}")


def _one(given: Mapping[str, Any], field: str, check: Callable[[Any, str], Any]) -> Any:
    value = given.get(field)
    return None if value is None else check(value, field)


def _priority(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in PRIORITIES:
        raise InvalidSchedule(
            f"{field}: must be a whole number from {PRIORITIES[0]} to {PRIORITIES[-1]}, "
            f"the larger the sooner, not {value!r}"
        )
    return value


def _tags(value: Any, field: str) -> tuple[str, ...] | None:
    if not isinstance(value, list | tuple | set | frozenset):
        raise InvalidSchedule(f"{field}: must be a list of strings, not {value!r}")
    return tuple(checked_name(tag, "tag") for tag in value) or None


def _expires_in(value: Any, field: str) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise InvalidSchedule(f"{field}: {error}") from None


def _max_fires(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_FIRES:
        raise InvalidSchedule(f"{field}: {value!r} is not a whole number of at least 1")
    return value


def _spread(name: str, options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What the name makes of an expression with H; those of others that get the same are equal."""
    cron = options.get("cron")
    if not isinstance(cron, str) or not is_spread(cron):
        return ()
    parsed = parse_cron(cron, dialect=options.get("dialect") or "cron", name=name)
    return (("spread", str(parsed)),)


def _told_apart(value: Any) -> Any:
    return (value.isoformat(), value.fold) if isinstance(value, datetime) else value


def _second_time(value: Any, zone: ZoneInfo) -> Any:
    """With its offset if it is a local time that comes twice, and the second one is meant."""
    second = isinstance(value, datetime) and value.tzinfo is None and value.fold
    return value.replace(tzinfo=zone) if second else value


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _written(value: Any) -> Any:
    """As JSON, such that reading it again means the same."""
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.isoformat()
        case CalendarRef():
            return value.name
        case Mapping():
            return {str(key): _written(each) for key, each in value.items()}
        case list() | tuple():
            return [_written(each) for each in value]
        case set() | frozenset():
            return sorted(_written(each) for each in value)
    return value
