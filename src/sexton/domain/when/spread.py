"""`H` in a cron expression: a value that follows from the schedule's name, the same for ever.

A thousand schedules with `H H * * *` run at a thousand different minutes, each at its own every
day, on every node and after every restart: the value is a digest of name and field, nothing else.
"""

import re
from hashlib import blake2b

from sexton.domain.when.fields import Field, Nonsense, number, steps

_SPREAD = re.compile(r"H(?:\(([^()]*)\))?(?:/(.*))?", re.IGNORECASE)
_WORD = re.compile(r"(?<![A-Z])H(?![A-Z])", re.IGNORECASE)


def is_spread(text: str) -> bool:
    """Whether the name of the schedule matters to this expression."""
    return _WORD.search(text) is not None


def spread(text: str, field: Field, name: str) -> str:
    """The field with each `H` replaced by this name's own value or sequence."""
    return ",".join(_item(item, field, name) for item in text.split(","))


def _item(item: str, field: Field, name: str) -> str:
    found = _SPREAD.fullmatch(item)
    if found is None:
        if is_spread(item):
            raise Nonsense(
                f"{field.name}: {item!r} is not a way to spread; "
                "write H, H/15, H(0-29) or H(0-29)/10"
            )
        return item
    if field.spread_until is None:
        raise Nonsense(f"{field.name}: H does not spread over {field.name}s")
    bounds, step_text = found.groups()
    low, high = (field.low, field.spread_until) if bounds is None else _bounds(bounds, field)
    named = f"{name}\0{field.name}".encode("utf-8", "surrogatepass")
    digest = int.from_bytes(blake2b(named, digest_size=8).digest())
    if step_text is None:
        return str(low + digest % (high - low + 1))
    step = steps(step_text, field)
    if step > high - low + 1:
        raise Nonsense(f"{field.name}: a step of {step} does not fit into {low}-{high}")
    first = low + digest % step
    return f"{first}-{high}/{step}" if first < high else str(first)


def _bounds(text: str, field: Field) -> tuple[int, int]:
    low_text, dash, high_text = text.partition("-")
    if not dash:
        raise Nonsense(f"{field.name}: H({text}) needs a range, like H(0-29)")
    low, high = number(low_text.upper(), field), number(high_text.upper(), field)
    if low > high:
        raise Nonsense(f"{field.name}: the range of H({text}) runs backwards")
    return low, high
