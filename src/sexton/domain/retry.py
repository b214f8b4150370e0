"""When a failed attempt is tried again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sexton.domain.duration import Duration, seconds


@dataclass(frozen=True, slots=True)
class Retry:
    """Exponential backoff with full jitter, for at most `max_attempts` within `max_age`.

    The delay before attempt n + 1 is uniform between 0 and base × factor^(n−1), at most `cap`:
    spreading the whole range is what keeps a thousand failures from coming back together.
    `on` gives some exceptions a policy of their own, `never` makes some permanent.
    """

    max_attempts: int = 5
    base: Duration = 5.0
    cap: Duration = 300.0
    factor: float = 2.0
    max_age: Duration | None = None
    never: type[BaseException] | tuple[type[BaseException], ...] = ()
    on: Mapping[type[BaseException], "Retry"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int):
            raise ValueError(f"max_attempts must be a whole number, not {self.max_attempts!r}")
        if not 1 <= self.max_attempts <= 10_000:
            raise ValueError(f"max_attempts must be from 1 to 10,000, not {self.max_attempts}")
        if not 1 <= self.factor <= 100:
            raise ValueError(f"factor must be from 1 to 100, not {self.factor}")
        never = tuple(self.never) if isinstance(self.never, tuple | list) else (self.never,)
        for each in (*never, *self.on):
            if not isinstance(each, type) or not issubclass(each, BaseException):
                raise ValueError(f"never and on name exception classes, not {each!r}")
        for policy in self.on.values():
            if not isinstance(policy, Retry):
                raise ValueError(f"on maps an exception to a Retry(…), not to {policy!r}")
        object.__setattr__(self, "never", never)
        object.__setattr__(self, "base", seconds(self.base))
        object.__setattr__(self, "cap", seconds(self.cap))
        if self.max_age is not None:
            object.__setattr__(self, "max_age", seconds(self.max_age))

    def delay(self, tries: int, noise: float) -> float:
        """Seconds until the next attempt after `tries` of them; `noise` is uniform in [0, 1)."""
        exponent = min(tries - 1, 64)
        return noise * min(seconds(self.cap), seconds(self.base) * self.factor**exponent)

    @property
    def never_again(self) -> tuple[type[BaseException], ...]:
        """`never`, which may also be given as a single class."""
        return self.never if isinstance(self.never, tuple) else (self.never,)

    def policy_for(self, error: BaseException) -> "Retry | None":
        """The policy for this exception: the nearest class wins; None means never again."""
        for cls in type(error).__mro__:
            if cls in self.never_again:
                return None
            if cls in self.on:
                return self.on[cls]
        return self


NO_RETRY = Retry(max_attempts=1)
