"""How long a lease may be trusted, on a node whose own clock may be wrong."""

from dataclasses import dataclass

MARGIN = 0.1
RENEWALS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of `length` seconds that was asked for at `asked_at` on a monotonic clock.

    The database counts from when it answered, which is later than when we asked: counting from
    the request, less a margin for clocks that run at different speeds, errs on the safe side.
    """

    length: float
    asked_at: float

    @property
    def trusted_until(self) -> float:
        return self.asked_at + self.length * (1 - MARGIN)

    def trusted(self, now: float) -> bool:
        return now < self.trusted_until

    def renew_at(self, noise: float) -> float:
        """A third of the length after the request, up to a tenth earlier."""
        return self.asked_at + self.length / RENEWALS_PER_LEASE * (1 - 0.1 * noise)
