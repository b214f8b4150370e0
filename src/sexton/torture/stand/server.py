"""One PostgreSQL of the stand: started, stopped, killed, made to follow another, promoted."""

import asyncio
import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import asyncpg

from sexton.embedded import folder as layout
from sexton.embedded import guard
from sexton.embedded.cluster import Cluster, lock_file
from sexton.torture.stand import tree
from sexton.torture.stand.child import Child
from sexton.torture.stand.errors import StandError
from sexton.torture.stand.ports import free_port

READY_FOR = 120.0
STOP_FOR = 60.0
# What a backend may need to notice that its postmaster is dead.
LINGER_FOR = 10.0
NAME = "torture"  # by which the sessions of the rig know each other
_PORTS_TRIED = 5
_LOOK_EVERY = 0.01

Way = Literal["fast", "immediate"]
SIGNALS: Mapping[Way, int] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Server:
    """A data folder and the postmaster on it, which is our child.

    What distinguishes it from its partner is written beside its data and not into it: there it
    would be overwritten when the data is copied from the partner.
    """

    def __init__(self, name: str, cluster: Cluster, log: Path) -> None:
        self.name = name
        self.log = log
        self.port = free_port()
        self._cluster = cluster
        self._socket_dir: Path | None = None
        self._role: dict[str, str] = {}
        self._child: Child | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def pid(self) -> int | None:
        """The postmaster's; None if it is not running."""
        return self._child.pid if self._child is not None and self._child.alive else None

    @property
    def conninfo(self) -> str:
        """For PostgreSQL's own programs, by the socket that only its user can reach."""
        return f"host={self.socket_dir} port={self.port} user=postgres"

    @property
    def socket_dir(self) -> Path:
        if self._socket_dir is None:
            self._socket_dir = layout.socket_dir(self._cluster.folder, self._cluster.account)
        return self._socket_dir

    # ── what it is ──────────────────────────────────────────────────────────

    async def create(self) -> None:
        """A new database cluster; over TCP a password is asked for, by the private socket none."""
        folder = self._cluster.folder
        with lock_file(folder, guard.GATE) as gate:
            await asyncio.to_thread(self._cluster.create, gate)
        layout.write(
            self._cluster.data_dir / "pg_hba.conf",
            "local all all trust\n"
            "local replication all trust\n"
            "host all all 127.0.0.1/32 scram-sha-256\n",
        )

    def lead(self, partner: str = "") -> None:
        """Commits wait for the partner of that name; for nobody, if there is none."""
        self._configure({"synchronous_standby_names": partner})

    def follow(self, leader: "Server") -> None:
        """A standby of the leader, from the next start on."""
        self._configure({"primary_conninfo": f"{leader.conninfo} application_name={self.name}"})
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        marker = os.open(self._cluster.data_dir / "standby.signal", flags, 0o600)
        os.fchown(marker, self._cluster.account.uid, self._cluster.account.gid)
        os.close(marker)

    async def copy(self, leader: "Server") -> None:
        """Everything anew; the leader only reads."""
        data = self._cluster.data_dir
        await asyncio.to_thread(shutil.rmtree, data, ignore_errors=True)
        data.mkdir(mode=0o700)
        os.chown(data, self._cluster.account.uid, self._cluster.account.gid)
        where = ["-h", str(leader.socket_dir), "-p", str(leader.port), "-U", "postgres"]
        await self.run(
            *("pg_basebackup", "-D", str(data), *where),
            *("-X", "stream", "-c", "fast", "--no-sync", "--no-manifest"),
        )

    async def rewind(self, leader: "Server") -> None:
        """Give up what the leader never got and take what it has changed since."""
        self._tidy()
        source = f"--source-server={leader.conninfo} dbname=postgres"
        await self.run("pg_rewind", "-D", str(self._cluster.data_dir), source, "--no-sync")

    def _configure(self, role: Mapping[str, str]) -> None:
        self._role = dict(role)
        own = {"port": str(self.port), "unix_socket_directories": str(self.socket_dir)}
        named = {"cluster_name": f"torture-{self.name}"}
        every = {**self._cluster.settings, **named, **own, **self._role}
        text = "".join(f"{name} = {_quoted(value)}\n" for name, value in every.items())
        layout.write(self._cluster.folder / layout.CONF, text)

    # ── whether it runs ─────────────────────────────────────────────────────

    async def start(self, within: float = READY_FOR) -> None:
        """Until it takes connections; on another port if somebody has taken ours meanwhile."""
        for _ in range(_PORTS_TRIED):
            said = await self._launched(within)
            if said is None:
                return
            if "Address already in use" not in said:
                break
            self.port = free_port()
            self._configure(self._role)
        raise StandError(f"PostgreSQL {self.name} did not start. {self.log} ends:\n{said}")

    async def _launched(self, within: float) -> str | None:
        """None when it is ready; otherwise what it said."""
        self._tidy()
        with self.log.open("ab") as log, lock_file(self._cluster.folder, guard.SERVER) as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            begins_at = log.seek(0, os.SEEK_END)
            self._child = child = Child(
                [str(self._cluster.bin_dir / "postgres"), "-D", str(self._cluster.data_dir)],
                output=log,
                env=self._cluster.account.popen()["env"],
                account=self._cluster.account,
                dies_by=signal.SIGQUIT,  # it takes its backends and its shared memory with it
                pass_fds=[held],
            )
        until = time.monotonic() + within
        while child.alive and time.monotonic() < until:
            pid, _, status = guard.postmaster(str(self._cluster.data_dir))
            if pid == child.pid and status == "ready":
                return None
            await asyncio.sleep(_LOOK_EVERY)
        await child.kill()
        with self.log.open("rb") as log:
            log.seek(begins_at)
            return log.read()[-4000:].decode(errors="replace")

    def reload(self) -> None:
        if self._child is not None:
            self._child.signal(signal.SIGHUP)

    async def stop(self, way: Way = "fast") -> None:
        """No process of it is left when this returns, however unwilling it is."""
        if self._child is None:
            return
        family = tree.descendants(self._child.pid)
        for number in (SIGNALS[way], signal.SIGQUIT):
            self._child.signal(number)
            if await self._child.ended(STOP_FOR):
                break
        else:
            await self._child.kill()
        await self._gone(family)

    async def kill(self) -> None:
        """The postmaster alone, -9; its backends notice and follow."""
        if self._child is not None:
            family = tree.descendants(self._child.pid)
            self._child.signal(signal.SIGKILL)
            await self._child.ended()
            await self._gone(family)

    async def die(self) -> None:
        """Every process at once, as when a host loses its power."""
        if self._child is not None:
            family = self._child.signal_all(signal.SIGKILL)
            await self._child.ended()
            await self._gone(family)

    async def _gone(self, family: list[int]) -> None:
        """Until the lock that its processes inherited is free; see the embedded server, rule 4."""
        with lock_file(self._cluster.folder, guard.SERVER) as held:
            for again in (False, True):
                until = time.monotonic() + LINGER_FOR
                while guard.server_alive(held):
                    if time.monotonic() > until:
                        break
                    await asyncio.sleep(_LOOK_EVERY)
                else:
                    self._child = None
                    return
                for pid in family if not again else []:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        raise StandError(f"processes of PostgreSQL {self.name} do not end")

    def _tidy(self) -> None:
        """Who was killed left a number behind that may be somebody else's by now."""
        (self._cluster.data_dir / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_dir / f".s.PGSQL.{self.port}.lock").unlink(missing_ok=True)

    # ── talking to it ───────────────────────────────────────────────────────

    @asynccontextmanager
    async def session(
        self, database: str = "postgres", patience: float = 30.0
    ) -> AsyncIterator[asyncpg.Connection]:
        """As its superuser, who gets in when everybody else is refused."""
        connection = await asyncpg.connect(
            host=str(self.socket_dir),
            port=self.port,
            user="postgres",
            database=database,
            timeout=patience,
            command_timeout=patience,
            server_settings={"application_name": NAME},
        )
        try:
            yield connection
        finally:
            connection.terminate()

    async def run(self, program: str, *arguments: str) -> None:
        """One of PostgreSQL's programs as the server's user; what it said, if it fails."""
        with tempfile.TemporaryFile() as output:
            child = Child(
                [str(self._cluster.bin_dir / program), *arguments],
                output=output,
                env=self._cluster.account.popen()["env"],
                account=self._cluster.account,
            )
            try:
                await child.ended()
            finally:
                await child.kill()
            if child.code:
                output.seek(0)
                said = output.read()[-4000:].decode(errors="replace")
                raise StandError(f"{program} ended with {child.code}:\n{said}")

    def remove_socket_dir(self) -> None:
        """If it had to be elsewhere, because the folder's name is too long for a socket."""
        if self._socket_dir is not None:
            guard.remove_short_socket_dir(str(self._socket_dir))


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
