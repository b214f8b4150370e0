"""What tracing is told of an attempt; who listens, if anybody, is an edge's business."""

from collections.abc import Sequence
from typing import Any, Protocol

from sexton.domain.outcome import Outcome

# A job carries its trace as a tag: in every way in which one is enqueued, from SQL too, and from
# there into history and to the dead.
TRACE_TAG = "traceparent:"


class Spans(Protocol):
    """The spans of one process."""

    def enter(self, running: Any) -> Any:
        """An attempt begins: what its code traces is part of it. Returns what `leave` wants."""

    def leave(self, token: Any) -> None:
        """Other code runs in this context again."""

    def end(self, running: Any, outcome: Outcome) -> None:
        """It has its outcome."""

    def fired(self, kind: str, fires: Sequence[float], jobs: int, began: float) -> None:
        """A batch of fires was written; it took from `began`, on the wall clock, until now."""
