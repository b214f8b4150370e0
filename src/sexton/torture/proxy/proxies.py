"""The hand that holds the proxies: starts their process, tells it what to do, ends it."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from sexton.torture.answering import Answering, Gone

from .faults import Fault, How, Tally, Trip, Tripped, to_json

Upstream = tuple[
    str, int
]  # a host and a port; a host that begins with / is a folder of Unix sockets


class ProxyError(Gone):
    """The proxies' process has refused something, or is gone."""


class Superseded(ProxyError):
    """Another trip has taken the place of the one that was waited for."""


class Proxies(Answering):
    """TCP proxies in a process of their own, each on a port of 127.0.0.1 for one of the rig's."""

    gone = ProxyError

    def __init__(self) -> None:
        super().__init__("sexton.torture.proxy")
        self._trips: dict[str, asyncio.Future[Tripped]] = {}

    # ── words ───────────────────────────────────────────────────────────────

    async def open(self, name: str, upstream: Upstream, *, raw: bool = False, port: int = 0) -> int:
        """A port on 127.0.0.1 that leads to `upstream`; `raw` for what is not PostgreSQL."""
        return int(await self._do("open", name=name, upstream=upstream, raw=raw, port=port))

    async def close(self, name: str) -> None:
        """Its port listens no more, and its connections are reset."""
        await self._do("close", name=name)

    async def retarget(self, upstream: Upstream, names: Iterable[str] | None = None) -> None:
        """New connections to PostgreSQL go there; those there are stay unless they are cut."""
        chosen = None if names is None else list(names)
        await self._do("retarget", upstream=upstream, names=chosen)

    async def set(self, name: str, fault: Fault | None) -> None:
        """A fault for present and future connections; None lifts it, and a trip's blackhole."""
        await self._do("set", name=name, fault=to_json(fault))

    async def cut(
        self, name: str, how: How = "reset", side: Literal["both", "server", "client"] = "both"
    ) -> int:
        """All present connections, now; answers how many. One side only: with `HalfOpen`."""
        return int(await self._do("cut", name=name, how=how, side=side))

    async def arm(self, name: str, trip: Trip | None) -> None:
        """Once, at the message that is meant; counts anew, forgets the trip before."""
        forgotten = self._trips.pop(name, None)
        if forgotten is not None:
            forgotten.cancel()
        self._trips[name] = asyncio.get_running_loop().create_future()
        await self._do("arm", name=name, trip=None if trip is None else asdict(trip))

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
        await self._do("release", name=name)

    async def tally(self, name: str) -> Tally:
        answer = await self._do("tally", name=name)
        lists = {name: tuple(answer[name]) for name in ("log", "places", "links")}
        return Tally(**{**answer, **lists})

    # ── lines ───────────────────────────────────────────────────────────────

    async def _do(self, word: str, **told: Any) -> Any:
        said = await self._ask(do=word, **told)
        if "error" in said:
            raise ProxyError(said["error"])
        return said["answer"]

    def _says(self, said: dict[str, Any]) -> None:
        self._went_off(said.pop("tripped"), Tripped(**said))

    def _went_off(self, name: str, tripped: Tripped) -> None:
        trip = self._trips.get(name)
        if trip is not None and not trip.done():
            trip.set_result(tripped)
