"""Whether a process lives, and whether it can do its work: asked from a thread of its own.

The event loop that is asked about may be the one that is stuck, so it does not answer itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sexton.cluster.owner import Owner
from sexton.flow.scheduler import Scheduler
from sexton.flow.worker import Worker
from sexton.observe.http import Answer

ASK_EVERY = 0.25
# A task that blocks the loop for a moment is a nuisance; for longer nothing else gets its turn.
READY_WITHIN = 5.0
# Then no turn will come: whoever supervises the process should start another.
ALIVE_WITHIN = 60.0

Reasons = Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Health:
    """What /readyz says."""

    ready: bool
    kind: str
    name: str
    reasons: Sequence[str]


class Probe:
    """Asks the loop all the time, and others when somebody wants to know."""

    def __init__(
        self, kind: str, name: str, loop: asyncio.AbstractEventLoop, reasons: Reasons
    ) -> None:
        self._kind, self._name = kind, name
        self._owner = Owner(loop, lambda: None)
        self._reasons = reasons

    async def keep_asking(self) -> None:
        while True:
            self.silent_for  # noqa: B018 - looking at it asks
            await asyncio.sleep(ASK_EVERY)

    @property
    def silent_for(self) -> float:
        return self._owner.silent_for

    @property
    def health(self) -> Health:
        reasons = list(self._reasons())
        if (silent := self.silent_for) > READY_WITHIN:
            reasons.append(f"its event loop has not turned for {silent:.1f} s")
        return Health(not reasons, self._kind, self._name, reasons)

    async def healthz(self) -> Answer:
        """This process lives: its loop turns."""
        silent = self.silent_for
        alive = silent <= ALIVE_WITHIN
        body: dict[str, Any] = {"alive": alive, "kind": self._kind, "name": self._name}
        if not alive:
            body["reasons"] = [f"its event loop has not turned for {silent:.0f} s"]
        return _answer(body, alive)

    async def readyz(self) -> Answer:
        """It can do its work; or why it cannot."""
        health = self.health
        return _answer(health, health.ready)


def _answer(body: Any, good: bool) -> Answer:
    return Answer(msgspec.json.encode(body) + b"\n", 200 if good else 503)


def of_worker(worker: Worker) -> list[str]:
    """Why this worker cannot work; nothing: it can."""
    health = worker.health
    reasons = []
    if health.stopping:
        reasons.append(f"it is stopping: {health.running} jobs may finish")
    if not health.postgresql:
        reasons.append("PostgreSQL cannot be reached")
    if health.worker is None:
        reasons.append("it has no lease")
    elif not health.lease_trusted:
        reasons.append("its lease is not trusted: it was not renewed in time")
    return reasons


def of_node(node: Scheduler) -> list[str]:
    """Why this node cannot fire; nothing: it can."""
    health = node.health
    reasons = []
    if health.stopping:
        reasons.append("it is stopping: its partitions go to others")
    if not health.postgresql:
        reasons.append("PostgreSQL cannot be reached")
    if health.node is None:
        reasons.append("it has no lease: it fires nothing")
    if not health.turning:
        reasons.append("the loop that fires does not come round")
    return reasons
