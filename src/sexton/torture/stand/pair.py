"""A PostgreSQL primary with a synchronous standby, and everything that can happen to them.

Commits wait for the standby (`synchronous_standby_names`, `synchronous_commit = on`), so that a
promotion loses nothing that was acknowledged. `fsync` is off on both: processes are killed here,
never machines, and what a process has written survives it.

While one of the two is copied anew nobody waits for it: the names are empty from before the
promotion until it has caught up, the pair is not `in_sync` meanwhile, and is not promoted.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from sexton.embedded import binaries
from sexton.embedded import folder as layout
from sexton.embedded.account import server_account
from sexton.embedded.cluster import DATABASE, Cluster, validated
from sexton.errors import EmbeddedError
from sexton.torture.stand.errors import AWAY, NotInSync, StandError
from sexton.torture.stand.events import Events
from sexton.torture.stand.server import Server, Way

ROLE = "sexton"
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "max_connections": "200",
    "superuser_reserved_connections": "10",  # for the rig, when all others are used up
    "max_wal_size": "512MB",
    # More than lies between two checkpoints: who is rewound goes back to the last one that both
    # have. For whoever is away for longer no slot fills the disk; it is copied anew.
    "wal_keep_size": "768MB",
    "wal_log_hints": "on",  # for pg_rewind
    "max_wal_senders": "8",
    "wal_retrieve_retry_interval": "100ms",  # commits wait while the standby is away
    "log_line_prefix": "%m [%p] %a ",
}
SYNC_FOR = 60.0
WRITE_FOR = 60.0
# Commits start to wait for the standby when it is no farther behind than this.
_BEHIND = 1_048_576
_LOOK_EVERY = 0.05
_TEND_EVERY = 1.0
# A standby that does not stream for so long while the primary is up has lost its way.
_ASTRAY_FOR = 20.0
_FAILED = (*AWAY, StandError)

_ROLE = "select format('create role %I login createrole password %L', $1::text, $2::text)"
_STREAMING = """
select coalesce(bool_or(state = 'streaming' and (
    sync_state = 'sync' or not $2 and pg_current_wal_lsn() - flush_lsn < $3)), false)
