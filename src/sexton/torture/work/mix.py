"""What clients enqueue, drawn from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

from sexton.torture.work.population import more

_TASKS = {
    "quick": 46.0,
    "quick_sync": 7.0,
    "slow": 6.0,
    "slow_sync": 2.0,
    "long": 3.0,
    "keyed": 12.0,
    "limited": 4.0,
    "transactional": 9.0,
    "far": 5.0,
    "fails": 4.0,
    "fails_sync": 1.0,
    "always_fails": 1.0,
    "permanent": 1.0,
    "snoozes": 2.0,
    "apart": 1.0,
    "burns": 0.2,
    "hangs": 0.2,
    "suicide_apart": 0.1,
}
_ENDPOINTS = {"sink": 5.0, "rough": 1.0}
# So few keys that clients meet, in each tenant.
KEYS, LIMIT_KEYS = 60, 6


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job to be; `endpoint` says that its task is one."""

    task: str
    payload: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    endpoint: bool = False

    @property
    def line(self) -> dict[str, Any]:
        """For the acknowledgement log."""
        return {"task": self.task, "payload": self.payload, **self.options}

    @property
    def id(self) -> str:
        return str(self.payload["id"])


class Mix:
    """Jobs of one client, each with an id of its own; lengths of time are in seconds."""

    def __init__(self, random: Random, prefix: str, *, endpoints: bool = False) -> None:
        self.random = random
        self._prefix = prefix
        self._drawn = 0
        weights = _TASKS | (_ENDPOINTS if endpoints else {})
        self._names, self._weights = [*weights], [*weights.values()]

    def tenant(self, names: Sequence[str]) -> str:
        return self.random.choice(names)

    def one(self, tenant: str, task: str | None = None) -> Wanted:
        random = self.random
        self._drawn += 1
        chosen = task or random.choices(self._names, self._weights)[0]
        payload = {"id": f"{self._prefix}-{self._drawn}", "tenant": tenant, "rev": 0}
        payload |= more(random, chosen)
        return Wanted(chosen, payload, self._options(chosen), chosen in _ENDPOINTS)

    def many(self, tenant: str, size: int) -> list[Wanted]:
        return [self.one(tenant) for _ in range(size)]

    def _options(self, task: str) -> dict[str, Any]:
        random = self.random
        options: dict[str, Any] = {}
        if task == "keyed":
            options["key"] = f"k{random.randrange(KEYS)}"
            if random.random() < 0.2:
                options["key_held_for"] = round(random.uniform(0.5, 3.0), 1)
        if task == "limited" and random.random() < 0.7:
            options["limit_key"] = f"l{random.randrange(LIMIT_KEYS)}"
        if random.random() < 0.12:
            options["delay"] = round(random.uniform(0.2, 8.0), 1)
        if random.random() < 0.1:
            options["priority"] = random.randint(-5, 5)
        if random.random() < 0.02:
            # Some do not live to see the end of a fault, or when they are due.
            shortest, longest = random.choice(((0.5, 5.0), (20.0, 60.0)))
            options["expires_in"] = round(random.uniform(shortest, longest), 1)
        return options


def length(options: dict[str, Any], name: str) -> timedelta | None:
    """One of the options that are lengths of time, as PostgreSQL takes it."""
    given = options.get(name)
    return None if given is None else timedelta(seconds=given)
