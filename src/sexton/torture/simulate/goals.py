"""Liveness: when the faults are over, all is well again within so many seconds."""

from collections.abc import Callable, Mapping

from sexton.domain.partition import PARTITIONS
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.kernel import Kernel
from sexton.torture.simulate.node import Node
from sexton.torture.simulate.process import Process
from sexton.torture.simulate.watch import Violation

# A message that was slow may still arrive a lease or two later, and be a node that nobody is.
CLUSTER_WITHIN = 16.0
FIRES_WITHIN = 30.0
JOBS_WITHIN = 45.0
LOOK_EVERY = 0.25
# An ordinary delay of a fire that is due.
ON_TIME = 0.5


class Goals:
    """One leader with all partitions owned, every due fire decided, every old job settled."""

    def __init__(self, database: Database, machines: Mapping[str, Process], kernel: Kernel) -> None:
        self._tables = database
        self._machines = machines
        self._kernel = kernel
        self._since = kernel.now

    def reached(self) -> float:
        """Seconds until all of it is so at once; each has a bound of its own."""
        goals: dict[str, tuple[Callable[[], bool], float]] = {
            "one leader, all partitions owned": (self._is_whole, CLUSTER_WITHIN),
            "every due fire is decided": (self._is_fired, FIRES_WITHIN),
            "every job is settled": (self._is_settled, JOBS_WITHIN),
        }
        once: set[str] = set()
        while True:
            passed = self._kernel.now - self._since
            reached = [name for name, (is_so, _) in goals.items() if is_so()]
            once.update(reached)
            if len(reached) == len(goals):
                return passed
            for name, (_, within) in goals.items():
                missed = name not in reached if passed > JOBS_WITHIN else name not in once
                if passed > within and missed:
                    raise Violation(name, f"not within {within:g} s after the faults")
            self._kernel.run(self._kernel.now + LOOK_EVERY)

    def _is_whole(self) -> bool:
        tables = self._tables
        leaders, owned = 0, 0
        for machine in self._machines.values():
            program = machine.program
            if isinstance(program, Node):
                ours = program.owned
                if ours is None:
                    return False
                row = tables.ownership.get(ours.node)
                if row is None or row.epoch != ours.epoch:
                    return False
                leaders += program.leading() is not None
                owned += len(row.partitions)
        return leaders == 1 and owned == PARTITIONS

    def _is_fired(self) -> bool:
        now = self._kernel.now
        return all(
            row.next_fire > now - ON_TIME and not row.late
            for row in self._tables.schedules.values()
        )

    def _is_settled(self) -> bool:
        return all(row.created_at > self._since for row in self._tables.jobs.values())
