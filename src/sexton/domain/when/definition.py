"""What a schedule says about when, as it is written down: data, checked; no instants yet."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, get_args
from zoneinfo import ZoneInfo

import msgspec

from sexton.domain.duration import Duration, seconds
from sexton.domain.when.calendar import CalendarRef
from sexton.domain.when.cron import Dialect, parse_cron
from sexton.domain.when.jitter import JitterKind
from sexton.domain.when.local import exists, instant_of
from sexton.domain.when.rrule import parse_rrule, rrule_lines
from sexton.domain.when.rule import LAST
from sexton.domain.when.spread import is_spread
from sexton.domain.when.zone import Dst, zone_named
from sexton.errors import InvalidSchedule, did_you_mean

WhenExcluded = Literal["skip", "next_day"]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]

SHORTEST = 0.1
MAX_CLAUSES = 100
_RULES = ("cron", "every", "at", "rrule", "any")
_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


class Clause(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One rule: exactly one of cron, every, at and rrule."""

    cron: str | None = None
    dialect: Dialect = "cron"
    every: float | None = None
    anchor: Instant | None = None
    at: Instant | None = None
    rrule: str | None = None


class Definition(Clause, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When a schedule fires. Equal ones have equal text, and share one timetable.

    The anchor of an interval is not in it unless it was given, nor is the schedule's name: a
    million schedules that fire every minute have one definition.
    """

    any: tuple[Clause, ...] = ()
    timezone: str = "UTC"
    dst: Dst = "default"
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    jitter: float = 0.0
    jitter_kind: JitterKind = "random"
    exclude: tuple[CalendarRef, ...] = ()
    only: tuple[CalendarRef, ...] = ()
    when_excluded: WhenExcluded = "skip"

    @classmethod
    def of(
        cls,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: datetime | str | None = None,
        rrule: str | None = None,
        any: Sequence[str | Mapping[str, Any]] | None = None,
        dialect: Dialect = "cron",
        anchor: datetime | str | None = None,
        timezone: str | None = None,
        dst: Dst = "default",
        starts_at: datetime | str | None = None,
        ends_at: datetime | str | None = None,
        jitter: Duration = 0,
        jitter_kind: JitterKind | None = None,
        exclude: str | CalendarRef | Sequence[str | CalendarRef] = (),
        only: str | CalendarRef | Sequence[str | CalendarRef] = (),
        when_excluded: WhenExcluded | None = None,
        name: str = "",
    ) -> "Definition":
        """Everything that a user may give, checked; `name` is the schedule's, for `H` in cron.

        Instants are aware, or ISO 8601 with an offset; without one they are walls of `timezone`,
        which must then be given. `starts_at` is still within the bounds, `ends_at` no longer.
        """
        one = {"cron": cron, "every": every, "at": at, "rrule": rrule, "anchor": anchor}
        given = [rule for rule in _RULES if (any if rule == "any" else one[rule]) is not None]
        if len(given) != 1:
            wrong = " and ".join(f"{rule}=" for rule in given) or "none"
            raise InvalidSchedule(
                f"when: give one of cron=, every=, at=, rrule= and any=, not {wrong}"
            )
        _demand("dialect", dialect, get_args(Dialect))
        _demand("dst", dst, get_args(Dst))
        listed: list[dict[str, Any]] = [{**one, "dialect": dialect}]
        if any is not None:
            listed = _listed(any, dialect, anchor)
        zone_name = _zone_name(timezone, [each.get("rrule") for each in listed])
        zone = None if zone_name is None else zone_named(zone_name)
        clauses = tuple(dict.fromkeys(_clause(each, zone, name) for each in listed))
        if dst != "default" and not {"cron", "rrule"} & {_kind(each) for each in clauses}:
            raise InvalidSchedule("dst: says something about cron= and rrule= only; leave it out")
        found = _struct(
            cls,
            any=clauses if len(clauses) > 1 else (),
            timezone=zone_name or "UTC",
            dst=dst,
            starts_at=_instant("starts_at", starts_at, zone),
            ends_at=_instant("ends_at", ends_at, zone),
            jitter=_length("jitter", jitter),
            jitter_kind=_choice("jitter_kind", jitter_kind, "random", get_args(JitterKind)),
            exclude=_references("exclude", exclude),
            only=_references("only", only),
            when_excluded=_choice("when_excluded", when_excluded, "skip", get_args(WhenExcluded)),
            **(msgspec.structs.asdict(clauses[0]) if len(clauses) == 1 else {}),
        )
        found._demand_sense(jitter_kind, when_excluded)
        return found

    def _demand_sense(self, jitter_kind: str | None, when_excluded: str | None) -> None:
        if self.starts_at and self.ends_at and self.starts_at >= self.ends_at:
            raise InvalidSchedule("ends_at: must be later than starts_at")
        if jitter_kind is not None and not self.jitter:
            raise InvalidSchedule("jitter_kind: needs jitter=, how long it may be")
        if when_excluded is not None and not (self.exclude or self.only):
            raise InvalidSchedule("when_excluded: needs exclude= or only=, the calendars")

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The rules: one, or those of a union."""
        return self.any or (self,)

    @property
    def calendars(self) -> frozenset[CalendarRef]:
        return frozenset((*self.exclude, *self.only))

    def pinned(self, versions: Mapping[str, int]) -> "Definition":
        """With the calendars in these versions, by name."""

        def pin(ref: CalendarRef) -> CalendarRef:
            if ref.name not in versions:
                hint = did_you_mean(ref.name, versions)
                raise InvalidSchedule(f"calendar {ref.name!r} does not exist{hint}")
            return CalendarRef(ref.name, versions[ref.name])

        return msgspec.structs.replace(
            self, exclude=tuple(map(pin, self.exclude)), only=tuple(map(pin, self.only))
        )

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Definition":
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidSchedule(f"when: cannot be read: {error}") from None


def _struct(cls: type[_Struct], **given: Any) -> _Struct:
    """Without what is as by default, so that it is not in the text either."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(cls)}
    return cls(**{name: value for name, value in given.items() if value != defaults[name]})


def _kind(clause: Clause) -> str:
    [kind] = [
        kind for kind in ("cron", "every", "at", "rrule") if getattr(clause, kind) is not None
    ]
    return kind


def _listed(given: Any, dialect: Dialect, anchor: Any) -> list[dict[str, Any]]:
    """The rules of a union, each as keywords; a text alone is cron."""
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
        raise InvalidSchedule("any: is a list of rules, like ['0 9 * * *', {'every': '1h'}]")
    if len(given) > MAX_CLAUSES:
        raise InvalidSchedule(f"any: has more than {MAX_CLAUSES} rules")
    known = ("cron", "dialect", "every", "anchor", "at", "rrule")
    found = []
    for each in given:
        rule = {"cron": each} if isinstance(each, str) else each
        if not isinstance(rule, Mapping):
            raise InvalidSchedule(f"any: {each!r} is not a rule like {{'cron': '0 9 * * *'}}")
        for key in rule:
            if key not in known:
                hint = did_you_mean(str(key), known)
                raise InvalidSchedule(f"any: {key!r} is not part of a rule{hint}")
        rule = {key: value for key, value in rule.items() if value is not None}
        if len({*rule} & {*_RULES}) != 1:
            raise InvalidSchedule(f"any: {each!r} needs exactly one of cron, every, at and rrule")
        _demand("dialect", rule.get("dialect", dialect), get_args(Dialect))
        found.append({"dialect": dialect, "anchor": anchor if "every" in rule else None, **rule})
    return found


def _clause(given: Mapping[str, Any], zone: ZoneInfo | None, name: str) -> Clause:
    anchor = given.get("anchor")
    if anchor is not None and given.get("every") is None:
        raise InvalidSchedule("anchor: says where the intervals of every= begin; leave it out")
    if (cron := given.get("cron")) is not None:
        parsed = parse_cron(cron, dialect=given["dialect"], name=name)
        text = str(parsed) if is_spread(cron) else " ".join(cron.split())
        return _struct(Clause, cron=text, dialect=given["dialect"])
    if given["dialect"] != "cron":
        raise InvalidSchedule("dialect: says something about cron= only; leave it out")
    if (every := given.get("every")) is not None:
        length = _length("every", every)
        if length < SHORTEST:
            raise InvalidSchedule(f"every: {every!r} is shorter than {SHORTEST} s")
        return Clause(every=length, anchor=_instant("anchor", anchor, zone))
    if (at := given.get("at")) is not None:
        return Clause(at=_instant("at", at, zone))
    rrule = given["rrule"]
    if not isinstance(rrule, str):
        raise InvalidSchedule(f"rrule: {rrule!r} is not a rule like 'FREQ=DAILY;BYHOUR=9'")
    parse_rrule(rrule)
    return Clause(rrule="\n".join(rrule_lines(rrule)))


def _zone_name(given: str | None, rrules: Sequence[Any]) -> str | None:
    """The schedule's zone: the one given, or that of a recurrence rule's lines."""
    named = {zone for text in rrules if isinstance(text, str) if (zone := parse_rrule(text).zone)}
    if given is not None:
        named.add(zone_named(given).key)
    if len(named) > 1:
        raise InvalidSchedule(
            f"timezone: one schedule is in one time zone, not in {' and '.join(sorted(named))}"
        )
    return next(iter(named), None)


def _instant(field: str, given: datetime | str | None, zone: ZoneInfo | None) -> datetime | None:
    if given is None:
        return None
    read: object = given
    if isinstance(given, str):
        with suppress(ValueError):
            read = datetime.fromisoformat(given.strip())
    if not isinstance(read, datetime):
        raise InvalidSchedule(
            f"{field}: {given!r} is not an instant; write it like 2026-03-28T12:00:00Z"
        )
    if read.tzinfo is None and zone is None:
        raise InvalidSchedule(
            f"{field}: {given} has no offset; write it like 2026-03-28T12:00:00Z, or give timezone="
        )
    try:
        if read.tzinfo is None and zone is not None:
            if not exists(read, zone):
                raise InvalidSchedule(
                    f"{field}: {given} does not exist in {zone.key}, where the clocks go forward "
                    "then"
                )
            read = instant_of(read, zone)
        read = read.astimezone(UTC)
    except OverflowError:
        read = LAST
    if not _FIRST <= read < LAST:
        raise InvalidSchedule(f"{field}: {given} is not between the years 1970 and 9000")
    return read


def _length(field: str, given: Duration) -> float:
    try:
        return seconds(given)
    except ValueError as error:
        raise InvalidSchedule(f"{field}: {error}") from None


def _references(field: str, given: Any) -> tuple[CalendarRef, ...]:
    listed = [given] if isinstance(given, str | CalendarRef) else given
    if not isinstance(listed, Sequence):
        raise InvalidSchedule(f"{field}: is a list of calendars' names, not {given!r}")
    found = [CalendarRef(each) if isinstance(each, str) else each for each in listed]
    for each in found:
        if not isinstance(each, CalendarRef) or not _is_name(each.name):
            raise InvalidSchedule(f"{field}: {each!r:.100} is not a calendar's name")
    return tuple(sorted(set(found)))


def _is_name(given: Any) -> bool:
    """A text that can be looked up, whether there is one of this name or not."""
    try:
        return isinstance(given, str) and bool(given) and b"\x00" not in given.encode()
    except UnicodeEncodeError:
        return False


def _choice(field: str, given: Any, default: Any, known: Sequence[str]) -> Any:
    if given is None:
        return default
    _demand(field, given, known)
    return given


def _demand(field: str, given: Any, known: Sequence[str]) -> None:
    if given not in known:
        hint = did_you_mean(str(given), known)
        raise InvalidSchedule(f"{field}: {given!r} is none of {', '.join(known)}{hint}")
