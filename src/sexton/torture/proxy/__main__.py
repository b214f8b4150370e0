"""The process that hosts every proxy: told what to do in lines of JSON, gone with its teller."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from .faults import Tripped, fault_from, trip_from
from .listener import Listener

Told = dict[str, Any]


class Host:
    """Every listener by its name, and one method for each word."""

    def __init__(self) -> None:
        self._listeners: dict[str, Listener] = {}

    async def open(self, told: Told) -> int:
        name = told["name"]
        if name in self._listeners:
            raise ValueError(f"{name} is open already")
        listener = Listener(name, _address(told), _tripped, raw=told.get("raw", False))
        port = await listener.listen(told.get("port", 0))
        self._listeners[name] = listener
        return port

    async def close(self, told: Told) -> None:
        self._listeners.pop(told["name"]).close()

    async def retarget(self, told: Told) -> None:
        """Without names: all that lead to PostgreSQL."""
        every = [name for name, each in self._listeners.items() if not each.raw]
        for name in told["names"] or every:
            self._listeners[name].upstream = _address(told)

    async def set(self, told: Told) -> None:
        self._of(told).set(fault_from(told["fault"]))

    async def release(self, told: Told) -> None:
        self._of(told).release()

    async def cut(self, told: Told) -> int:
        return self._of(told).cut(told["how"], told["side"])

    async def arm(self, told: Told) -> None:
        self._of(told).arm(None if told["trip"] is None else trip_from(told["trip"]))

    async def tally(self, told: Told) -> dict[str, Any]:
        return asdict(self._of(told).tally())

    def _of(self, told: Told) -> Listener:
        return self._listeners[told["name"]]

    async def obey(self, line: bytes) -> Told:
        told: Told = json.loads(line)
        verbs: dict[str, Callable[[Told], Awaitable[Any]]] = {
            verb.__name__: verb
            for verb in (
                *(self.open, self.close, self.retarget, self.set),
                *(self.release, self.cut, self.arm, self.tally),
            )
        }
        try:
            answer = await verbs[told["do"]](told)
        except (KeyError, ValueError, TypeError, OSError) as error:
            return {"n": told.get("n"), "error": f"{type(error).__name__}: {error}"}
        return {"n": told["n"], "answer": answer}


def _address(told: Told) -> tuple[str, int]:
    host, port = told["upstream"]
    return host, port


def _say(answer: Told) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def _tripped(name: str, tripped: Tripped) -> None:
    _say({"tripped": name, **asdict(tripped)})


async def serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    host = Host()
    while line := await reader.readline():
        _say(await host.obey(line))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve())
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())


if __name__ == "__main__":
    main()
