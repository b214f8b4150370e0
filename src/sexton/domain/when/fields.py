"""One field of a cron expression: what may stand in it, as a set of bits."""

from dataclasses import dataclass

from sexton.errors import did_you_mean

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Nonsense(ValueError):
    """What is wrong with a field; the expression is put before it where it is reported."""


@dataclass(frozen=True, slots=True)
class Field:
    """The values of a field: bit 0 of a set stands for `low`, and `size` values are different."""

    name: str
    low: int
    high: int
    size: int
    names: tuple[str, ...] = ()
    wraps: bool = False  # whether a range may run over the end, as FRI-MON does
    spread_until: int | None = None  # the last value that H may take

    @property
    def every(self) -> int:
        return (1 << self.size) - 1


SECOND = Field("second", 0, 59, 60, spread_until=59)
MINUTE = Field("minute", 0, 59, 60, spread_until=59)
HOUR = Field("hour", 0, 23, 24, spread_until=23)
# H stays within the days that every month has.
DAY_OF_MONTH = Field("day of month", 1, 31, 31, spread_until=28)
MONTH = Field("month", 1, 12, 12, _MONTHS, spread_until=12)
# 0 and 7 are both Sunday, as in Debian's cron, so `*/7` and `5-7` mean there what they mean here.
DAY_OF_WEEK = Field("day of week", 0, 7, 7, _WEEKDAYS, wraps=True, spread_until=6)
YEAR = Field("year", 1970, 2099, 130)


def number(text: str, field: Field) -> int:
    """One value, by number or by name."""
    if text in field.names:
        return field.low + field.names.index(text)
    if not (text.isascii() and text.isdigit()) or len(text) > 4:
        raise Nonsense(_unreadable(text, field))
    value = int(text)
    if not field.low <= value <= field.high:
        raise Nonsense(f"{field.name}: {value} is not from {field.low} to {field.high}")
    return value


def _unreadable(text: str, field: Field) -> str:
    if not text:
        return f"{field.name}: a value is missing"
    if text[:3] in field.names and text.isalpha():
        return f"{field.name}: {text!r} is written {text[:3]}"
    if text == "?":
        return (
            f"{field.name}: '?' belongs to the Quartz dialect; ask for dialect='quartz', or use *"
        )
    if "~" in text:
        return f"{field.name}: {text!r} is a random time; write H(0-29) for one that stays the same"
    kind = f"a number from {field.low} to {field.high}"
    if field.names:
        kind += f" or a name like {field.names[1]}"
    return f"{field.name}: {text!r} is not {kind}{did_you_mean(text, field.names)}"


def steps(text: str, field: Field) -> int:
    """The number after a slash; one longer than the field would silently mean something else."""
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise Nonsense(f"{field.name}: the step {text!r} is not a number")
    step = int(text)
    if step == 0:
        raise Nonsense(f"{field.name}: a step of 0 goes nowhere")
    if step > field.size:
        raise Nonsense(
            f"{field.name}: a step of {step} is longer than the field, which has {field.size} "
            "values; for a longer interval schedule by `every`"
        )
    return step


def bits(text: str, field: Field) -> int:
    """The set that a list of values, ranges and steps stands for."""
    found = 0
    for item in text.split(","):
        found |= item_bits(item, field)
    return found


def item_bits(item: str, field: Field) -> int:
    """One item of the list: `*`, a value or a range, each with a step or without."""
    base, slash, step_text = item.partition("/")
    step = steps(step_text, field) if slash else 1
    first_text, dash, last_text = base.partition("-")
    if base == "*":
        first, last = field.low, field.high
    elif dash:
        first, last = number(first_text, field), number(last_text, field)
        if first > last:
            if not field.wraps:
                raise Nonsense(
                    f"{field.name}: the range {base} runs backwards; "
                    f"write {first}-{field.high},{field.low}-{last}"
                )
            last += field.size
    else:
        first = number(base, field)
        last = field.high if slash else first
    found = 0
    for value in range(first, last + 1, step):
        found |= 1 << (value - field.low) % field.size
    return found
