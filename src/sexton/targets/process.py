"""CPU-bound tasks in child processes, which are reused, counted, and killed when cancelled.

A child speaks JSON over a socket (see `child`), leads a session and process group of its own, and
ends with everything it started: a cancelled job's `ffmpeg` does not outlive it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from sexton.domain.job import Claim
from sexton.domain.outcome import Failed, Outcome
from sexton.domain.retry import NO_RETRY, Retry
from sexton.errors import ConfigurationError, SextonError
from sexton.targets import child as protocol
from sexton.targets.job import Job
from sexton.targets.task import Task

log = logging.getLogger("sexton.process")

JOBS_PER_CHILD = 1000
_EXIT_WITHIN = 1.0
_CHUNK = 262_144
_BESIDES_RESULT = 1_048_576
_START = "import sys; sys.path[:] = {path}; from sexton.targets.child import main; main({fd})"

_answers: msgspec.json.Decoder[protocol.Progress | protocol.Ended] = msgspec.json.Decoder(
    protocol.Progress | protocol.Ended
)


class Child:
    """One process and our end of its socket."""

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._buffer = bytearray()
        self.line, theirs = socket.socketpair()
        try:
            self.line.setblocking(False)
            path = [each for each in sys.path if isinstance(each, str)]
            start = _START.format(path=path, fd=theirs.fileno())
            # -P: the parent's sys.path is the whole truth, the current folder no addition to it.
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", start, *sys.argv[1:]],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            self.line.close()
            raise
        finally:
            theirs.close()
        self.jobs = 0

    async def run(
        self, command: protocol.Command, on_progress: Callable[[Any], None]
    ) -> protocol.Ended:
        """EOFError or OSError if the child ends, DecodeError if it cannot be understood."""
        self.jobs += 1
        await asyncio.get_running_loop().sock_sendall(self.line, protocol.frame(command))
        while True:
            answer = _answers.decode(await self._frame())
            if isinstance(answer, protocol.Ended):
                return answer
            try:
                on_progress(answer.value)
            except Exception:
                log.exception("job %d: its progress was not taken", command.id)

    async def _frame(self) -> bytes:
        size = int.from_bytes(await self._exactly(protocol.HEADER), "big")
        if size > self._max_frame:
            raise msgspec.DecodeError(f"a message of {size:,} bytes")
        return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            part = await asyncio.get_running_loop().sock_recv(self.line, _CHUNK)
            if not part:
                raise EOFError
            self._buffer += part
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def kill(self) -> None:
        """With all it started that has not left its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def end(self, patience: float) -> str:
        """Let it leave for as long as patience lasts, then kill it; how it ended, in words."""
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)
        left = await self._exit_within(patience)
        self.kill()
        if not left:
            await self._exit_within(None)
        self.line.close()
        if not left:
            return "its process closed its connection to the worker"
        return _how(self.process.returncode)

    async def _exit_within(self, patience: float | None) -> bool:
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        pause = 0.0005
        while self.process.poll() is None:
            if until is not None and loop.time() >= until:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True


