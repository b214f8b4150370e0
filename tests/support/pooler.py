"""A transaction pooler: real bytes, real backends, a different one for every transaction.

It does what PgBouncer does with `pool_mode = transaction` and no support for prepared statements,
only harder: PgBouncer may happen to lend the same backend twice, this one never does. Whoever
leaves something in a session (a named statement, a SET, a LISTEN, a lock) does not find it again.
"""

import asyncio
import contextlib
import itertools
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from .postgres import Postgres
from .processes import until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, PROTOCOL_3 = 80877103, 80877104, 80877102, 196608
ALLOWED = {
    *("user", "database", "application_name", "client_encoding"),
    *("datestyle", "timezone", "standard_conforming_strings"),
}
END_OF_BATCH = (b"Q", b"S", b"F")  # each is answered by one ReadyForQuery
RESIDUE = """
    select 'statement ' || name from pg_prepared_statements
    union all select 'listen ' || channel from pg_listening_channels() as channel
    union all select 'lock ' || objid from pg_locks
        where locktype = 'advisory' and pid = pg_backend_pid()
    union all select 'setting ' || name from pg_settings
        where source = 'session' and setting is distinct from reset_val
    union all select 'cursor ' || name from pg_cursors where is_holdable
    union all select 'table ' || relname from pg_class where relnamespace = pg_my_temp_schema()
"""


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One message: its kind, and all its bytes."""
    head = await reader.readexactly(5)
    body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
    return head[:1], head + body


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


class Backend:
    """One real session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.greeting = b""  # the parameter statuses, for clients
        self.key = b""

    @classmethod
    async def open(cls, path: Path, database: str) -> "Backend":
        backend = cls(*await asyncio.open_unix_connection(str(path)))
        words = b"\0".join([b"user", b"postgres", b"database", database.encode(), b"", b""])
        body = struct.pack("!i", PROTOCOL_3) + words
        backend.writer.write(struct.pack("!i", len(body) + 4) + body)
        while True:
            kind, message = await _read(backend.reader)
            if kind == b"E":
                raise ConnectionError(message.decode(errors="replace"))
            if kind == b"S":
                backend.greeting += message
            elif kind == b"K":
                backend.key = message[5:]
            elif kind == b"Z":
                return backend

    async def ask(self, query: str) -> list[str]:
        """The first column of a simple query."""
        self.writer.write(_message(b"Q", query.encode() + b"\0"))
        found = []
        while True:
            kind, message = await _read(self.reader)
            if kind == b"D":
                length = int.from_bytes(message[7:11])
                found.append(message[11 : 11 + length].decode())
            elif kind == b"E":
                raise ConnectionError(message.decode(errors="replace"))
            elif kind == b"Z":
                return found


class Client:
    """One client, and the backend it has until its transaction ends."""

    def __init__(self, writer: asyncio.StreamWriter, key: bytes) -> None:
        self.writer = writer
        self.key = key
        self.backend: Backend | None = None
        self.before: Backend | None = None
        self.unanswered = 0
        self.half_sent = False
        self.frozen = False
        self.answering: asyncio.Task[None] | None = None


