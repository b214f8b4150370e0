"""How long one thing took, in all the cases in which it can be told."""

from dataclasses import dataclass, field

from sexton.torture.check.folder import Line

_SOME = 201
_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


@dataclass(slots=True)
class Figure:
    """Seconds, of as many cases as there were; `left_out` are those that say nothing, `never`
    those that had no end."""

    name: str
    means: str
    seconds: list[float] = field(default_factory=list)
    left_out: int = 0
    never: int = 0

    def at(self, share: float) -> float | None:
        """So many of all took no longer than this."""
        if not self.seconds:
            return None
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def line(self) -> Line:
        found = {name: self.at(share) for name, share in _SHARES.items()}
        rounded = {name: None if each is None else round(each, 4) for name, each in found.items()}
        counts = {"count": len(self.seconds), "left_out": self.left_out, "never": self.never}
        return {"name": self.name, "means": self.means, **counts, **rounded, "spread": self._spread}

    @property
    def _spread(self) -> list[float]:
        """Some of them, evenly from the least to the most: those of many runs can be put together,
        as their quantiles cannot."""
        ordered, last = sorted(self.seconds), len(self.seconds) - 1
        many = min(len(ordered), _SOME)
        places = [round(nth * last / max(1, many - 1)) for nth in range(many)]
        return [round(ordered[place], 3) for place in places]
