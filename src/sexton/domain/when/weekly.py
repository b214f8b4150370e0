"""Weekly windows as people write them: mon-fri 09:00-17:00, sat,sun, 22:00-06:00."""

import re
from collections.abc import Iterator

from sexton.domain.when.mask import Window
from sexton.errors import InvalidSchedule, did_you_mean

_DAY = 86400
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TIME = re.compile(r"(\d\d?):(\d\d)(?::(\d\d))?")


def window_text(given: str) -> str:
    """Checked, and with its blanks and capitals in order."""
    if not isinstance(given, str) or not given.strip():
        raise InvalidSchedule(
            f"calendar: windows: {given!r} is not like 'mon-fri 09:00-17:00', 'sat' or "
            "'22:00-06:00'"
        )
    text = re.sub(r"\s*([,-])\s*", r"\1", " ".join(given.lower().split()))
    list(windows_of(text))
    return text


def windows_of(text: str) -> Iterator[tuple[int, Window]]:
    """Every weekday of a window with its seconds; one over midnight goes on the next day."""
    days, _, times = text.partition(" ")
    if ":" in days:
        days, times = "mon-sun", text
    windows = [_times(text, each) for each in times.split(",")] if times else [(0, _DAY)]
    for weekday in _weekdays(text, days):
        for begin, end in windows:
            if begin < end:
                yield weekday, (begin, end)
                continue
            yield weekday, (begin, _DAY)
            if end:
                yield (weekday + 1) % 7, (0, end)


def _weekdays(text: str, days: str) -> set[int]:
    found = set()
    for item in days.split(","):
        first, dash, last = item.partition("-")
        begin, end = _weekday(text, first), _weekday(text, last if dash else first)
        found |= {each % 7 for each in range(begin, end + 1 + (7 if end < begin else 0))}
    return found


def _weekday(text: str, name: str) -> int:
    for number, weekday in enumerate(_WEEKDAYS):
        if len(name) >= 3 and weekday.startswith(name):
            return number
    hint = did_you_mean(name, _WEEKDAYS)
    raise InvalidSchedule(f"calendar: windows: {text!r}: {name!r} is not a weekday{hint}")


def _times(text: str, times: str) -> Window:
    first, dash, last = times.partition("-")
    if not dash:
        raise InvalidSchedule(
            f"calendar: windows: {text!r}: {times!r} has no end; write 09:00-17:00"
        )
    begin, end = _second(text, first), _second(text, last)
    if begin in (end, _DAY):
        raise InvalidSchedule(
            f"calendar: windows: {text!r}: {times} is empty; name the days alone for whole days"
        )
    return begin, end


def _second(text: str, time: str) -> int:
    found = _TIME.fullmatch(time)
    if found is not None:
        hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
        value = hour * 3600 + minute * 60 + second
        if minute < 60 and second < 60 and value <= _DAY:
            return value
    raise InvalidSchedule(
        f"calendar: windows: {text!r}: {time!r} is not a time of day; write it like 09:00"
    )
