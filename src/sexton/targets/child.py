"""A child process of the pool: it imports tasks by name and runs them one at a time.

Commands come in and answers go out over a socket of their own, as frames of four bytes of length
and JSON, so a task may print what it likes. The main thread runs the tasks. Another one listens,
and ends the process when the other side is gone, even while a task computes.
"""

import ctypes
import importlib
import inspect
import os
import queue
import runpy
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, NoReturn

import msgspec

from sexton.domain.job import Claim, Fire
from sexton.domain.outcome import Failed, Outcome, Snoozed, Succeeded
from sexton.domain.retry import NO_RETRY, Retry
from sexton.domain.text import clean
from sexton.errors import SextonError
from sexton.targets.arguments import Arguments, encode
from sexton.targets.job import Job
from sexton.targets.task import Task
from sexton.targets.verdict import demand_done, describe, raised, returned

LEAVE_WITHIN = 2.0
HEADER = 4
_MAIN = "__mp_main__"  # the name that multiprocessing gave to a script loaded again
_PR_SET_PDEATHSIG = 1

# True in a child process, which must not become a worker itself.
serving = False


class Command(msgspec.Struct, omit_defaults=True):
    """A claim, the function to run for it, and the exceptions its retry policy knows by name."""

    id: int
    fence: int
    attempt: int
    tries: int
    priority: int
    task: str
    payload: str
    key: str | None
    created: float
    due: float
    claimed: float
    expires: float | None
    schedule_id: int | None
    fire_at: float | None
    tenant: int
    fire: Fire | None
    remaining: float | None
    max_result_bytes: int
    schema: str
    installation: str
    module: str
    function: str
    main_name: str | None = None
    main_file: str | None = None
    never: list[str] = []
    on: list[str] = []


class Progress(msgspec.Struct, tag="progress"):
    """What the task said with `job.progress`."""

    value: Any


class Ended(msgspec.Struct, tag="ended", omit_defaults=True):
    """One of three outcomes; `policy` counts in [the task's own, NO_RETRY, *its `on`]."""

    policy: int = 0
    carried: bool = False
    succeeded: Succeeded | None = None
    failed: Failed | None = None
    snoozed: Snoozed | None = None


_encoder = msgspec.json.Encoder()
_commands = msgspec.json.Decoder(Command)


def frame(message: msgspec.Struct) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(HEADER, "big") + body


def class_name(cls: type) -> str:
    """The name of a class, the same in the parent, where a script is `__main__`."""
    module = "__main__" if cls.__module__ == _MAIN else cls.__module__
    return f"{module}.{cls.__qualname__}"


