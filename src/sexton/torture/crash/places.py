"""The messages of a step, by name: which there are, and with which of them it is over.

A place is what the proxy calls a message: `claim/Bind 2/DataRow 3` is the third row of the second
answer to the statement `claim`. Numbers in a row would mean something else whenever another
statement comes in between, or a connection knows one already.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sexton import sql

END, PREPARED = "ReadyForQuery", "Parse"


def end_of(
    needs: Mapping[str, int], places: Sequence[str], links: Sequence[int] | None = None
) -> int | None:
    """After how many messages each of these was exchanged so often; None: they have not been.

    With `links`, as to a pooler, what was said last is committed by the next exchange of its link,
    unless it is a commit itself.
    """
    left = Counter(needs)
    ours = {*sql.names()}
    for number, place in enumerate(places, 1):
        statement, exchange, message = place.rsplit("/", 2)
        if message != END or exchange.startswith(PREPARED):
            continue
        for need in needs:
            if statement == need or (need not in ours and statement.startswith(need)):
                left[need] -= 1
        if not +left:
            committed = links is None or statement.lower().startswith("commit")
            return number if committed else _next_end(places, links or (), number)
    return None


def _next_end(places: Sequence[str], links: Sequence[int], after: int) -> int | None:
    for number in range(after, len(places)):
        if links[number] == links[after - 1] and places[number].endswith(f"/{END}"):
            return number + 1
    return None


def missing(needs: Mapping[str, int], places: Sequence[str]) -> list[str]:
    """Which of the needs alone are not met."""
    return [name for name, times in needs.items() if end_of({name: times}, places) is None]


class Seen:
    """The places of a step, in several looks at it when nothing is wrong."""

    def __init__(self, looks: Iterable[Sequence[str]] = ()) -> None:
        looks = sorted(looks, key=len, reverse=True)
        self.looks = len(looks)
        self._in = Counter(place for look in looks for place in dict.fromkeys(look))

    @property
    def places(self) -> list[str]:
        """Those of the longest look first, as they came."""
        return [*self._in]

    def __len__(self) -> int:
        return len(self._in)

    def always(self, place: str) -> bool:
        """A message that was there whenever somebody looked; one that nobody has seen must be."""
        return self._in.get(place, self.looks) == self.looks

    def mostly(self, place: str) -> bool:
        """One that was there every other time at least."""
        return 2 * self._in.get(place, self.looks) >= self.looks

    def how_often(self, place: str) -> str:
        return f"{self._in[place]} of {self.looks} looks"
