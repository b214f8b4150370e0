"""A node as a process: a member, and a loop that fires as the real one does, into a ledger.

What it fires is a counter for each partition, under the discipline that every fire is bound to:
one statement, which locks its node's ownership first and does nothing without it.
"""

import asyncio
import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta

# The host's wall clock is wrong in this process; done before anybody could have kept a reference.
if skew := float(os.environ.get("NODE_SKEW", "0")):
    _true_time = time.time
    time.time = lambda: _true_time() + skew

from sexton.cluster.member import Member, Owned
from sexton.store import Line
from sexton.store.connection import Address

TABLES = """
create table tick (
    partition smallint primary key, n bigint not null, epoch bigint not null, node integer not null
);
create table ledger (
    partition smallint, n bigint, epoch bigint, node integer, pid integer, term bigint,
    at timestamptz default clock_timestamp(), primary key (partition, n)
);
insert into tick select partition, 0, 0, 0 from generate_series(0, 255) as partition;
"""
FIRE = """
with mine as (
    select node_id, epoch, term, partitions
    from sexton.ownership
    where node_id = $1 and epoch = $2
    for share
),
slow as materialized (
    select mine.*, pg_sleep($5) from mine
),
fired as (
    update tick set n = tick.n + 1, epoch = slow.epoch, node = slow.node_id
    from slow
    where tick.partition = any ($3::smallint[]) and tick.partition = any (slow.partitions)
    returning tick.partition, tick.n, tick.epoch, tick.node, slow.term
)
insert into ledger (partition, n, epoch, node, pid, term)
select partition, n, epoch, node, $4, term from fired
returning partition
"""


class Node:
    """Fires some of its partitions every few milliseconds."""

    def __init__(self) -> None:
        environ = os.environ
        self.address = Address(environ["DATABASE_URL"], patience=5.0)
        self.batch = int(environ.get("NODE_BATCH", "8"))
        self.every = float(environ.get("NODE_EVERY", "0.02"))
        # How long the server takes over some of the fires, for races with them.
        self.slow = float(environ.get("NODE_SLOW", "0"))
        # A reckless node goes on for a while with what it owned, whatever its member says.
        self.reckless = float(environ.get("NODE_RECKLESS", "0"))
        self.believed: Owned | None = None
        self.fired = 0
        self.last_fire_at: datetime | None = None
        self.stopping = asyncio.Event()
        self.member = Member(
            self.address,
            "sexton",
            name=environ.get("NODE_NAME", f"test:{os.getpid()}"),
            version=environ.get("NODE_VERSION", "test"),
            lease=float(environ.get("NODE_LEASE", "3")),
            listen=self.address if environ.get("NODE_LISTENS", "1") == "1" else None,
            on_change=self.changed,
            report=lambda: (self.fired, self.last_fire_at),
        )

    def changed(self, owned: Owned | None) -> None:
        if owned is not None:
            asyncio.get_running_loop().call_later(self.reckless, setattr, self, "believed", owned)
            said = f"{owned.node} {owned.epoch} {len(owned.partitions)} {owned.leads}"
        else:
            said = "nothing"
        print("owns", said, flush=True)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stopping.set)
        loop.add_signal_handler(signal.SIGUSR1, self.hang)
        self.member.start()
        firing = asyncio.create_task(self.keep_firing())
        await self.stopping.wait()
        await self.member.leave()
        firing.cancel()
        await asyncio.gather(firing, return_exceptions=True)

    def hang(self) -> None:
        """The loop does not turn any more, for as long as was asked for."""
        print("hanging", flush=True)
        time.sleep(float(os.environ["NODE_HANG"]))

    async def keep_firing(self) -> None:
        line = Line(self.address)
        try:
            while True:
                owned = self.believed if self.reckless else self.member.owned
                if owned is not None:
                    some = random.sample(owned.partitions, min(self.batch, len(owned.partitions)))
                    try:
                        slow = self.slow if random.random() < 0.2 else 0.0
                        fire = (owned.node, owned.epoch, some, os.getpid(), slow)
                        fired = await line.fetch(FIRE, *fire)
                        self.fired += len(fired)
                        self.last_fire_at = datetime.now(UTC) - timedelta(seconds=skew)
                    except Exception as error:
                        print("not fired", repr(error), flush=True)
                await asyncio.sleep(self.every)
        finally:
            await line.close()


async def main() -> None:
    await Node().run()


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    asyncio.run(main())
