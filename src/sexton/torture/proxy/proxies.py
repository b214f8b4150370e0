"""The hand that holds the proxies: starts their process, tells it what to do, ends it."""

import asyncio
import itertools
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal, Self

from .faults import Fault, How, Tally, Trip, Tripped, to_json

Upstream = tuple[
    str, int
]  # a host and a port; a host that begins with / is a folder of Unix sockets
END_WITHIN = 5.0


class ProxyError(Exception):
    """The proxies' process has refused something, or is gone."""


class Superseded(ProxyError):
    """Another trip has taken the place of the one that was waited for."""


class Proxies:
    """TCP proxies in a process of their own, each on a port of 127.0.0.1 for one of the rig's."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._number = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._trips: dict[str, asyncio.Future[Tripped]] = {}

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sexton.torture.proxy"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=2**24,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    # ── words ───────────────────────────────────────────────────────────────

    async def open(self, name: str, upstream: Upstream, *, raw: bool = False, port: int = 0) -> int:
        """A port on 127.0.0.1 that leads to `upstream`; `raw` for what is not PostgreSQL."""
        return int(await self._ask("open", name=name, upstream=upstream, raw=raw, port=port))

    async def close(self, name: str) -> None:
        """Its port listens no more, and its connections are reset."""
        await self._ask("close", name=name)

    async def retarget(self, upstream: Upstream, names: Iterable[str] | None = None) -> None:
        """New connections to PostgreSQL go there; those there are stay unless they are cut."""
        chosen = None if names is None else list(names)
        await self._ask("retarget", upstream=upstream, names=chosen)

    async def set(self, name: str, fault: Fault | None) -> None:
        """A fault for present and future connections; None lifts it, and a trip's blackhole."""
        await self._ask("set", name=name, fault=to_json(fault))

    async def cut(
        self, name: str, how: How = "reset", side: Literal["both", "server", "client"] = "both"
    ) -> int:
        """All present connections, now; answers how many. One side only: with `HalfOpen`."""
        return int(await self._ask("cut", name=name, how=how, side=side))

    async def arm(self, name: str, trip: Trip | None) -> None:
        """Once, at the message that is meant; counts anew, forgets the trip before."""
        forgotten = self._trips.pop(name, None)
        if forgotten is not None:
            forgotten.cancel()
        self._trips[name] = asyncio.get_running_loop().create_future()
        await self._ask("arm", name=name, trip=None if trip is None else asdict(trip))

    async def tripped(self, name: str, timeout: float | None = None) -> Tripped:
        """Wait until the trip has gone off."""
        trip = self._trips[name]
        done, _ = await asyncio.wait({trip}, timeout=timeout)
        if not done:
            raise TimeoutError(f"the trip of {name} did not go off in {timeout} s")
        if trip.cancelled():
            raise Superseded(f"{name} was armed anew")
        return trip.result()

    def has_tripped(self, name: str) -> Tripped | None:
        trip = self._trips.get(name)
        return trip.result() if trip is not None and trip.done() else None

    async def release(self, name: str) -> None:
        """What `hold` holds goes on its way, if its process still is; new ones may come."""
        await self._ask("release", name=name)

    async def tally(self, name: str) -> Tally:
        answer = await self._ask("tally", name=name)
        lists = {name: tuple(answer[name]) for name in ("log", "places", "links")}
        return Tally(**{**answer, **lists})

    # ── lines ───────────────────────────────────────────────────────────────

    async def _ask(self, word: str, **told: Any) -> Any:
        process = self._process
        if process is None or process.stdin is None or process.returncode is not None:
            raise ProxyError("the proxies' process is not running")
        number = next(self._number)
        self._asked[number] = asyncio.get_running_loop().create_future()
        process.stdin.write(json.dumps({"n": number, "do": word, **told}).encode() + b"\n")
        return await self._asked[number]

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            if "tripped" in said:
                self._went_off(said.pop("tripped"), Tripped(**said))
                continue
            asked = self._asked.pop(said["n"])
            if asked.done():
                continue
            if "error" in said:
                asked.set_exception(ProxyError(said["error"]))
            else:
                asked.set_result(said["answer"])
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ProxyError("the proxies' process has ended"))

    def _went_off(self, name: str, tripped: Tripped) -> None:
        trip = self._trips.get(name)
        if trip is not None and not trip.done():
            trip.set_result(tripped)