class ProcessPool:
    """At most `limit` child processes, started when needed; runs wait for one in order."""

    def __init__(self, limit: int | None = None, max_result_bytes: int = 65_536) -> None:
        if protocol.serving:
            raise ConfigurationError(
                "a worker was about to start inside a task's own process: put what starts the "
                "worker under `if __name__ == '__main__':`"
            )
        self._limit = limit or cpus()
        self._max_result_bytes = max_result_bytes
        self._slots = asyncio.Semaphore(self._limit)
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._endings: set[asyncio.Task[str]] = set()
        self._closed = False

    async def run(
        self,
        task: Task[Any, Any],
        job: Job,
        payload: str,
        on_progress: Callable[[Any], None],
        on_begin: Callable[[], None] = lambda: None,
    ) -> tuple[Outcome, Retry]:
        """Run it in a child, when there is one; cancelling this kills the child at once."""
        self._demand_open()
        await self._slots.acquire()
        try:
            self._demand_open()
            child = self._take()
        except OSError as error:
            self._slots.release()
            return Failed(f"a process for it could not be started: {error}"), task.retry
        except BaseException:
            self._slots.release()
            raise
        self._busy.add(child)
        try:
            on_begin()
            ended = await child.run(self._command(task, job, payload), on_progress)
        except (EOFError, OSError):
            how = await asyncio.shield(self._give_up(child, _EXIT_WITHIN))
            self._demand_open()
            return Failed(how), task.retry
        except msgspec.DecodeError as error:
            child.kill()
            self._give_up(child, 0.0)
            return Failed(f"its process sent what is not an answer: {error}"), task.retry
        except BaseException:
            child.kill()
            self._give_up(child, 0.0)
            raise
        self._give_back(child)
        job.carried = job.carried or ended.carried
        outcome = ended.succeeded or ended.failed or ended.snoozed
        policies = [task.retry, NO_RETRY, *task.retry.on.values()]
        return outcome or Failed("its process sent no outcome"), policies[ended.policy]

    async def close(self) -> None:
        """Let the idle children leave and kill the others; returns when none is left."""
        if self._closed:
            return
        self._closed = True
        while self._idle:
            self._dismiss(self._idle[-1])
        for child in self._busy:
            child.kill()
        for _ in range(self._limit):
            await self._slots.acquire()
        if self._endings:
            await asyncio.wait(self._endings)

    def _take(self) -> Child:
        while self._idle:
            child = self._idle[-1]
            if child.process.poll() is None:
                self._forget(child)
                return child
            self._dismiss(child)
        return Child(8 * self._max_result_bytes + _BESIDES_RESULT)

    def _give_back(self, child: Child) -> None:
        if self._closed or child.jobs >= JOBS_PER_CHILD:
            self._give_up(child, protocol.LEAVE_WITHIN)
            return
        self._busy.discard(child)
        self._idle.append(child)
        # An idle child has nothing to say: what comes is its end.
        asyncio.get_running_loop().add_reader(child.line, self._dismiss, child)
        self._slots.release()

    def _give_up(self, child: Child, patience: float) -> "asyncio.Task[str]":
        """End a busy child; its place is free when the process is gone."""
        self._busy.discard(child)
        ending = self._end(child, patience)
        ending.add_done_callback(lambda _: self._slots.release())
        return ending

    def _dismiss(self, child: Child) -> None:
        """End an idle child."""
        self._forget(child)
        self._end(child, protocol.LEAVE_WITHIN)

    def _forget(self, child: Child) -> None:
        asyncio.get_running_loop().remove_reader(child.line)
        self._idle.remove(child)

    def _end(self, child: Child, patience: float) -> "asyncio.Task[str]":
        ending = asyncio.get_running_loop().create_task(child.end(patience))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending

    def _command(self, task: Task[Any, Any], job: Job, payload: str) -> protocol.Command:
        claim = {name: getattr(job._claim, name) for name in Claim.__struct_fields__}
        command = protocol.Command(
            **(claim | {"payload": payload}),
            remaining=job.remaining,
            max_result_bytes=self._max_result_bytes,
            schema=job._channel.schema,
            installation=job._channel.installation,
            module=task.function.__module__,
            function=task.function.__qualname__,
            never=[protocol.class_name(each) for each in task.retry.never_again],
            on=[protocol.class_name(each) for each in task.retry.on],
        )
        if command.module == "__main__":
            main = sys.modules["__main__"]
            name = getattr(getattr(main, "__spec__", None), "name", "__main__")
            if name == "__main__":
                command.main_file = getattr(main, "__file__", None)
            else:
                command.main_name = name
        return command

    def _demand_open(self) -> None:
        if self._closed:
            raise SextonError("the process pool was closed before the task ended")


def _how(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = "; perhaps the machine ran out of memory" if name == "SIGKILL" else ""
    return f"its process was killed by signal {name}{hint}"


def cpus() -> int:
    """Those this process may use, which in a container are fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
