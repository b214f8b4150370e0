"""The Quartz dialect of cron: seconds first, weekdays from 1 for Sunday, `?`, and perhaps years."""

from dataclasses import replace

from sexton.domain.when.fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    Nonsense,
)

# Quartz lets any range run over the end: 22-2 in hours, NOV-FEB in months.
_CIRCULAR = tuple(replace(field, wraps=True) for field in (SECOND, MINUTE, HOUR))
_FIELDS = (
    *_CIRCULAR,
    replace(DAY_OF_MONTH, wraps=True),
    replace(MONTH, wraps=True),
    replace(DAY_OF_WEEK, low=1, high=7, spread_until=7),
    YEAR,
)
_DATES, _WEEKDAYS = 3, 5
_ANY = ("?", "*")


def fields(count: int) -> tuple[Field, ...]:
    """The fields of an expression with so many."""
    if count not in (6, 7):
        raise Nonsense(
            f"{count} fields; Quartz has 6 (second, minute, hour, day of month, month, "
            "day of week) or 7 (and year)"
        )
    return _FIELDS[:count]


def plain(parts: list[str]) -> list[str]:
    """The same without what only Quartz writes, where cron has other words for it."""
    for index, (field, part) in enumerate(zip(_FIELDS, parts, strict=False)):
        if "?" in part and (part != "?" or index not in (_DATES, _WEEKDAYS)):
            raise Nonsense(f"{field.name}: '?' stands alone, for a day of month or a day of week")
    dates, weekdays = parts[_DATES], parts[_WEEKDAYS]
    if dates == weekdays == "?":
        raise Nonsense("day of week: '?' stands for one of the two days, not for both")
    if dates not in _ANY and weekdays not in _ANY:
        raise Nonsense(
            f"day of week: Quartz takes a day of month or a day of week, not {dates} and "
            f"{weekdays}; put ? in one of them"
        )
    changed = [",".join(map(_item, part.split(","))) for part in parts]
    # Alone it is the last day of the week, which Quartz ends with Saturday.
    changed[_WEEKDAYS] = ",".join(
        "SAT" if item == "L" else item for item in changed[_WEEKDAYS].split(",")
    )
    return changed


def _item(item: str) -> str:
    if item == "?":
        return "*"
    return f"*{item}" if item.startswith("/") else item
