"""What a version of a schedule says, against what was asked for."""

from typing import Any

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Line
from sexton.torture.check.said import Unclear, described, length
from sexton.torture.check.things import Schedule, Version
from sexton.torture.check.when import Rule

_LENGTHS = ("every", "grace", "jitter", "expires_in")
_LISTS = ("exclude", "only")
_LOOK = 3600 * SECOND  # of its instants so far are compared
# What replaces one of these replaces all of them.
_OF_A_RULE = ("cron", "every", "anchor", "at", "any", "rrule", "dialect")
_OF_AN_OVERLAP = ("overlap", "max_queued", "max_running")


def differs(options: Line, version: Version) -> str | None:
    """The first option that a version has otherwise than it was asked for."""
    for name, asked in options.items():
        found = version.said.get(name)
        if _meant(name, found) != _meant(name, asked):
            return f"its version {version.n} says {found!r} of {name}, not {asked!r}"
    return None


def forgets(options: Line, version: Version, before: Version) -> str | None:
    """The first option that an edit did not speak of, and changed."""
    gone = {*options}
    for group in (_OF_A_RULE, _OF_AN_OVERLAP):
        if gone & {*group}:
            gone |= {*group}
    for name in sorted({*before.said, *version.said} - gone):
        was, now = before.said.get(name), version.said.get(name)
        if _meant(name, was) != _meant(name, now):
            return f"its version {version.n} says {now!r} of {name}, which was {was!r} before"
    return None


def fires_as_told(evidence: Evidence, told: Line, schedule: Schedule, version: Version) -> bool:
    """Whether a version has the instants that were described, within its own bounds."""
    rule = evidence.rule(schedule, version)
    tenant = evidence.tenants.get(schedule.tenant, "")
    plain: Line = {"starts_us": None, "ends_us": None, "exclude": [], "only": [], "tenant": tenant}
    try:
        wanted = described({**plain, **told}, evidence.calendars(schedule, version))
    except Unclear:
        return True
    if rule is None:
        return True
    if "starts_us" not in told:
        wanted = Rule(wanted.clauses, rule.starts, rule.ends, rule.exclude, rule.only)
    until = min(version.until or evidence.world.ended, version.since + _LOOK)
    return wanted.between(version.since, until) == rule.between(version.since, until)


def _meant(name: str, value: Any) -> Any:
    """`"1m"` is `60`, and one calendar a list of one."""
    if value is not None and name in _LENGTHS:
        return length(value)
    return [value] if name in _LISTS and isinstance(value, str) else value
