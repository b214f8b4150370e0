"""A world from a seed: a few nodes and workers, a database, and what befalls them."""

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from sexton.torture.simulate import faults, rules
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.goals import Goals
from sexton.torture.simulate.kernel import Climate, Kernel, Laid
from sexton.torture.simulate.node import Node
from sexton.torture.simulate.operator import Operator
from sexton.torture.simulate.process import Process, Program
from sexton.torture.simulate.tables import JobRow, ScheduleRow
from sexton.torture.simulate.watch import Watch
from sexton.torture.simulate.worker import Worker

Mode = Literal["safety", "liveness"]

# A lease is trusted for nine tenths of its length: no clock may be slower than that.
RATES = (1.0, 1.0, 0.92, 0.98, 1.03, 1.09)
# For how many seconds there are faults.
LENGTHS: dict[Mode, tuple[float, ...]] = {"safety": (4.0, 7.0, 10.0), "liveness": (3.0, 5.0, 8.0)}
# Late enough for some schedules to have been left alone for long.
BEGINS_AT = 20.0
# When answers do not come back, each connection carries one more request, and no new one is made.
CONNECTIONS = 3
# One in the share of each of three nodes, and some more.
SCHEDULES = (40, 130, 220, 90, 180)


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays; a mutant has another class for one of them."""

    database: type[Database] = Database
    node: type[Node] = Node
    worker: type[Worker] = Worker


@dataclass(slots=True)
class Played:
    """What came of a seed."""

    steps: int
    seen: dict[str, int]
    well_after: float | None = None  # in liveness mode, since the faults ended
    hits: Counter[str] = field(default_factory=Counter)  # faults, by their kind


class World:
    """One seed's: everything is drawn from the one source of randomness, in one order."""

    def __init__(
        self,
        seed: int,
        mode: Mode,
        cast: Cast,
        *,
        without: Collection[int] = (),
        told: list[str] | None = None,
    ) -> None:
        random.seed(seed * 2 + (mode == "liveness"))
        self.mode = mode
        self.cast = cast
        self.watch = Watch()
        self.database = cast.database(self.watch)
        self.kernel = Kernel(self.database, faults.climate(), told)
        self.kernel.now = self.database.now = BEGINS_AT
        self.until = BEGINS_AT + random.choice(LENGTHS[mode])
        self.machines: dict[str, Process] = {}
        self.hits: Counter[str] = Counter()
        self._people()
        self._work()
        names = [name for name in self.machines if name != "operator"]
        self.blows = faults.blows(names, BEGINS_AT, self.until - 1.5)
        for n, blow in enumerate(self.blows):
            if n not in without:
                self.kernel.push(blow.at, partial(self._strike, blow))
        self.traps = faults.traps()
        for n, trap in enumerate(self.traps, start=1):
            if -n not in without:
                strike = partial(self._hit, kind=trap.kind, seconds=trap.seconds)
                self.kernel.traps[trap.statement] = Laid(trap.nth, trap.late, strike)

    # ── beginning ───────────────────────────────────────────────────────────

    def _people(self) -> None:
        names = [f"node-{n + 1}" for n in range(random.choice((1, 2, 3, 3)))]
        names += [f"worker-{n + 1}" for n in range(random.choice((1, 2, 2)))]
        if random.random() < 0.4:
            names.append("operator")
        spread = random.choice((0.02, 0.3))
        for name in names:
            begun_at = random.choice((1_000.0, 50_000.0, 900_000.0))
            machine = Process(self.kernel, name, random.choice(RATES), begun_at)
            self.machines[name] = machine
            self.kernel.processes.append(machine)
            self.kernel.push(BEGINS_AT + spread * random.random(), partial(self._begin, machine))

    def _work(self) -> None:
        tables = self.database
        since = BEGINS_AT - random.choice((0.0, 0.0, 5.0, 16.0))
        for id in SCHEDULES[: random.choice((2, 3, 5))]:
            kind = rules.rule_id(
                random.choice(rules.OVERLAPS),
                random.choice(rules.MISFIRES),
                random.choice(rules.PERIODS),
            )
            row = ScheduleRow(id, id % 256, kind, _first(rules.period_of(kind), since))
            row.fires_left = random.choice((None, None, None, 2))
            tables.schedules[id] = row
        for _ in range(random.choice((0, 1, 2))):
            tables.job_id += 1
            tables.jobs[tables.job_id] = JobRow(tables.job_id, BEGINS_AT, BEGINS_AT)
            self.watch.enqueued(tables.job_id)

    def _begin(self, machine: Process) -> None:
        if machine.program is None:
            self.kernel.tell(machine.name, "begins")
            machine.run(self._program(machine))

    def _program(self, machine: Process) -> Program:
        if machine.name.startswith("node"):
            return self.cast.node(machine, self.database)
        if machine.name.startswith("worker"):
            return self.cast.worker(machine, self.database)
        return Operator(machine, self.database, self.until - self.kernel.now)

    # ── blows ───────────────────────────────────────────────────────────────

    def _strike(self, blow: faults.Blow) -> None:
        kernel = self.kernel
        if blow.kind == "restart":
            self.hits[blow.kind] += 1
            kernel.tell("server", f"✗ restart, gone for {blow.seconds:.3f} s")
            kernel.restart(blow.seconds)
        elif blow.kind == "stall":
            self.hits[blow.kind] += 1
            kernel.tell("server", f"✗ stall for {blow.seconds:.3f} s")
            kernel.stalled_until = max(kernel.stalled_until, kernel.now + min(blow.seconds, 3.0))
        else:
            self._hit(self._target(blow), blow.kind, blow.seconds)

    def _hit(self, machine: Process, kind: faults.Kind, seconds: float) -> None:
        kernel = self.kernel
        self.hits[kind] += 1
        kernel.tell(machine.name, f"✗ {kind} for {seconds:.3f} s")
        match kind:
            case "kill":
                machine.end()
            case "stop":
                machine.stop(seconds)
            case "suspend":
                machine.suspend(seconds)
            case "cut" | "deafen":
                machine.cut_until = max(machine.cut_until, kernel.now + seconds)
                machine.goes_out = CONNECTIONS if kind == "deafen" else 0
            case "jump":
                machine.wall = random.choice((-7200.0, -60.0, 60.0, 7200.0))
            case "leave":
                if machine.program is not None:
                    machine.program.leave()
        if kind in ("kill", "leave"):
            again = partial(self._again, machine, machine.program)
            kernel.push(kernel.now + min(seconds, 4.0), again)

    def _target(self, blow: faults.Blow) -> Process:
        if blow.target == faults.LEADER:
            for machine in self.machines.values():
                if isinstance(machine.program, Node) and machine.program.leads:
                    return machine
        return self.machines.get(blow.target) or self.machines["node-1"]

    def _again(self, machine: Process, before: Program | None) -> None:
        """Whoever starts it again does not wait for one that does not come to its end."""
        if machine.program is before:
            machine.end()
        self._begin(machine)

    # ── play ────────────────────────────────────────────────────────────────

    def play(self) -> Played:
        """Raises what must not happen."""
        try:
            self.kernel.run(self.until)
            after = self._recover() if self.mode == "liveness" else None
            self.watch.balanced(len(self.database.jobs))
            return Played(self.kernel.steps, dict(self.watch.seen), after, self.hits)
        finally:
            self.kernel.end()

    def _recover(self) -> float:
        """The faults are over: how long it takes until all is well."""
        kernel = self.kernel
        kernel.climate, kernel.traps = Climate(), {}
        lasting = [kernel.up_at, kernel.stalled_until]
        for machine in self.machines.values():
            lasting += [machine.stopped_until, machine.cut_until]
        kernel.run(max(*lasting, self.until))
        for machine in self.machines.values():
            self._begin(machine)
        kernel.tell("", "— the faults are over —")
        return Goals(self.database, self.machines, kernel).reached()


def _first(period: int, since: float) -> float:
    """The first instant of a rule that comes after."""
    return (since // period + 1) * period