from pg_stat_replication where application_name = $1
"""


class Pair:
    """Two servers, of which one leads at a time."""

    def __init__(self, first: Server, second: Server, events: Events) -> None:
        """Use `make`."""
        self.primary, self.standby = first, second
        self.events = events
        # Told where the primary is whenever that may have changed.
        self.on_move: Callable[[tuple[str, int]], Awaitable[None]] | None = None
        self._password = secrets.token_hex(16)
        self._synced, self._lost = asyncio.Event(), asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._copied = False  # whether the standby has what it takes to follow the primary
        self._rewind = False  # whether its data was the primary's until a moment ago
        self._tending: asyncio.Task[None] | None = None

    @classmethod
    async def make(
        cls,
        root: Path,
        *,
        settings: Mapping[str, str] | None = None,
        logs: Path | None = None,
        version: int | None = None,
        events: Events | None = None,
    ) -> Self:
        """Two folders below `root`, which another user must be able to enter if we are root."""
        account = server_account(root, root / "a" / layout.DATA)
        if not account.can_reach(root):
            raise EmbeddedError(
                f"user {account.name!r}, who runs PostgreSQL because root may not, cannot enter"
                f" {root}: choose a folder that user can reach, or run as an ordinary user"
            )
        major, programs = await asyncio.to_thread(
            binaries.choose, version, None, None, account, root
        )
        chosen = validated({**SETTINGS, **(settings or {})})
        servers = []
        for name in ("a", "b"):
            folder = root / name
            folder.mkdir(mode=0o700 if account.is_ours else 0o755)
            cluster = Cluster(folder, account, major, programs, chosen)
            servers.append(Server(name, cluster, (logs or folder) / f"postgres-{name}.log"))
        first, second = servers
        await first.create()
        return cls(first, second, Events() if events is None else events)

    async def start(self) -> None:
        """Both up and in sync."""
        self.primary.lead()
        await self.primary.start()
        async with self.primary.session() as session:
            await session.execute("set scram_iterations = 1")  # reconnecting is not what is tested
            await session.execute(await session.fetchval(_ROLE, ROLE, self._password))
            await session.execute(f"alter database {DATABASE} owner to {ROLE}")
        self._tending = asyncio.create_task(self._tend())
        await self.synced()

    async def stop(self) -> None:
        """Both down, in order; the primary may not wait for a standby that has gone."""
        if self._tending is not None:
            self._tending.cancel()
            with suppress(asyncio.CancelledError):
                await self._tending
        for server in (self.primary, self.standby):
            await server.stop("fast")
            server.remove_socket_dir()

    @property
    def address(self) -> tuple[str, int]:
        """Of the primary."""
        return self.primary.address

    @property
    def in_sync(self) -> bool:
        """Whether every acknowledged commit is on the standby too."""
        return self._synced.is_set()

    def url(self, database: str = DATABASE) -> str:
        """Of the primary, for a role that may do what it likes in its own database, and no more."""
        host, port = self.address
        return f"postgresql://{ROLE}:{self._password}@{host}:{port}/{database}"

    async def synced(self, within: float = SYNC_FOR) -> None:
        try:
            await asyncio.wait_for(self._synced.wait(), within)
        except TimeoutError:
            raise NotInSync(f"the standby has not caught up in {within:.0f} s") from None

    # ── what happens to them ────────────────────────────────────────────────

    async def restart(self, way: Way = "fast", down_for: float = 0.0) -> float:
        """The primary, in order or as in a crash; how long until it took writes again."""
        return await self._interrupted(
            f"{way} restart", lambda primary: primary.stop(way), down_for
        )

    async def kill9(self, down_for: float = 0.0) -> float:
        """The primary's postmaster, then started again; how long until it took writes again."""
        return await self._interrupted("kill9", lambda primary: primary.kill(), down_for)

    async def promote(self, within: float = SYNC_FOR) -> float:
        """The primary dies with all its processes and the standby takes over; how long that took.

        Waits for the standby to be in sync first, but not for longer than `within`. What was the
        primary is made the new standby afterwards, and nobody waits for that.
        """
        async with self._one_at_a_time:
            await self.synced(within)
            await self._until_streaming(sync=True, within=within)
            began = time.monotonic()
            dead, successor = self.primary, self.standby
            self.events.note("promoting", "postgres", dies=dead.name)
            await dead.die()
            successor.lead()
            async with successor.session() as session:
                if not await session.fetchval("select pg_promote(true, $1)", round(WRITE_FOR)):
                    raise StandError(f"{successor.name} was not promoted in {WRITE_FOR:.0f} s")
            self.primary, self.standby = successor, dead
            self._copied, self._rewind = False, True
            self._lose("promoted")
            return await self._back("promoted", began)

    async def _interrupted(
        self, what: str, end: Callable[[Server], Awaitable[None]], down_for: float
    ) -> float:
        async with self._one_at_a_time:
            began = time.monotonic()
            self.events.note("down", "postgres", by=what)
            await end(self.primary)
            await asyncio.sleep(max(0.0, down_for - (time.monotonic() - began)))
            await self.primary.start()
            return await self._back("up", began)

    async def _back(self, what: str, began: float) -> float:
        """It is back when it commits, with the standby's consent."""
        if self.on_move is not None:
            await self.on_move(self.address)
        ready = time.monotonic() - began
        async with self.primary.session(patience=WRITE_FOR) as session:
            await session.execute("select pg_logical_emit_message(true, 'torture', 'back')")
        took = time.monotonic() - began
        self.events.note(
            *(what, "postgres"),
            primary=self.primary.name,
            ready_after=round(ready, 3),
            writes_after=round(took, 3),
        )
        return took

    # ── the standby ─────────────────────────────────────────────────────────

    def _lose(self, why: str) -> None:
        self._synced.clear()
        self._lost.set()
        self.events.note("sync lost", "postgres", why=why)

    async def _tend(self) -> None:
        """Whoever is the standby is brought into sync, and again if it gets lost."""
        astray = 0.0
        while True:
            if not self.in_sync:
                with suppress(*_FAILED):
                    await self._join()
                astray = 0.0
            self._lost.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), _TEND_EVERY)
            if self._one_at_a_time.locked() or not self.in_sync:
                continue
            with suppress(*_FAILED):
                streams = await self._streams(sync=True)
                astray = 0.0 if streams else astray + _TEND_EVERY
            if self.standby.pid is None or astray > _ASTRAY_FOR:
                # Nobody may wait for it from here on; so it must not be promoted either.
                self._lose("it does not stream" if self.standby.pid else "the standby ended")
                self.primary.lead()
                self.primary.reload()

    async def _join(self) -> None:
        """From dead or empty to synchronous; raises when a fault comes in between."""
        began = time.monotonic()
        try:
            by = await self._copy()
            if self.standby.pid is None:
                self.standby.follow(self.primary)
                await self.standby.start(_ASTRAY_FOR)
            await self._until_streaming(sync=False, within=_ASTRAY_FOR)
            await self._wait_for_standby()
        except _FAILED as error:
            # Who cannot follow although the primary is there needs other data.
            self._copied = self._copied and not isinstance(error, StandError)
            self.events.note("join failed", "postgres", error=repr(error)[-300:])
            raise
        self._synced.set()
        took = round(time.monotonic() - began, 3)
        self.events.note("in sync", "postgres", standby=self.standby.name, by=by, after=took)

    async def _copy(self) -> str:
        """Give the standby the primary's data, if it has not; by what means."""
        if self._copied:
            return "streaming"
        await self.standby.stop("immediate")
        rewind, self._rewind = self._rewind, False  # half a rewind is no base for another
        await (self.standby.rewind if rewind else self.standby.copy)(self.primary)
        self._copied = True
        return "pg_rewind" if rewind else "pg_basebackup"

    async def _wait_for_standby(self) -> None:
        """From here on commits wait for the standby, and when this returns, all of them do."""
        name = self.standby.name
        self.primary.lead(name)
        self.primary.reload()
        shown = ""
        async with asyncio.timeout(SYNC_FOR):
            while shown != name:  # a new session has what the postmaster has told the others
                async with self.primary.session() as session:
                    shown = await session.fetchval("show synchronous_standby_names")
        await self._until_streaming(sync=True, within=SYNC_FOR)
        async with self.primary.session(patience=SYNC_FOR) as session:
            # The checkpointer makes backends wait; it was told before it is asked for this.
            await session.execute("checkpoint")

    async def _until_streaming(self, *, sync: bool, within: float) -> None:
        until = time.monotonic() + within
        while not await self._streams(sync=sync):
            if time.monotonic() > until:
                raise NotInSync(f"{self.standby.name} does not follow {self.primary.name}")
            await asyncio.sleep(_LOOK_EVERY)

    async def _streams(self, *, sync: bool) -> bool:
        async with self.primary.session() as session:
            return bool(await session.fetchval(_STREAMING, self.standby.name, sync, _BEHIND))
