"""One listening port: its connections, what goes wrong there, and what went through."""

import asyncio
from collections import Counter
from collections.abc import Callable

from .faults import Blackhole, Fault, How, LoseReply, Refuse, Tally, Trip, Tripped
from .link import Link
from .way import End, Way

Report = Callable[[str, Tripped], None]


class Listener:
    """The proxy of one process."""

    def __init__(self, name: str, upstream: tuple[str, int], report: Report, *, raw: bool) -> None:
        self.name = name
        self.upstream = upstream
        self.raw = raw
        self.fault: Fault | None = None
        self.frozen = False  # a trip holds everything
        self._report = report
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._accepted = 0
        self._trip: Trip | None = None
        self._begin()

    async def listen(self, port: int) -> int:
        """On that one; 0: on one that is free."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", port, backlog=256)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut("reset")

    def _accept(self) -> End:
        self._accepted += 1
        return Link(self, self._accepted).client

    def accepts(self, link: Link) -> bool:
        self._connections += 1
        self._links.add(link)
        return not isinstance(self.fault, Refuse)

    def closed(self, link: Link) -> None:
        self._links.discard(link)

    # ── faults ──────────────────────────────────────────────────────────────

    def set(self, fault: Fault | None) -> None:
        self.fault = fault
        self._apply()

    def release(self) -> None:
        """What a trip held goes on its way."""
        self.frozen = False
        self._apply()

    def _apply(self) -> None:
        self._judge()
        for link in list(self._links):
            link.apply(self.fault)

    def cut(self, how: How, side: str = "both") -> int:
        links = list(self._links)
        for link in links:
            link.cut(how, side)
        return len(links)

    def _judge(self) -> None:
        """Whether bytes may pass without a look at each message."""
        self.plain = self._trip is None and not isinstance(self.fault, LoseReply)

    # ── trips ───────────────────────────────────────────────────────────────

    def arm(self, trip: Trip | None) -> None:
        self._trip = trip
        self._begin()

    def inspect(self, link: Link, way: Way, letter: str, message: bytes) -> None:
        trip = self._trip
        if trip is not None:
            link.hears(way, letter, message)
        if trip is None or (trip.about and not link.concerns(trip)):
            link.forward(way, letter, message)
            return
        place = ""
        if trip.about:
            place = link.place(self._exchanges, up=way.up, letter=letter)
            self._places.append(place)
            self._numbers.append(link.number)
        if not self._matches(trip, link, way, letter):
            link.forward(way, letter, message)
            return
        self._matched += 1
        if trip.log:
            arrow = "→" if way.up else "←"
            mark = "*" if link.on_subject else " "
            self._log.append(f"{mark} {link.number} {arrow} {link.text(way, letter, message)}")
        here = place == trip.place if trip.place else self._matched == trip.at
        if here and trip.do != "count":
            self._go_off(trip, link, way, letter, message)
        else:
            link.forward(way, letter, message)

    @staticmethod
    def _matches(trip: Trip, link: Link, way: Way, letter: str) -> bool:
        return (
            trip.side in ("both", "frontend" if way.up else "backend")
            and (not trip.types or letter in trip.types)
            and (link.ready or not trip.ready)
        )

    def _go_off(self, trip: Trip, link: Link, way: Way, letter: str, message: bytes) -> None:
        self._trip = None
        text = link.text(way, letter, message)
        side = "frontend" if way.up else "backend"
        hit = [link] if trip.scope == "link" else list(self._links)
        if trip.do == "lose_reply":
            link.lose(way, letter, message)
        else:
            if trip.when == "after":
                link.forward(way, letter, message)
            if trip.do == "hold":
                self.frozen = True
                hit = list(self._links)
            elif trip.do == "blackhole" and trip.scope == "all":
                self.fault = Blackhole()
            for each in hit:
                if trip.do in ("reset", "fin"):
                    each.close("reset" if trip.do == "reset" else "fin")
                else:
                    each.block()
            if trip.when == "before" and not link.closed:
                link.forward(way, letter, message)  # to be held
        self._judge()
        self._report(self.name, Tripped(side, letter, self._matched, link.number, text))

    # ── counting ────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        self._judge()
        self._connections = self._matched = 0
        self.messages = [0, 0]  # down, up
        self.bytes = [0, 0]
        self._log: list[str] = []
        self._places: list[str] = []
        self._numbers: list[int] = []
        self._exchanges: Counter[str] = Counter()

    def tally(self) -> Tally:
        return Tally(
            connections=self._connections,
            open=len(self._links),
            frontend=self.messages[True],
            backend=self.messages[False],
            bytes_up=self.bytes[True],
            bytes_down=self.bytes[False],
            matched=self._matched,
            log=tuple(self._log),
            places=tuple(self._places),
            links=tuple(self._numbers),
        )
