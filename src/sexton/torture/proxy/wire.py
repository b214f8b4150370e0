"""The framing of PostgreSQL's protocol: where a message begins and ends, and what it says."""

import struct
from collections.abc import Iterator
from typing import Protocol

STARTUP = "!"
CANCEL = "#"
CANCEL_CODE = 80877102
ENCRYPTION_CODES = (80877103, 80877104)  # SSLRequest, GSSENCRequest
LONGEST = 2**30  # PostgreSQL's own limit
TEXT = 200  # of a statement, in what is reported
NAME = 40  # of one that has no name

_LENGTH = struct.Struct("!I")
_OPENING = struct.Struct("!II")
_PARSE = ord("P")

FRONTEND = {
    STARTUP: "StartupMessage",
    CANCEL: "CancelRequest",
    "B": "Bind",
    "C": "Close",
    "D": "Describe",
    "E": "Execute",
    "F": "FunctionCall",
    "H": "Flush",
    "P": "Parse",
    "Q": "Query",
    "S": "Sync",
    "X": "Terminate",
    "c": "CopyDone",
    "d": "CopyData",
    "f": "CopyFail",
    "p": "PasswordMessage",
}
BACKEND = {
    "1": "ParseComplete",
    "2": "BindComplete",
    "3": "CloseComplete",
    "A": "NotificationResponse",
    "C": "CommandComplete",
    "D": "DataRow",
    "E": "ErrorResponse",
    "G": "CopyInResponse",
    "H": "CopyOutResponse",
    "I": "EmptyQueryResponse",
    "K": "BackendKeyData",
    "N": "NoticeResponse",
    "R": "Authentication",
    "S": "ParameterStatus",
    "T": "RowDescription",
    "W": "CopyBothResponse",
    "Z": "ReadyForQuery",
    "c": "CopyDone",
    "d": "CopyData",
    "n": "NoData",
    "s": "PortalSuspended",
    "t": "ParameterDescription",
    "v": "NegotiateProtocolVersion",
}


class NotPostgres(Exception):
    """These bytes are not PostgreSQL's protocol."""


class Cutter(Protocol):
    """Cuts a stream into messages."""

    count: int

    def feed(self, data: bytes) -> bytes: ...

    def split(self, data: bytes) -> Iterator[tuple[str, bytes]]: ...


class Framer:
    """One direction of a connection: keeps back what is not a whole message yet.

    So whatever was passed on ends at the end of a message, and a trip can be armed at any time.
    """

    def __init__(self, *, opening: bool) -> None:
        self.count = 0
        self.opening = opening  # the first packets of a client have no letter
        self.statements: dict[bytes, str] = {}  # by name, for reports
        self._rest = bytearray()
        self._need = 0

    def feed(self, data: bytes) -> bytes:
        """The whole messages there are by now."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return b""
            data = bytes(self._rest)
            self._rest.clear()
        end, size = 0, len(data)
        lead = 0 if self.opening else 1
        need = 4 + lead
        while end + 4 + lead <= size:
            length = _LENGTH.unpack_from(data, end + lead)[0]
            if not 4 <= length <= LONGEST:
                raise NotPostgres(f"a message of {length} bytes")
            need = length + lead
            if end + need > size:
                break
            if lead and data[end] == _PARSE:
                self._remember(data, end)
            end += need
            self.count += 1
            need = 4 + lead
            if not lead:
                break  # what follows depends on what this was
        if end < size:
            self._rest += data[end:]
            self._need = need
            return data[:end]
        return data

    def split(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Each of these whole messages with its letter."""
        at = 0
        while at < len(data):
            end = at + 1 + _LENGTH.unpack_from(data, at + 1)[0]
            yield chr(data[at]), data[at:end]
            at = end

    def rest(self) -> bytes:
        """What came after a packet without a letter, to be fed again."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest

    def _remember(self, data: bytes, at: int) -> None:
        name, _, rest = data[at + 5 : at + 5 + 64 + TEXT * 4].partition(b"\0")
        self.statements[name] = _text(rest.partition(b"\0")[0])


class Raw:
    """Any other protocol: each piece that arrives counts as one message."""

    def __init__(self) -> None:
        self.count = 0

    def feed(self, data: bytes) -> bytes:
        self.count += 1
        return data

    def split(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        yield "", data


def opening_code(packet: bytes) -> int:
    """Which kind of packet without a letter this is; 0 if it says nothing."""
    return int(_OPENING.unpack_from(packet)[1]) if len(packet) >= 8 else 0


def transaction_status(letter: str, message: bytes) -> str:
    """Of ReadyForQuery: I outside of a transaction, T within, E within one that has failed."""
    return chr(message[5]) if letter == "Z" else "I"


def asked(letter: str, message: bytes, statements: dict[bytes, str]) -> str | None:
    """The beginning of the statement that a client's message carries or names; None: neither."""
    body = message[5:]
    match letter:
        case "Q":
            return _text(body.partition(b"\0")[0])
        case "P":
            return _text(body.partition(b"\0")[2].partition(b"\0")[0])
        case "B":
            return statements.get(body.partition(b"\0")[2].partition(b"\0")[0], "")
    return None


def kind(frontend: bool, letter: str) -> str:
    """What a message is called."""
    return (FRONTEND if frontend else BACKEND).get(letter, letter or "bytes")


def describe(frontend: bool, letter: str, message: bytes, statements: dict[bytes, str]) -> str:
    """A message in a few words, for people."""
    name = kind(frontend, letter)
    body = message[5:]
    said: str | None = ""
    if frontend:
        said = asked(letter, message, statements)
        if letter in ("C", "D") and body[:1] == b"S":
            said = statements.get(body[1:].partition(b"\0")[0])
    elif letter == "C":
        said = _text(body.rstrip(b"\0"))
    elif letter == "Z":
        said = transaction_status(letter, message)
    elif letter == "E":
        said = _text(b" ".join(part[1:] for part in body.split(b"\0") if part[:1] in (b"C", b"M")))
    return f"{name} {said or ''}".rstrip()


def short_name(sql: str) -> str:
    """A statement in a word or a few: those of ours begin with a comment that names them."""
    comment = sql.split(maxsplit=2)
    if len(comment) > 1 and comment[0] == "--" and "." in comment[1]:
        return comment[1].rpartition(".")[2]
    begins = sql.partition(";")[0]
    return begins if len(begins) <= NAME else begins[:NAME].rpartition(" ")[0] or begins[:NAME]


def shortened(sql: str) -> str:
    """A statement as it appears in reports, and as `Trip.about` has to name it."""
    return " ".join(sql[: TEXT * 4].split())[:TEXT]


def _text(data: bytes) -> str:
    return shortened(data[: TEXT * 4].decode("utf-8", "replace"))
