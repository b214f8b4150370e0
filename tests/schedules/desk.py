"""An operator's desk: an application and a node that fires by hand, by one manual clock."""

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from sexton import Sexton
from sexton.flow.verbs import Verbs
from sexton.schedules import Schedules
from sexton.store.connection import Address
from sexton.testing import ManualClock

from ..firing.hands import Hands
from ..firing.hands import hands as firing_hands


class Desk:
    """What an operator sees and does, and the node beside it."""

    def __init__(self, app: Sexton, hands: Hands) -> None:
        self.app = app
        self.schedules: Schedules = app.schedules
        self.hands = hands
        self.clock: ManualClock = hands.clock

    @property
    def now(self) -> datetime:
        return self.clock.now

    def at(self, seconds: float) -> datetime:
        return self.hands.at(seconds)

    @property
    def verbs(self) -> Verbs:
        """Each statement by itself, without a transaction around them."""
        return Verbs(self.hands.store)

    async def add(self, name: str = "beat", **options: Any) -> int:
        if not options.keys() & {"cron", "at", "rrule", "any"}:
            options.setdefault("every", 60)
        return (await self.schedules.add(name, "ring", **options)).id

    async def ledger(self) -> list[tuple[datetime, str, str]]:
        rows = await self.hands.rows(
            "select fire_at, decision::text, kind::text from sexton.fire order by fire_at"
        )
        return [tuple(row) for row in rows]

    async def gaps(self) -> list[tuple[datetime, datetime, int | None, str]]:
        rows = await self.hands.rows(
            "select first_at, last_at, fires, decision::text from sexton.gap order by first_at"
        )
        return [tuple(row) for row in rows]

    async def due(self) -> Any:
        [row] = await self.hands.rows("select * from sexton.due")
        return row

    async def jobs(self) -> list[Any]:
        return await self.hands.rows("select * from sexton.job order by id")


@contextlib.asynccontextmanager
async def desk(address: Address) -> AsyncIterator[Desk]:
    async with firing_hands(address) as hands:
        app = Sexton(address.url, clock=hands.clock, patience=10)

        @app.task
        async def ring(n: int = 0) -> None: ...

        async with app:
            yield Desk(app, hands)
