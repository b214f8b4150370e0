"""Time and messages: everything that happens is an event in one heap, in the order of one seed."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import random
from typing import Any

from sexton.torture.simulate.database import Database
from sexton.torture.simulate.process import Away, Process, Task
from sexton.torture.simulate.story import said
from sexton.torture.simulate.tables import Refused
from sexton.torture.simulate.watch import Violation

_LATER: Any = object()
_MOMENT = 0.001
_AT_MOST = 0.05  # seconds, for a message that nothing happens to

Statement = Callable[..., Any]


@dataclass(slots=True)
class Climate:
    """What the network does to a message, in shares of all of them; and how long jobs take."""

    quick: float = 0.9  # answered at once; the others take a moment, or
    lost: float = 0.0  # never arrive
    unanswered: float = 0.0  # arrive, are done, and the answer does not come back
    slow: float = 0.0  # arrive late, perhaps after whoever sent it has given up
    slowness: float = 6.0  # at most, seconds
    hears: float = 1.0  # notifications
    toil: float = 0.2  # no job takes longer


class Call:
    """A statement on its way to the database, then its answer on the way back."""

    __slots__ = (
        *("answer", "answered", "args", "back", "given_up", "hears", "statement", "task"),
        *("times", "token", "until"),
    )

    def __init__(
        self, task: Task, statement: Statement, args: Any, times: int, until: float
    ) -> None:
        self.task = task
        self.token = task.token
        self.statement = statement
        self.args = args
        self.times = times  # how often the server had been started
        self.until = until  # no longer is an answer waited for
        self.given_up = self.answered = False
        self.hears = True
        self.back = 0.02  # at most, seconds for the answer
        self.answer: Any = None


@dataclass(slots=True)
class Laid:
    """A trap that waits for the n-th time that somebody sends its statement."""

    left: int
    late: float
    strike: Callable[[Process], None]


class Kernel:
    """The loop: tasks run until they wait, calls travel, and nothing else happens."""

    def __init__(self, database: Database, climate: Climate, told: list[str] | None) -> None:
        self.database = database
        self.climate = climate
        self.told = told
        self.now = 0.0
        self.steps = 0
        self.processes: list[Process] = []
        self.up_at = self.stalled_until = 0.0
        self.starts = 0
        self.traps: dict[str, Laid] = {}  # by the statement that each waits for
        self._heap: list[tuple[float, int, Any, int, Any]] = []
        self._pushed = 0

    def push(self, at: float, what: Any, token: int = 0, value: Any = None) -> None:
        self._pushed = nth = self._pushed + 1
        heappush(self._heap, (at, nth, what, token, value))

    def tell(self, who: str, what: str) -> None:
        if self.told is not None:
            self.told.append(f"{self.now:9.3f}  {who:<9} {what}")

    def run(self, until: float) -> None:
        """Whatever happens until then; a callable in the heap is a deed of fate."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            at, _, what, token, value = heappop(heap)
            self.now = at
            if what.__class__ is Task:
                if token != what.token:
                    continue
                if what.process.stopped_until > at:
                    self.push(what.process.stopped_until + _MOMENT * random(), what, token, value)
                    continue
                self.steps += 1
                self._resume(what, value)
            elif what.__class__ is Call:
                self._carry(what)
            else:
                what()
        self.now = until

    def end(self) -> None:
        """Nothing is left that refers to itself: a hundred thousand worlds leave no garbage."""
        for process in self.processes:
            process.end()
        self.processes.clear()
        self._heap.clear()
        self.database.by = None

    # ── tasks ───────────────────────────────────────────────────────────────

    def _resume(self, task: Task, value: Any) -> None:
        """Until it waits for something that takes time."""
        task.token = token = task.token + 1
        coroutine = task.coroutine
        send = coroutine.send
        try:
            while True:
                request = coroutine.throw(value) if value.__class__ is Away else send(value)
                if request.__class__ is float:
                    self.push(self.now + request / task.process.rate, task, token)
                    return
                if len(request) == 2:
                    signal, seconds = request
                    signal.task, signal.token = task, token
                    self.push(self.now + seconds / task.process.rate, task, token, False)
                    return
                value = self._call(task, *request)
                if value is _LATER:
                    return
        except StopIteration:
            if task in task.process.tasks:
                task.process.tasks.remove(task)

    # ── messages ────────────────────────────────────────────────────────────

    def _call(self, task: Task, statement: Statement, args: Any, patience: float) -> Any:
        now, climate, process = self.now, self.climate, task.process
        if self.traps and self._is_trapped(statement.__name__):
            return self._spring(Call(task, statement, args, self.starts, now + patience))
        cut = process.cut_until > now
        if random() < climate.quick and not cut and self.up_at <= now >= self.stalled_until:
            return self._execute(process, statement, args)
        call = Call(task, statement, args, self.starts, now + patience)
        roll = random()
        process.goes_out -= cut
        if (cut and process.goes_out < 0) or roll < climate.lost:
            self._give_up(call)
            if self.told is not None:
                self.tell(process.name, f"{statement.__name__} is lost on its way")
            return _LATER
        call.hears = not cut and roll >= climate.lost + climate.unanswered
        there = _AT_MOST
        if patience < 2 * _AT_MOST:
            self._give_up(call)
        if call.hears and roll < climate.lost + climate.unanswered + climate.slow:
            self._give_up(call)
            if random() < 0.5:
                call.back = climate.slowness
            else:
                there = climate.slowness
        self.push(now + there * random(), call)
        return _LATER

    def _is_trapped(self, statement: str) -> bool:
        trap = self.traps.get(statement)
        if trap is None:
            return False
        trap.left -= 1
        return trap.left == 0

    def _spring(self, call: Call) -> Any:
        """What was sent is on its way; what happens to its sender cannot call it back."""
        trap = self.traps.pop(call.statement.__name__)
        call.hears = trap.late == 0.0
        self._give_up(call)
        self.push(self.now + trap.late, call)
        trap.strike(call.task.process)
        return _LATER

    def _give_up(self, call: Call) -> None:
        """Whoever sent it waits for an answer, but not for ever."""
        if not call.given_up:
            call.given_up = True
            at = max(self.now, call.until)
            self.push(at, call.task, call.token, Away("no answer in time"))

    def _carry(self, call: Call) -> None:
        """To the database, or its answer back to whoever still waits for it."""
        if call.answered:
            self._deliver(call)
            return
        process = call.task.process
        if self.stalled_until > self.now:
            self._give_up(call)
            self.push(self.stalled_until + _MOMENT * random(), call)
            return
        call.answered = True
        if self.up_at > self.now or call.times != self.starts:
            call.answer, call.times = Away("the server is gone"), self.starts
        else:
            self.steps += 1
            call.answer = self._execute(process, call.statement, call.args)
            if not call.hears:
                self._give_up(call)
                if self.told is not None:
                    self.tell(process.name, f"the answer to {call.statement.__name__} is lost")
                return
            if not call.given_up and random() < 0.7:
                self._deliver(call)
                return
        self.push(self.now + call.back * random(), call)

    def _deliver(self, call: Call) -> None:
        task = call.task
        if call.token != task.token:
            return
        if task.process.cut_until > self.now:
            self._give_up(call)
        elif task.process.stopped_until > self.now:
            self.push(task.process.stopped_until + _MOMENT * random(), call)
        else:
            self.steps += 1
            gone = call.times != self.starts
            self._resume(task, Away("the connection is gone") if gone else call.answer)

    def _execute(self, process: Process, statement: Statement, args: Any) -> Any:
        database = self.database
        database.now, database.by = self.now, process
        try:
            answer = statement(*args)
        except Refused as error:  # the last guard was needed: those before it have failed
            raise Violation("one decision", str(error)) from None
        if self.told is not None:
            self.tell(process.name, said(statement, args, answer))
        if database.notices:
            self._notify(database.notices)
        return answer

    def _notify(self, notices: list[str]) -> None:
        for notice in dict.fromkeys(notices):
            for process in self.processes:
                program = process.program
                if program is None or process.cut_until > self.now:
                    continue
                if random() < self.climate.hears:
                    program.heard(notice)
        notices.clear()

    # ── the server ──────────────────────────────────────────────────────────

    def restart(self, seconds: float) -> None:
        """What was on its way is aborted, and nobody is answered for a while."""
        self.starts += 1
        self.up_at = max(self.up_at, self.now + seconds)
        self.database.started_at = self.up_at
