"""What the engine's own coroutines know of the database, when that is the modelled one."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

from sexton.domain.transitions import Settlement
from sexton.store import Store
from sexton.store.cluster import Cluster, Entry
from sexton.store.jobs import Orphan
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.process import ask


class Seats:
    """What `cluster/lead.py` knows of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def roster(self) -> list[Entry]:
        return await ask(self._database.roster)

    async def assign(
        self,
        node: int,
        term: int | None,
        seen: Sequence[Entry],
        shares: Mapping[int, Sequence[int]],
        lost: Sequence[int] = (),
    ) -> bool:
        return await ask(self._database.assign, node, term, seen, shares, lost)


class Graves:
    """What `flow/reap.py` knows of the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lose_expired(self) -> list[tuple[int, str]]:
        return await ask(self._database.lose_workers)

    async def orphans(self, limit: int, gone_for: float | None) -> list[Orphan]:
        return await ask(self._database.orphans, limit, gone_for)

    async def settle(self, settled: Sequence[tuple[int, int, Settlement]]) -> set[int]:
        return await ask(self._database.settle, settled)

    async def notify_idle(self, queues: Sequence[str], tenants: Sequence[int]) -> None:
        """Nobody is told: whoever looks finds them."""


def seats(database: Database) -> Cluster:
    return cast(Cluster, Seats(database))


def graves(database: Database) -> Store:
    each = Graves(database)
    return cast(Store, SimpleNamespace(workers=each, jobs=each))