class TransactionPooler:
    """Lends a few backends of one database to any number of clients.

    A forgiving one does not mind what else they ask for when they connect, as PgBouncer with
    `ignore_startup_parameters`: they do not learn that it is there.
    """

    def __init__(
        self, path: Path, database: str, size: int = 4, *, forgiving: bool = False
    ) -> None:
        assert size >= 2, "otherwise there is no other backend to lend"
        self._socket = path
        self._database = database
        self._size = size
        self._forgiving = forgiving
        self._idle: list[Backend] = []
        self._returned = asyncio.Condition()
        self._clients: dict[bytes, Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = itertools.count(1)
        self._server: asyncio.Server | None = None
        self.lent = 0

    async def __aenter__(self) -> "TransactionPooler":
        for _ in range(self._size):
            self._idle.append(await Backend.open(self._socket, self._database))
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for backend in self._idle:
            backend.writer.transport.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 1)

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}/{self._database}"

    async def residue(self) -> set[str]:
        """What clients left in the sessions; call it when all of them are gone."""
        async with self._returned:
            await self._returned.wait_for(lambda: len(self._idle) == self._size)
        return {each for backend in self._idle for each in await backend.ask(RESIDUE)}

    def freeze(self) -> None:
        """The clients there are hear nothing any more, and are not hung up on; new ones do."""
        for client in self._clients.values():
            client.frozen = True

    # ── clients ─────────────────────────────────────────────────────────────

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(writer, struct.pack("!ii", next(self._number), 4711))
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                if await self._greet(client, reader):
                    self._clients[client.key] = client
                    await self._forward(client, reader)
        finally:
            self._clients.pop(client.key, None)
            await self._give_up(client)
            writer.transport.abort()

    async def _greet(self, client: Client, reader: asyncio.StreamReader) -> bool:
        """Answer a startup; False if there is nothing more to do for this client."""
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            body = await reader.readexactly(length - 8)
            if code in (SSL_REQUEST, GSS_REQUEST):
                client.writer.write(b"N")
                continue
            if code == CANCEL_REQUEST:
                await self._cancel(body)
                return False
            break
        words = body.rstrip(b"\0").split(b"\0")
        parameters = {word.decode().lower() for word in words[::2]}
        unknown = parameters - ALLOWED
        if unknown and not self._forgiving:
            text = f"unsupported startup parameter: {min(unknown)}"
            fields = b"SFATAL\0VFATAL\0C08P01\0M" + text.encode() + b"\0\0"
            client.writer.write(_message(b"E", fields))
            await client.writer.drain()
            return False
        backend = await self._lend(None)
        greeting = backend.greeting
        await self._take_back(backend)
        client.writer.write(
            _message(b"R", struct.pack("!i", 0))
            + greeting
            + _message(b"K", client.key)
            + _message(b"Z", b"I")
        )
        return True

    async def _forward(self, client: Client, reader: asyncio.StreamReader) -> None:
        """Messages of a client, each to the backend of its transaction."""
        while True:
            kind, message = await _read(reader)
            if kind == b"X":
                return
            if client.frozen:
                continue
            if client.backend is None:
                client.backend = client.before = await self._lend(client.before)
                client.answering = self._spawn(self._answer(client, client.backend))
            if kind in END_OF_BATCH:
                client.unanswered += 1
                client.half_sent = False
            elif kind not in (b"d", b"c", b"f"):
                client.half_sent = True
            client.backend.writer.write(message)
            await client.backend.writer.drain()

    async def _answer(self, client: Client, backend: Backend) -> None:
        """Answers of a backend, until the transaction is over."""
        try:
            while True:
                kind, message = await _read(backend.reader)
                if kind == b"Z":
                    client.unanswered -= 1
                    if message[5:] == b"I" and not client.unanswered and not client.half_sent:
                        # Before the client knows: its next message must find another backend.
                        client.backend = None
                        await self._take_back(backend)
                if not client.frozen:
                    client.writer.write(message)
                    await client.writer.drain()
                if client.backend is None:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            client.writer.transport.abort()

    async def _give_up(self, client: Client) -> None:
        """A client that is gone in mid-transaction takes its backend with it."""
        backend, client.backend = client.backend, None
        if backend is None:
            return
        assert client.answering is not None
        client.answering.cancel()
        await asyncio.gather(client.answering, return_exceptions=True)
        backend.writer.transport.abort()
        with contextlib.suppress(ConnectionError, OSError):
            await self._take_back(await Backend.open(self._socket, self._database))

    async def _cancel(self, key: bytes) -> None:
        client = self._clients.get(key)
        if client is None or client.backend is None:
            return
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        writer.write(struct.pack("!ii", 16, CANCEL_REQUEST) + client.backend.key)
        await reader.read()
        writer.close()

    # ── backends ────────────────────────────────────────────────────────────

    async def _lend(self, not_this: Backend | None) -> Backend:
        async with self._returned:
            await self._returned.wait_for(lambda: any(b is not not_this for b in self._idle))
            backend = next(each for each in self._idle if each is not not_this)
            self._idle.remove(backend)
            self.lent += 1
            return backend

    async def _take_back(self, backend: Backend) -> None:
        async with self._returned:
            self._idle.append(backend)
            self._returned.notify_all()


@contextlib.asynccontextmanager
async def pgbouncer(server: Postgres, database: str) -> AsyncIterator[str]:
    """The real thing, in front of the same server."""
    assert PGBOUNCER is not None
    # It does not run as root, and must be let in to the server's socket: as the server's own user.
    owner = os.stat(server.server.data_dir).st_uid
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="sextest-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            f"""
            [databases]
            {database} = host={server.socket.parent} port=5432 user=postgres
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {port}
            unix_socket_dir =
            auth_type = any
            pool_mode = transaction
            default_pool_size = 4
            min_pool_size = 4
            server_round_robin = 1
            """.replace("            ", "")
        )
        with (folder / "log").open("w+") as log:
            process = subprocess.Popen(
                [PGBOUNCER, str(settings)],
                stdout=log,
                stderr=subprocess.STDOUT,
                user=owner if os.geteuid() == 0 else None,
            )
            try:
                await until(lambda: process.poll() is not None or _listens(port), 20)
                assert process.poll() is None, (folder / "log").read_text()
                yield f"postgresql://postgres@127.0.0.1:{port}/{database}"
            finally:
                process.terminate()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
