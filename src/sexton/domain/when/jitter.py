"""Noise between the instant that a rule gives and the fire itself, which anyone can recompute.

The noise is a digest of the schedule's seed, not a draw: an audit a month later gets the same.
"""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Literal

JitterKind = Literal["random", "fixed"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCALE = 1 << 64


def jittered(
    seed: int, at: datetime, following: datetime | None, jitter: float, kind: JitterKind
) -> datetime:
    """`at` plus something from 0 to `jitter` seconds, in an order that stays.

    `fixed` gives a seed the same delay every time, so the distances between fires stay; `random`
    gives each fire its own, in the room that is left until the `following` instant, so they never
    change places and never meet.
    """
    room = round(jitter * 1_000_000)
    if kind == "fixed":
        return at + timedelta(microseconds=_below(room, seed, 0))
    if following is not None:
        room = min(room, (following - at) // _MICROSECOND)
    return at + timedelta(microseconds=_below(room, seed, (at - _EPOCH) // _MICROSECOND))


def _below(room: int, seed: int, salt: int) -> int:
    """A whole number from 0 to `room` - 1, spread evenly over seeds and salts."""
    digest = blake2b(b"%d:%d" % (seed, salt), digest_size=8).digest()
    return int.from_bytes(digest, "big") * room // _SCALE
