"""Two clocks: that of the rig's host, and the database's, by which everything is judged."""

from collections.abc import Sequence
from typing import Any


class Clocks:
    """How far the database's clock was ahead, as the rig measured it: at the start and the end.

    Between two measurements the difference is taken to have changed evenly.
    """

    def __init__(self, measured: Sequence[dict[str, Any]]) -> None:
        points: list[tuple[int, int]] = sorted((each["at"], each["offset_us"]) for each in measured)
        trips: list[int] = [each["round_trip_us"] for each in measured]
        ahead = [offset for _, offset in points]
        # What is less than the way there and back is nothing that could have been measured.
        self.agree = all(abs(each["offset_us"]) <= each["round_trip_us"] for each in measured)
        # So much more than usual may lie between what the two say of one moment.
        self.doubt: int = max(trips) + max(ahead) - min(ahead) if measured else 0
        self._first, self._last = (points or [(0, 0)])[0], (points or [(0, 0)])[-1]

    def databases(self, at: int) -> int:
        """An instant of the rig's, by the database's clock."""
        if self.agree:
            return at
        (begin, before), (end, after) = self._first, self._last
        share = 0.0 if end == begin else min(1.0, max(0.0, (at - begin) / (end - begin)))
        return at + round(before + share * (after - before))
