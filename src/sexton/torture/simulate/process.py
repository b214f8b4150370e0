"""What an actor is made of: a machine with clocks of its own, tasks on it, and how these wait."""

import types
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from sexton.torture.simulate.kernel import Kernel

P = ParamSpec("P")
T = TypeVar("T")

# How long an answer is waited for: a third of a lease, as the engine does.
PATIENCE = 1.0


class Away(Exception):
    """The database did not answer; what it did is not known."""


class Signal:
    """An event that one task waits for; it stays set until cleared."""

    __slots__ = ("is_set", "kernel", "task", "token")

    def __init__(self, kernel: "Kernel") -> None:
        self.kernel = kernel
        self.is_set = False
        self.task: Task | None = None
        self.token = 0

    def set(self) -> None:
        self.is_set = True
        task = self.task
        if task is not None and task.token == self.token:
            self.task = None
            self.kernel.push(self.kernel.now, task, self.token, True)

    def clear(self) -> None:
        self.is_set = False


@types.coroutine
def nap(seconds: float) -> Generator[float, None, None]:
    """Sleep, by the process's own clock."""
    yield seconds


@types.coroutine
def wait(signal: Signal, seconds: float) -> Generator[tuple[Signal, float], bool, bool]:
    """Whether the signal came within the time."""
    if signal.is_set:
        return True
    return (yield signal, seconds)


@types.coroutine
def ask(
    statement: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> Generator[tuple[Callable[P, T], Any, float], T, T]:
    """The database's answer to a statement; or `Away`, and it may have been done or may yet be."""
    return (yield statement, args, PATIENCE)


@types.coroutine
def ask_within(
    seconds: float, statement: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> Generator[tuple[Callable[P, T], Any, float], T, T]:
    """The same, with another patience."""
    return (yield statement, args, seconds)


class Program(Protocol):
    """What runs on a process; all that it knows is lost with it."""

    def start(self) -> None: ...

    def heard(self, notice: str) -> None: ...

    def leave(self) -> None: ...


class Task:
    """A thread of a program: a coroutine that waits for one thing at a time."""

    __slots__ = ("coroutine", "process", "token")

    def __init__(self, coroutine: "CoroutineType[Any, Any, None]", process: "Process") -> None:
        self.coroutine = coroutine
        self.process = process
        self.token = 0  # of what it waits for now; whatever else comes is too late


class Process:
    """A machine: its clocks are its own, its line to the database may be cut, it may be stopped."""

    __slots__ = (
        *("begun_at", "cut_until", "goes_out", "kernel", "name", "overslept", "program", "rate"),
        *(
            "resumed_at",
            "slept",
            "stopped_until",
            "suspended_until",
            "suspensions",
            "tasks",
            "wall",
        ),
    )

    def __init__(self, kernel: "Kernel", name: str, rate: float, begun_at: float) -> None:
        self.kernel = kernel
        self.name = name
        self.rate = rate  # its seconds in one of the database's
        self.begun_at = begun_at  # what its monotonic clock said at first
        self.wall = 0.0  # its wall clock minus the database's; nobody should ask
        self.slept = 0.0  # what its monotonic clock did not count
        self.suspensions = 0
        self.overslept = False  # suspended since it asked for its lease: its trust proves nothing
        self.stopped_until = self.suspended_until = self.cut_until = 0.0
        self.goes_out = 0  # how many requests still arrive while it is cut off; no answer does
        self.resumed_at = -1.0
        self.tasks: list[Task] = []
        self.program: Program | None = None

    def clock(self) -> float:
        """Monotonic, and never the same as another's."""
        return self.begun_at + (self.kernel.now - self.slept) * self.rate

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = Task(cast("CoroutineType[Any, Any, None]", coroutine), self)
        self.tasks.append(task)
        self.kernel.push(self.kernel.now, task, 0, None)

    def run(self, program: Program) -> None:
        self.program = program
        program.start()

    def end(self) -> None:
        """As by kill -9: nothing of it goes on."""
        self.program = None
        for task in self.tasks:
            task.token = -1
            if not task.coroutine.cr_running:  # one of its own has had the last word
                task.coroutine.close()
        self.tasks.clear()

    def stop(self, seconds: float) -> None:
        """As by SIGSTOP: nothing of it goes on for a while, and its clock does."""
        self.stopped_until = max(self.stopped_until, self.kernel.now + seconds)
        self.resumed_at = self.begun_at + (self.stopped_until - self.slept) * self.rate

    def suspend(self, seconds: float) -> None:
        """As a laptop that is closed: its monotonic clock stands still too."""
        until = self.kernel.now + seconds
        self.slept += max(0.0, until - max(self.kernel.now, self.suspended_until))
        self.suspended_until = max(self.suspended_until, until)
        self.suspensions += 1
        self.overslept = True
        self.stop(seconds)
