"""What happened on the stand, and when; the rig puts it beside the faults."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sexton.torture.stand.clocks import now_us


@dataclass(frozen=True, slots=True)
class Event:
    """`at` is a true instant, in microseconds."""

    at: int
    what: str
    target: str
    detail: Mapping[str, Any]


class Events:
    """A list that others may listen to."""

    def __init__(self, listener: Callable[[Event], None] | None = None) -> None:
        self._all: list[Event] = []
        self.listener = listener

    def note(self, what: str, target: str, **detail: Any) -> Event:
        event = Event(now_us(), what, target, detail)
        self._all.append(event)
        if self.listener is not None:
            self.listener(event)
        return event

    def of(self, what: str) -> list[Event]:
        return [event for event in self._all if event.what == what]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
