"""What is sent under a key that was used: the same gets the same answer, and another is refused."""

from sexton.torture.check.folder import Ask

ECHO, REUSE = "echo", "reuse"
# How somebody is told that a key was used for another request.
TAKEN = "Answered: 422"
_BY_THE_SERVER = "Answered: 5"
# PostgreSQL may be away just when something is sent again; of so many, not mostly.
FEWEST, UNANSWERED = 3, 0.5


class Repeats:
    """Looks at each, and in the end whether they were answered at all."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], bool] = {}  # whether an echo was answered, by its first

    def wrong(self, ask: Ask) -> str | None:
        """What is not as it must be with one of these, if it was answered."""
        if ask.verb == REUSE:
            if ask.answer is not None:
                return "another request had this key before, and it was answered"
            if ask.refused and not (ask.error or "").startswith(TAKEN):
                return f"another request had this key before, and it was refused for {ask.error}"
            return None
        by_the_server = (ask.error or "").startswith(_BY_THE_SERVER)
        if ask.answer is not None or by_the_server:
            self._told[ask.by, ask.again or 0] = ask.answer is not None
        if ask.refused:
            return f"it was granted, and sent again refused: {ask.error}"
        if ask.answer not in (None, ask.body["told"]):
            return f"it was answered with {ask.body['told']}, and sent again with {ask.answer}"
        return None

    def silent(self) -> str | None:
        """Whether servers that were there did not say again what they had said."""
        unanswered = sum(not told for told in self._told.values())
        if unanswered < FEWEST or unanswered <= UNANSWERED * len(self._told):
            return None
        return f"of {len(self._told)} requests that were sent again {unanswered} were not answered"
