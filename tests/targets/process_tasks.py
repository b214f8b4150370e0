"""Tasks that the tests' child processes import."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from sexton import Job, PermanentFailure, Retry, RetryAfter, Sexton, Snooze, Task

app = Sexton("postgresql://nobody@nowhere/none")


class Throttled(Exception):
    """Has a policy of its own."""


class VeryThrottled(Throttled):
    """Has its base's."""


class Hopeless(Exception):
    """Is never tried again."""


SLOWLY = Retry(max_attempts=50, base=60)
POLICY = Retry(max_attempts=3, on={ConnectionError: Retry(), Throttled: SLOWLY}, never=(Hopeless,))
ERRORS: dict[str, Callable[[], BaseException]] = {
    "value": lambda: ValueError("no good\x00"),
    "throttled": lambda: VeryThrottled("slow down"),
    "hopeless": lambda: Hopeless("never"),
    "permanent": lambda: PermanentFailure("give up"),
    "snooze": lambda: Snooze(30, "not now"),
    "retry_after": lambda: RetryAfter(7, "busy"),
    "exit": lambda: SystemExit(4),
}


@app.task(process=True)
def add(a: int, b: int = 10) -> int:
    return a + b


@app.task(process=True)
async def add_slowly(a: int, b: int) -> int:
    import asyncio

    await asyncio.sleep(0)
    return a + b


@app.task(process=True)
def pid() -> int:
    return os.getpid()


@app.task(process=True, timeout=60)
def describe(job: Job) -> dict[str, Any]:
    assert job.remaining is not None
    return {
        "id": job.id,
        "attempt": job.attempt,
        "fence": job.fence,
        "key": job.key,
        "idempotency_key": job.idempotency_key,
        "created_at": job.created_at,
        "due_at": job.due_at,
        "in_time": 0 < job.remaining <= 60,
    }


@app.task(process=True, retry=POLICY)
def fail(how: str) -> None:
    raise ERRORS[how]()


@app.task(process=True)
def leave(code: int) -> None:
    os._exit(code)


@app.task(process=True)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task(process=True)
def burn(job: Job) -> None:
    """Python code that never ends."""
    job.progress(os.getpid())
    while True:
        pass


@app.task(process=True)
def burn_in_c(job: Job) -> None:
    """C code that keeps the GIL and never ends."""
    job.progress(os.getpid())
    ctypes.PyDLL(None).sleep(1000)


@app.task(process=True)
def burn_with_help(job: Job) -> None:
    """A program started by the task, which would outlive it; it holds our stdout."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    job.progress([os.getpid(), program.pid])
    program.wait()


@app.task(process=True)
def count(job: Job, to: int) -> str:
    for number in range(to):
        job.progress({"done": number})
    return "counted"


@app.task(process=True)
def report_the_unreportable(job: Job) -> None:
    job.progress(object())


@app.task(process=True)
def shout() -> str:
    print('{"type": "ended"}' * 1000)
    os.write(1, b"\x00\x00\x00\x02{}\n" * 1000)
    os.write(2, b"\xff\xff\xff\xff\n")
    return "shouted"


@app.task(process=True)
def return_much(size: int) -> str:
    return "x" * size


@app.task(process=True)
def return_an_object() -> object:
    return object()


@app.task(process=True)
def write_garbage_to_every_socket() -> None:
    for fd in range(3, 4096):
        try:
            os.write(fd, b"\x00\x00\x00\x05hello")
        except OSError:
            continue
    time.sleep(1000)


@app.task(process=True)
def close_every_file() -> None:
    os.closerange(3, 4096)


@app.task(process=True)
def fork_and_return() -> int:
    """Both copies return; only one of them may be heard."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return child


@app.task(process=True)
def leave_a_chatty_thread(job: Job) -> None:
    def chat() -> None:
        while True:
            job.progress("from the past")

    threading.Thread(target=chat, daemon=True).start()


@app.task(process=True)
async def use_the_workers_connection(job: Job) -> None:
    async with job.transaction():
        pass


@app.task(process=True)
def is_signalled() -> str:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def undecorated(a: int) -> int:
    """The task has another name than the function."""
    return -a


negate: Task[..., int] = app.task(process=True, name="negate")(undecorated)
