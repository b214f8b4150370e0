"""What somebody wants to be scheduled: a name, a task with its arguments, and the terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from sexton.domain.duration import seconds
from sexton.domain.job import PRIORITIES
from sexton.domain.policy import Policy
from sexton.domain.schedule import RuleText
from sexton.domain.when.calendar import CalendarRef
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
MAX_FIRES = 2**31 - 1


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
        for each in options:
            if each not in OPTIONS:
                raise InvalidSchedule(f"no option {each!r}{did_you_mean(each, OPTIONS)}")
        try:
            key = tuple([_hashable(item) for item in options.items()])
            hash(key)
        except TypeError:
            return _terms(name, options)
        if _is_spread(options):
            return _terms(name, options)
        return _shared_terms(key)

    @property
    def options(self) -> dict[str, Any]:
        """As they were given."""
        found: dict[str, Any] = msgspec.json.decode(self.said)
        return found


@dataclass(frozen=True, slots=True)
class Spec:
    """A schedule to be; every part already checked."""

    name: str
    task: str
    payload: str
    terms: Terms


def merged(said: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What holds after a change: another rule replaces the one before, None takes an option back."""
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


def checked_name(name: Any, what: str = "name") -> str:
    """A name that PostgreSQL can keep and index."""
    if not isinstance(name, str) or not name:
        raise InvalidSchedule(f"{what}: must be a string that is not empty, not {name!r}")
    if "\x00" in name:
        raise InvalidSchedule(f"{what}: holds a NUL character, which PostgreSQL cannot keep")
    if len(name) > LONGEST_NAME or not name.isascii():
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            raise InvalidSchedule(f"{what}: holds half a character: {name!r:.100}") from None
        if size > LONGEST_NAME:
            raise InvalidSchedule(f"{what}: is {size} bytes long; at most {LONGEST_NAME} are allowed")
    return name


@lru_cache(maxsize=4096)
def _shared_terms(key: tuple[tuple[str, type, Any], ...]) -> Terms:
    return _terms("", {name: value for name, _, value in key})


def _terms(name: str, options: Mapping[str, Any]) -> Terms:
    given = {each: value for each, value in options.items() if value is not None}
    try:
        when = Definition.of(
            name=name, **{each: value for each, value in given.items() if each in WHEN}
        )
        policy = Policy.of(**{each: value for each, value in given.items() if each in POLICY})
    except TypeError as error:  # of a kind that no check expects
        raise InvalidSchedule(f"when: {error}") from None
    said = {each: _written(value) for each, value in given.items()}
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


def _is_spread(options: Mapping[str, Any]) -> bool:
    """Whether the name of the schedule matters, so that others cannot share its terms."""
    rules: list[Any] = [options.get("cron"), *(options.get("any") or ())]
    texts = [each.get("cron") if isinstance(each, Mapping) else each for each in rules]
    return any(isinstance(text, str) and is_spread(text) for text in texts)


def _hashable(item: tuple[str, Any]) -> tuple[str, type, Any]:
    """1, 1.0 and True are equal, but not the same thing to say."""
    name, value = item
    if type(value) is list:
        value = tuple(value)
    return name, type(value), value


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
