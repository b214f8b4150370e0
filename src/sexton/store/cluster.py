"""Nodes, their leader, and who owns which partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sexton.domain.partition import PARTITIONS
from sexton.store.statements import Statements

# Somebody may be busy for so long (s) between two statements of one transaction.
THINKING = 10.0


@dataclass(frozen=True, slots=True)
class Ownership:
    """The partitions of a node; of an epoch that never comes again."""

    epoch: int
    term: int
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat, as of `now` by the database's clock."""

    now: datetime
    ownership: Ownership | None
    leads: bool
    term: int
    leader_for: float  # how long nobody else can be elected; not above 0: anybody can
    restless: bool  # nodes came, went or fell silent: there is work for a leader
    silence_in: float | None  # when the next lease of another node ends


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the roster: a node, or what is left of one."""

    node: int
    name: str
    lives: bool
    silent: bool  # its lease is over; it may be declared lost
    epoch: int | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node that lives, as anyone may look at it."""

    id: int
    name: str
    host: str
    pid: int
    version: str
    started_at: datetime
    renewed_at: datetime
    lease_until: datetime
    lease_left: float
    leads: bool
    epoch: int | None
    partitions: int
    skew: float | None
    fired: int
    last_fire_at: datetime | None
    zones: str | None  # the edition of the time zones that it computes with


@dataclass(frozen=True, slots=True)
class LeaderView:
    """Who leads, or led last (`leads` says which); nobody yet in term 0."""

    node: int | None
    term: int
    leads: bool
    elected_at: datetime | None


@dataclass(frozen=True, slots=True)
class Evicted:
    """A session that was ended because others waited for it."""

    pid: int
    user: str
    application: str
    statement: str

    def __str__(self) -> str:
        name = self.statement.partition("\n")[0]
        return f"session {self.pid} of {self.user} ({self.application}) held up others: {name}"


class Cluster:
    """Statements about the cluster."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements

    async def register(
        self,
        name: str,
        host: str,
        pid: int,
        version: str,
        lease: float,
        zones: str | None = None,
    ) -> tuple[int, datetime]:
        """The id of a new node, and the database's clock."""
        row = await self._run.row(
            "register_node", name, host, pid, version, lease, zones, self._run.now()
        )
        assert row is not None, "an insert returns its row"
        return row["id"], row["now"]

    async def heartbeat(
        self, node: int, skew: float | None, fired: int, last_fire_at: datetime | None
    ) -> Beat | None:
        """None: the node was declared lost, or has left."""
        row = await self._run.row(
            "heartbeat", node, skew, fired, last_fire_at, PARTITIONS, self._run.now()
        )
        if row is None:
            return None
        ownership = None
        if row["epoch"] is not None:
            ownership = Ownership(row["epoch"], row["term"], tuple(row["partitions"]))
        return Beat(
            row["now"],
            ownership,
            row["leads"],
            row["leader_term"],
            row["leader_for"],
            row["restless"],
            row["silence_in"],
        )

    async def elect(self, node: int) -> bool:
        """Lead from here on; False if somebody else does."""
        elected: bool = await self._run.value("elect", node, self._run.now())
        return elected

    async def roster(self) -> list[Entry]:
        return [
            Entry(
                row["node"],
                row["name"] or "?",
                row["lives"],
                row["silent"],
                row["epoch"],
                tuple(row["partitions"] or ()),
            )
            for row in await self._run.rows("roster", self._run.now())
        ]

    async def assign(
        self,
        node: int,
        term: int | None,
        seen: Sequence[Entry],
        shares: Mapping[int, Sequence[int]],
        lost: Sequence[int] = (),
    ) -> bool:
        """Make `shares` who owns what; False if the roster is not as `seen`, or we do not lead.

        Without a term the node leaves by it.
        """
        epochs = [(entry.node, entry.epoch) for entry in seen if entry.epoch is not None]
        owners: list[int | None] = [None] * PARTITIONS
        for owner, partitions in shares.items():
            for partition in partitions:
                owners[partition] = owner
        assigned: bool = await self._run.value(
            "assign",
            node,
            term,
            [each for each, _ in epochs],
            [epoch for _, epoch in epochs],
            list(shares),
            owners,
            list(lost),
            self._run.now(),
        )
        return assigned

    async def evict(self, after: float, at_others: float | None = None) -> list[Evicted]:
        """End the sessions that have kept rows locked, without a sign of life, for so long: rows
        of the cluster, and, longer than a busy process may think, those of schedules and jobs.
        """
        patience = max(after, THINKING) if at_others is None else at_others
        rows = await self._run.rows("evict", after, patience)
        return [Evicted(*row[:4]) for row in rows if row["ended"]]

    async def nodes(self) -> list[NodeView]:
        return [NodeView(**row) for row in await self._run.rows("nodes", self._run.now())]

    async def leader(self) -> LeaderView:
        row = await self._run.row("leader", self._run.now())
        assert row is not None, "the leader's one row is made by a migration"
        return LeaderView(row["node_id"], row["term"], row["leads"], row["elected_at"])
