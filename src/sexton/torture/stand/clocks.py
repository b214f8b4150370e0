"""Clocks that are wrong on purpose: what the rig holds of them."""

import mmap
import time
from pathlib import Path

import asyncpg

SIZE = 8  # bytes: nanoseconds, signed, in the order of this machine
_ASK = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
_TIMES = 7


class Clock:
    """How far the real-time clock of one process is off; kept in a file that both map.

    It belongs to the process's name, as a host's clock does: who is started anew has it again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._nanoseconds = memoryview(self._map).cast("q")

    @property
    def offset(self) -> float:
        return self._nanoseconds[0] / 1e9

    def set(self, offset: float) -> None:
        """It jumps at once."""
        self._nanoseconds[0] = round(offset * 1e9)

    def close(self) -> None:
        self._nanoseconds.release()
        self._map.close()


def realtime_minus_monotonic_us() -> int:
    """What turns a monotonic instant into a true one, in a process whose real time is wrong."""
    return (time.time_ns() - time.monotonic_ns()) // 1000


def now_us() -> int:
    return time.time_ns() // 1000


async def apart(connection: asyncpg.Connection) -> dict[str, int]:
    """How far the database's clock is ahead of this host's, by the quickest of some answers."""
    answers = []
    for _ in range(_TIMES):
        asked = now_us()
        theirs = int(await connection.fetchval(_ASK))
        heard = now_us()
        answers.append((heard - asked, theirs - (asked + heard) // 2, heard))
    round_trip, offset, at = min(answers)
    return {"at": at, "offset_us": offset, "round_trip_us": round_trip}
