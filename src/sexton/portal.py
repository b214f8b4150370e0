"""An event loop in a thread of its own, for callers who have none."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Runs coroutines for synchronous callers; started when first needed, anew after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; blocks this thread, so not for use inside an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(work, self._running_loop()).result()
        work.close()
        raise RuntimeError("this thread runs an event loop: await the asynchronous method instead")

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="sexton-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the thread; a later `run` starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None and self._thread is not None and self._pid == os.getpid():
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
                loop.close()
