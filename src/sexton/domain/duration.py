"""Lengths of time as people write them: 90, "90s", "1h30m", timedelta(...)."""

import math
import re
from datetime import timedelta

Duration = int | float | str | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_LONGEST = 100 * 366 * 86400.0


def seconds(value: Duration) -> float:
    """The length in seconds; never negative, never endless."""
    match value:
        case bool():
            raise ValueError(f"{value!r} is not a duration")
        case timedelta():
            length = value.total_seconds()
        case int() | float():
            length = float(value) if abs(value) <= _LONGEST else math.inf
        case str():
            length = _parse(value)
        case _:
            raise ValueError(f"{value!r} is not a duration: give seconds, '1h30m' or a timedelta")
    if not math.isfinite(length) or not 0 <= length <= _LONGEST:
        raise ValueError(f"{value!r} is not a duration between 0 and 100 years")
    return length


def _parse(text: str) -> float:
    compact = text.strip().lower().replace(" ", "")
    try:
        return float(compact)
    except ValueError:
        pass
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError(f"{text!r} is not a duration; write it like '90s', '5m' or '1h30m'")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
