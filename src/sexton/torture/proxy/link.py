"""One connection through a proxy, and the faults that befall it."""

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

from .faults import Blackhole, Fault, HalfOpen, How, Latency, LoseReply, Trip
from .way import End, Way
from .wire import (
    CANCEL,
    CANCEL_CODE,
    ENCRYPTION_CODES,
    STARTUP,
    Framer,
    NotPostgres,
    Raw,
    asked,
    describe,
    kind,
    opening_code,
    short_name,
    transaction_status,
)

if TYPE_CHECKING:
    from .listener import Listener

ANSWER_WITHIN = 1.0  # seconds; a reply that is to be lost may never come
# Letters of messages; what is not PostgreSQL has none, and each piece of it is question and answer.
ANSWERED = ("Q", "S", "F", STARTUP, "")  # the server says when it has dealt with these
OVER = ("Z", "")  # and this is how
WAITING = ("G", "W")  # the server wants data before it goes on
OF = 60  # characters of the statement that a message belongs to
MENTIONS = ("P", "B", "Q")  # an exchange about a statement begins with one of these


class Link:
    """A client, the server behind it, and the faults of their connection."""

    def __init__(self, listener: "Listener", number: int) -> None:
        self.listener = listener
        self.number = number
        self.client = End(self)
        self.server: End | None = None
        self.up = Way(self, Raw() if listener.raw else Framer(opening=True), up=True)
        self.down = Way(self, Raw() if listener.raw else Framer(opening=False), up=False)
        self.ready = listener.raw  # has finished its start-up
        self.closed = False
        self._connecting: asyncio.Task[None] | None = None
        self._losing: bool | None = None  # the reply is to be lost; true: what asks for it has gone
        self._withheld: list[bytes] | None = None
        self._half_open = False  # one side has gone, and the other will never be told
        self._asked = ""  # the statement that it is at
        self._concerns: Trip | None = None  # has sent a statement that this trip is about
        self.on_subject = False  # and is at it just now
        self._exchange = ""  # which one of that statement, as a trip counts them
        self._said: Counter[str] = Counter()  # kinds of messages in it

    # ── sockets ─────────────────────────────────────────────────────────────

    def opened(self, end: End) -> None:
        if end is self.client:
            if self.listener.accepts(self):
                self.apply(self.listener.fault)
            else:
                self.close("reset")

    def connect(self) -> None:
        """Only now, because nothing reaches the server through a black hole, not even a SYN."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        host, port = self.listener.upstream
        end = End(self)
        try:
            if host.startswith("/"):
                path = f"{host}/.s.PGSQL.{port}"
                await loop.create_unix_connection(lambda: end, path)
            else:
                await loop.create_connection(lambda: end, host, port)
        except OSError:
            self.close("reset")
            return
        if self.closed:
            end.close("reset")
            return
        self.server = end
        self.up.pump()

    def received(self, end: End, data: bytes) -> None:
        if self.closed:
            return
        way = self.up if end is self.client else self.down
        listener, cutter = self.listener, way.cutter
        listener.bytes[way.up] += len(data)
        while data:
            before = cutter.count
            try:
                whole = cutter.feed(data)
            except NotPostgres:
                self.close("reset")
                return
            listener.messages[way.up] += cutter.count - before
            if not whole:
                return
            if self.ready:
                if listener.plain and self._losing is None:
                    way.push(whole)
                    return
            elif isinstance(cutter, Framer) and cutter.opening:
                data = cutter.rest()
                self._open(cutter, whole)
                continue
            for letter, message in cutter.split(whole):
                if self.closed:
                    return
                listener.inspect(self, way, letter, message)
            return

    def _open(self, framer: Framer, packet: bytes) -> None:
        code = opening_code(packet)
        if code in ENCRYPTION_CODES:
            self.down.push(b"N")  # in clear, please
            return
        framer.opening = False
        self.listener.inspect(self, self.up, CANCEL if code == CANCEL_CODE else STARTUP, packet)

    def ended(self, end: End, how: How) -> None:
        """One side has gone; the other learns of it behind everything that was on its way."""
        if self.closed or end.gone:
            return
        end.gone = True
        way = self.up if end is self.client else self.down
        if end is self.client and self.listener.frozen:
            self.close("fin")  # its process was killed at the message that we hold
        elif self._half_open:
            self.close(how)
        elif isinstance(self.listener.fault, HalfOpen):
            self._half_open = True
        elif self._losing is not None:
            self.close("reset")
        else:
            way.push(how)

    def close(self, how: How) -> None:
        if self.closed:
            return
        self.closed = True
        self.client.close(how)
        if self.server is not None:
            self.server.close(how)
        self.listener.closed(self)

    def cut(self, how: How, side: str) -> None:
        """As if the server, or the client, had gone; or the wire between them."""
        end = {"server": self.server, "client": self.client}.get(side)
        if end is None:
            self.close(how)
        else:
            end.close(how)
            self.ended(end, how)

    # ── faults ──────────────────────────────────────────────────────────────

    def delay(self, *, up: bool) -> float:
        fault = self.listener.fault
        if isinstance(fault, Latency) and (fault.up if up else fault.down):
            return (fault.ms + random.random() * fault.jitter_ms) / 1000
        return 0.0

    def apply(self, fault: Fault | None) -> None:
        """From now on."""
        frozen = self.listener.frozen
        self.up.blocked = frozen or (isinstance(fault, Blackhole) and fault.up)
        self.down.blocked = frozen or (isinstance(fault, Blackhole) and fault.down)
        if not isinstance(fault, LoseReply):
            self._give_back()
        self.up.pump()
        self.down.pump()

    def block(self) -> None:
        """Silence, until faults are set anew."""
        self.up.blocked = self.down.blocked = True

    def throttle(self) -> None:
        self.up.throttle()
        self.down.throttle()

    def lose(self, way: Way, letter: str, message: bytes) -> None:
        """From this message on the server hears everything and nobody hears the server."""
        self._losing = not way.up
        asyncio.get_running_loop().call_later(ANSWER_WITHIN, self.close, "reset")
        self.forward(way, letter, message)

    def forward(self, way: Way, letter: str, message: bytes) -> None:
        """Pass a message on, unless it belongs to a reply that is to be lost."""
        if way.up:
            self._ask(letter)
            way.push(message)
        elif self._losing is not None:
            if (letter in OVER and self._losing) or letter in WAITING:
                self.close("reset")
        elif self._withheld is None:
            way.push(message)
        elif letter in OVER and transaction_status(letter, message) == "I":
            self.close("reset")
        else:
            self._withheld.append(message)
            if letter in OVER or letter in WAITING:
                self._give_back()
        if letter == "Z" and not way.up:
            self.ready = True

    def _ask(self, letter: str) -> None:
        if letter not in ANSWERED:
            return
        if self._losing is not None:
            self._losing = True
        fault = self.listener.fault
        if self.ready and isinstance(fault, LoseReply) and random.random() < fault.share:
            self._withheld = []

    def _give_back(self) -> None:
        withheld, self._withheld = self._withheld, None
        for message in withheld or ():
            self.down.push(message)

    # ── what is said ────────────────────────────────────────────────────────

    def hears(self, way: Way, letter: str, message: bytes) -> None:
        """Remember what is being asked here, for reports and for trips that are about it."""
        if way.up and (sql := asked(letter, message, self._statements)) is not None:
            self._asked = sql

    def concerns(self, trip: Trip) -> bool:
        """Whether a statement that the trip is about has been sent here since it was armed."""
        self.on_subject = any(each in self._asked for each in trip.about)
        if self.on_subject:
            self._concerns = trip
        return self._concerns is trip

    def place(self, exchanges: Counter[str], *, up: bool, letter: str) -> str:
        """Which message this is: of which exchange about which statement, of those counted here.

        A statement that a connection does not know yet is parsed first, which counts by itself.
        """
        name = kind(up, letter)
        if up and letter in MENTIONS:
            exchange = f"{short_name(self._asked)}/{name}"
            exchanges[exchange] += 1
            self._exchange = f"{exchange} {exchanges[exchange]}"
            self._said.clear()
        self._said[name] += 1
        nth = self._said[name]
        return f"{self._exchange}/{name}{f' {nth}' if nth > 1 else ''}"

    @property
    def _statements(self) -> dict[bytes, str]:
        return self.up.cutter.statements if isinstance(self.up.cutter, Framer) else {}

    def text(self, way: Way, letter: str, message: bytes) -> str:
        said = describe(way.up, letter, message, self._statements)
        return said if self._asked in said else f"{said} ({self._asked[:OF]})"
