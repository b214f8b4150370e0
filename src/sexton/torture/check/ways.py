"""Faults of the ways on which deliveries go: when their connections broke, or led nowhere."""

from collections.abc import Collection
from functools import cached_property

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND

WAYS = ("http-sink", "http-rough")
# Those that cut what is on its way; the rest of them leaves who has sent something in the dark.
BREAKS = ("refuse", "reset")
LEADS_NOWHERE = (*BREAKS, "blackhole", "half_open")
# What is cut within a second is sent once more, and the rig takes a moment to cut it.
AT_ONCE = 3 * SECOND
# A connection whose other side is gone may be used again later, as long as it is kept: 4 s. Of 184
# deliveries that nobody heard in two runs the last was claimed 0.1 s after the end of such a fault.
NEAR = 5 * SECOND
_NEVER = 1 << 62


class Ways:
    """What was done to them."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def broke(self, at: int) -> bool:
        """Whether connections were cut near to an instant."""
        return any(abs(began - at) <= AT_ONCE for began, _ in self._cuts)

    def led_nowhere(self, first: int, last: int) -> bool:
        """Whether what was sent in that time may never have arrived."""
        return any(began <= last and first - NEAR <= ended for began, ended in self._silences)

    @cached_property
    def _cuts(self) -> list[tuple[int, int]]:
        return self._of(BREAKS)

    @cached_property
    def _silences(self) -> list[tuple[int, int]]:
        return self._of(LEADS_NOWHERE)

    def _of(self, kinds: Collection[str]) -> list[tuple[int, int]]:
        """From when until when."""
        faults = [
            each
            for each in self._evidence.folder.faults
            if each["event"] != "note" and each["target"] in WAYS and each["fault"] in kinds
        ]
        over = {each["n"]: each["at"] for each in faults if each["event"] == "end"}
        return [
            (each["at"], over.get(each["n"], _NEVER)) for each in faults if each["event"] == "begin"
        ]
