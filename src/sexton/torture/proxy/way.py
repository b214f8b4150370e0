"""The two sockets of a connection, and what is under way between them in one direction."""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, cast

from .faults import How
from .wire import Cutter

if TYPE_CHECKING:
    from .link import Link

MOST_HELD = 2**20  # bytes; beyond that the sender has to wait, as with a full window
FLUSH_WITHIN = 0.5
RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time


class End(asyncio.Protocol):
    """One socket of a connection."""

    def __init__(self, link: "Link") -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.gone = False
        self.full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.link.opened(self)

    def data_received(self, data: bytes) -> None:
        self.link.received(self, data)

    def eof_received(self) -> bool:
        self.link.ended(self, "fin")
        return True  # we decide when to close

    def connection_lost(self, error: Exception | None) -> None:
        self.link.ended(self, "fin" if error is None else "reset")
        self.gone = True

    def pause_writing(self) -> None:
        self.full = True
        self.link.throttle()

    def resume_writing(self) -> None:
        self.full = False
        self.link.throttle()

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.gone:
            self.transport.write(data)

    def close(self, how: How) -> None:
        """What was written before still goes out."""
        if self.transport is None or self.transport.is_closing():
            return
        if how == "reset":
            with contextlib.suppress(OSError, AttributeError):
                connection = self.transport.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.close()
        if self.transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(FLUSH_WITHIN, self.transport.abort)


class Way:
    """One direction: messages and the end of the connection, in order."""

    def __init__(self, link: "Link", cutter: Cutter, *, up: bool) -> None:
        self.link = link
        self.cutter = cutter
        self.up = up
        self.blocked = False
        self._held = 0
        self._paused = False
        self._queue: deque[tuple[float, bytes | How]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def source(self) -> End | None:
        return self.link.client if self.up else self.link.server

    @property
    def target(self) -> End | None:
        return self.link.server if self.up else self.link.client

    def push(self, item: bytes | How) -> None:
        if self.link.listener.fault is None and not self.blocked and not self._queue:
            target = self.target
            if target is not None and isinstance(item, bytes):
                target.write(item)
                return
        delay = self.link.delay(up=self.up)
        if not (self._queue or self.blocked or delay or self.target is None):
            self._deliver(item)
            return
        self._queue.append((asyncio.get_running_loop().time() + delay if delay else 0.0, item))
        if isinstance(item, bytes):
            self._held += len(item)
        self.pump()

    def pump(self) -> None:
        """Deliver what may be delivered by now."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue and not self.blocked and not self.link.closed:
            if self.target is None:
                self.link.connect()
                break
            due, item = self._queue[0]
            if due > loop.time():
                self._timer = loop.call_at(due, self.pump)
                break
            self._queue.popleft()
            if isinstance(item, bytes):
                self._held -= len(item)
            self._deliver(item)
        self.throttle()

    def throttle(self) -> None:
        """Let the sender wait while its receiver does not keep up."""
        source, target = self.source, self.target
        pause = self._held > MOST_HELD or (target is not None and target.full)
        if pause == self._paused or source is None or source.transport is None or source.gone:
            return
        self._paused = pause
        if pause:
            source.transport.pause_reading()
        else:
            source.transport.resume_reading()

    def _deliver(self, item: bytes | How) -> None:
        if isinstance(item, bytes):
            assert self.target is not None
            self.target.write(item)
        else:
            self.link.close(item)
