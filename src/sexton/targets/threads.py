"""Plain functions in daemon threads, which can be told to stop while they run Python code."""

import contextvars
import ctypes
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

_ABSORB_FOR = 1.0


class ThreadCall:
    """One call in a thread; `interrupt` raises an exception in it, at its next bytecode."""

    def __init__(self, function: Callable[[], Any], done: Callable[["ThreadCall"], None]) -> None:
        self._function = contextvars.copy_context().run
        self._call = function
        self._done = done
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._interrupted = False
        self._unwanted: type[BaseException] | None = None
        self._began: float | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._lock:
                if self._unwanted is not None:
                    raise self._unwanted
                self._thread = threading.get_ident()
                self._began = time.monotonic()
            self.result = self._function(self._call)
        except BaseException as error:
            self.error = error
        # An interrupt that was sent but has not arrived yet must not hit the next call.
        try:
            with self._lock:
                self._thread = None
                pending = self._interrupted and self.error is None
            until = time.monotonic() + _ABSORB_FOR
            while pending and time.monotonic() < until:
                time.sleep(0.001)
        except BaseException as error:
            self._thread = None
            self.error = self.error or error
        self._done(self)

    def left(self, timeout: float) -> float:
        """Of so much time: its own, which begins when a thread has taken it up."""
        began = self._began
        return timeout if began is None else began + timeout - time.monotonic()

    def interrupt(self, exception: type[BaseException]) -> bool:
        """False if the call is not running, or was interrupted before."""
        with self._lock:
            if self._thread is None or self._interrupted:
                self._unwanted = exception  # in case it has not begun yet
                return False
            self._interrupted = True
            set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
            return bool(set_exception(ctypes.c_ulong(self._thread), ctypes.py_object(exception)))


class ThreadPool:
    """As many daemon threads as there are calls at once; they do not keep the process alive."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0

    def start(self, call: ThreadCall) -> None:
        with self._lock:
            self._busy += 1
            grow = self._busy > self._threads
            self._threads += grow
        if grow:
            try:
                threading.Thread(target=self._work, name="sexton-task", daemon=True).start()
            except RuntimeError:
                with self._lock:
                    self._busy -= 1
                    self._threads -= 1
                raise
        self._calls.put(call)

    def close(self) -> None:
        with self._lock:
            idle, self._threads = self._threads, 0
        for _ in range(idle):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.run()
            with self._lock:
                self._busy -= 1