class Line:
    """This process's end of the socket."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._commands: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.busy = False

    def next(self) -> Command | None:
        """Wait for a command; None when there will be no more."""
        raw = self._commands.get()
        return None if raw is None else _commands.decode(raw)

    def send(self, message: msgspec.Struct) -> None:
        rest = memoryview(frame(message))
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def listen(self) -> NoReturn:
        """Take commands until the other side is gone; then nobody wants what is being computed."""
        with suppress(EOFError, OSError):
            while True:
                raw = self._read(int.from_bytes(self._read(HEADER), "big"))
                self.busy = True
                self._commands.put(raw)
        self._commands.put(None)
        if not self.busy:
            time.sleep(LEAVE_WITHIN)  # for the main thread to leave, with its exit handlers
        with suppress(OSError):
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = os.read(self._fd, size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


class ChildChannel:
    """How the job of one command reaches back to the worker."""

    def __init__(self, line: Line, max_bytes: int, schema: str, installation: str) -> None:
        self._line = line
        self._max_bytes = max_bytes
        self.schema = schema
        self.installation = installation
        self._lock = threading.Lock()
        self._open = True

    def progress(self, job: Job, value: Any) -> None:
        text = encode(value, "progress", self._max_bytes)
        with self._lock:
            # A thread that a task left behind must not speak for the next one.
            if self._open:
                self._line.send(Progress(msgspec.Raw(text.encode())))

    def transaction(self, job: Job, result: Any) -> AbstractAsyncContextManager[Any]:
        raise SextonError(
            "a task in a process of its own has no connection of the worker's: "
            "open a connection of your own and use job.settle_in(connection)"
        )

    def settle_in(self, job: Job, connection: Any, result: Any) -> Any:
        from sexton.targets.settlement import result_text, settle_in  # most tasks need no driver

        text = result_text(job, result, self._max_bytes)
        return settle_in(job, connection, self.schema, text, None)

    def end(self, ended: Ended) -> None:
        self._line.busy = False
        with self._lock:
            self._open = False
            self._line.send(ended)


class Target:
    """A function found by its name, ready to be called with payloads."""

    def __init__(self, command: Command) -> None:
        self.function: Callable[..., Any] = _find(command)
        self.arguments = Arguments(self.function, command.task, Job)
        self._asynchronous = inspect.iscoroutinefunction(self.function)

    def __call__(self, job: Job, payload: str) -> Any:
        arguments = self.arguments.decode(payload)
        if self.arguments.job_parameter is not None:
            arguments[self.arguments.job_parameter] = job
        if not self._asynchronous:
            return demand_done(self.function(**arguments))
        import asyncio

        return asyncio.run(self.function(**arguments))


class Runner:
    """Runs commands; what it imported stays imported."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._targets: dict[tuple[str, str, str], Target] = {}

    def run(self, command: Command) -> None:
        channel = ChildChannel(
            self._line, command.max_result_bytes, command.schema, command.installation
        )
        claim = Claim(**{name: getattr(command, name) for name in Claim.__struct_fields__})
        job = Job(claim, channel, command.remaining)
        outcome, policy = self._outcome(command, job)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        field: dict[str, Any] = {type(outcome).__name__.lower(): outcome}
        channel.end(Ended(policy, job.carried, **field))

    def _outcome(self, command: Command, job: Job) -> tuple[Outcome, int]:
        key = (command.module, command.function, command.task)
        try:
            target = self._targets.get(key)
            if target is None:
                target = self._targets[key] = Target(command)
        except BaseException as error:
            where = f"{command.module}.{command.function}"
            return Failed(clean(f"its process could not import {where}: {describe(error)}")), 0
        try:
            return returned(target(job, command.payload), command.max_result_bytes), 0
        except BaseException as error:
            return _raised(error, command)


def _raised(error: BaseException, command: Command) -> tuple[Outcome, int]:
    """The verdict under stand-ins for the parent's policies, of which only names are known here."""
    known = {class_name(cls): cls for cls in type(error).__mro__}
    stand_ins = [Retry() for _ in command.on]
    own = Retry(
        never=tuple(known[name] for name in command.never if name in known),
        on={known[name]: stand_ins[i] for i, name in enumerate(command.on) if name in known},
    )
    outcome, policy = raised(error, own)
    policies = [own, NO_RETRY, *stand_ins]
    return outcome, next(i for i, each in enumerate(policies) if each is policy)


def _find(command: Command) -> Any:
    if command.module == "__main__":
        found: Any = _load_main(command)
    else:
        found = importlib.import_module(command.module)
    for name in command.function.split("."):
        found = getattr(found, name)
    return found.function if isinstance(found, Task) else found


def _load_main(command: Command) -> types.ModuleType:
    """The parent's script, under a name that leaves out what `if __name__ == "__main__"` guards."""
    if _MAIN not in sys.modules:
        if command.main_name is not None:
            content = runpy.run_module(command.main_name, run_name=_MAIN, alter_sys=True)
        elif command.main_file is not None:
            content = runpy.run_path(command.main_file, run_name=_MAIN)
        else:
            raise ImportError("the task is defined in no file: move it to a module")
        module = types.ModuleType(_MAIN)
        module.__dict__.update(content)
        sys.modules["__main__"] = sys.modules[_MAIN] = module
    return sys.modules[_MAIN]


def main(fd: int) -> None:
    """Serve commands from this socket until it closes."""
    global serving
    serving = True
    if sys.platform == "linux":
        # When the parent dies, the kernel kills this: C code that keeps the GIL cannot prevent it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.set_inheritable(fd, False)
    # Whoever stops a service may signal each of its processes; the worker decides about this one.
    # Handlers rather than SIG_IGN, which programs started by a task would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)

    def forked() -> None:
        os.close(fd)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    os.register_at_fork(after_in_child=forked)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    line = Line(fd)
    threading.Thread(target=line.listen, name="sexton-listen", daemon=True).start()
    runner = Runner(line)
    try:
        while (command := line.next()) is not None:
            runner.run(command)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # without waiting for threads that a task left behind
