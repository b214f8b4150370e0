"""How much may be computed for one answer: some rules could be gone through for hours.

Whoever computes for somebody else says how many steps it may take; a step is the work of about a
microsecond. Who says nothing gets his answer however long that takes.
"""

from contextvars import ContextVar, Token

from sexton.errors import InvalidSchedule

# A quarter of a second for a rule that somebody brings; more for one that was taken in already.
NEW_RULE, NEXT_FIRE = 250_000, 2_000_000
TOO_LONG = (
    "when: its next fire takes too long to compute: use fewer rules, a simpler one, or calendars "
    "with fewer windows"
)


class TooLong(InvalidSchedule):
    """The steps were used up before there was an answer."""


class at_most:  # noqa: N801 - it reads as a verb
    """`with at_most(steps)`: all that is asked in this block takes no more than that, together.

    Nor more than is left of a block around it.
    """

    __slots__ = ("_around", "_token", "left")

    _token: "Token[at_most | None]"

    def __init__(self, steps: int) -> None:
        self.left = steps
        self._around: at_most | None = None

    def __enter__(self) -> None:
        self._around = _effort.get()
        self._token = _effort.set(self)

    def __exit__(self, *error: object) -> None:
        _effort.reset(self._token)

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooLong(TOO_LONG)
        if self._around is not None:
            self._around.take(steps)


_effort: ContextVar[at_most | None] = ContextVar("sexton.effort", default=None)


def take(steps: int) -> None:
    """So many steps are about to be taken; TooLong if they are more than are left."""
    effort = _effort.get()
    if effort is not None:
        effort.take(steps)
