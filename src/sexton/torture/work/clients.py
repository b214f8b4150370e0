"""Clients that enqueue, one request after the other, and write down what they were told.

    python -m sexton.torture.work.clients --role python|sql|late|api|flood|remote --seed 7 --rate 10

`python`, `sql`, `late` and `flood` use SEXTON_DATABASE_URL; `api` and `remote` every --url. `late`
is SQL in transactions that go on for a while before they are committed. In the
acknowledgement log `body` is {"jobs": [{task, payload, key, …}], "idempotency_key"}, and the answer
{"jobs": [{payload_id, id, duplicate}]}; of many that went through the API some may be {payload_id,
error} instead, which were refused. A request that is sent again is an ask of its own with `again`,
the number of the first: through the API under the same Idempotency-Key, which makes one job however
often it is sent; otherwise only jobs with a key are asked for again, as each ask may make one.
Through the API some are also sent again after they were answered, see `repeats`.
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from random import Random

from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.api import Answered, Api
from sexton.torture.work.asks import Asks, Request
from sexton.torture.work.journal import process_name, run_folder
from sexton.torture.work.mix import Mix, Wanted
from sexton.torture.work.pace import Pace
from sexton.torture.work.repeats import Other, Repeats
from sexton.torture.work.ways import ApiWay, PythonWay, SqlWay, Way

ROLES = ("python", "sql", "late", "api", "flood", "remote")
TRIES = 12
FIRST_REST, LONGEST_REST = 0.2, 3.0
MANY = 0.08  # of all requests have several jobs
PUT_OFF = 6.0


class Client:
    """Draws jobs and enqueues them, at most one request at a time."""

    def __init__(self, way: Way, access: Access, asks: Asks, mix: Mix, pace: Pace) -> None:
        self._way = way
        self._access = access
        self._asks = asks
        self._mix = mix
        self._pace = pace
        self._repeats = Repeats(asks, mix.random, pace)
        self._requests = 0

    async def run(self) -> None:
        names = sorted(self._access.tenants)
        while await self._pace.turn():
            if await self._repeats.turn():
                continue
            tenant = self._access.tenants[self._mix.tenant(names)]
            size = self._mix.random.randint(2, 12) if self._mix.random.random() < MANY else 1
            if isinstance(self._way, SqlWay):
                self._way.draw(self._mix.random)
            await self.enqueue(tenant, self._mix.many(tenant.name, size))

    async def flood(self, burst: int) -> None:
        """Everything at once, of the one tenant that does not know when to stop; every other time
        it is put off, and uses up the quota for as long."""
        tenant = self._access.tenants[self._access.floods]
        for delay in cycle((PUT_OFF, None)):
            if not await self._pace.turn():
                return
            jobs = [self._mix.one(tenant.name, "quick") for _ in range(burst)]
            if delay:
                for job in jobs:
                    job.options["delay"] = delay
            await self.enqueue(tenant, jobs)

    async def enqueue(self, tenant: Tenant, jobs: Sequence[Wanted]) -> None:
        """Until it is answered, as far as asking again can do no harm."""
        self._requests += 1
        key = f"{process_name()}-{os.getpid()}-{self._requests}"
        body = {"jobs": [job.line for job in jobs], "idempotency_key": key}
        verb = "enqueue" if len(jobs) == 1 else "enqueue_many"
        again = self._way.name == "api" or all("key" in job.options for job in jobs)
        first: int | None = None
        rest = FIRST_REST
        work = partial(self._enqueued, tenant, jobs)
        for _ in range(TRIES if again else 1):
            request = Request(verb, self._way.name, tenant.name, None, body, first)
            asked = await self._asks.make(request, partial(work, key))
            if not asked.unsure:
                break
            first = first or asked.n
            if not await self._pace.rest(rest):
                return
            rest = min(2 * rest, LONGEST_REST)
        made = (asked.answer or {}).get("jobs", ())
        if self._way.name == "api" and all("id" in each for each in made):
            self._repeats.keep(request, asked, key, work, partial(self._other, tenant, len(jobs)))

    async def _enqueued(
        self, tenant: Tenant, jobs: Sequence[Wanted], key: str
    ) -> dict[str, object]:
        return {"jobs": await self._way.enqueue(tenant, jobs, key)}

    def _other(self, tenant: Tenant, size: int) -> Other:
        """As many other jobs."""
        jobs = self._mix.many(tenant.name, size)
        return {"jobs": [job.line for job in jobs]}, partial(self._reused, tenant, jobs)

    async def _reused(self, tenant: Tenant, jobs: Sequence[Wanted], key: str) -> dict[str, object]:
        """Of many each is refused by itself."""
        made = await self._way.enqueue(tenant, jobs, key)
        if all("error" in each for each in made):
            raise Answered(made[0]["error"], "each of them")
        return {"jobs": made}


async def run(role: str, seed: int, rate: float, urls: Sequence[str], burst: int) -> None:
    """One client, until SIGTERM."""
    folder, name = run_folder(), process_name()
    access = Access.load(folder)
    pace = Pace(rate)
    pace.obey_signals()
    # A client that was killed and started anew does something else.
    random = Random(f"{seed} {name} {len([*(folder / 'acks').glob(f'{name}-*')])}")
    mix = Mix(random, f"{name}-{os.getpid()}", endpoints=role == "api")
    way = await _way(role, urls)
    client = Client(way, access, Asks(folder, name), mix, pace)
    try:
        await (client.flood(burst) if role == "flood" else client.run())
    finally:
        await way.close()


async def _way(role: str, urls: Sequence[str]) -> Way:
    if role == "api":
        return ApiWay(await Api(urls).__aenter__())
    from sexton.torture.work.app import app  # what reads the settings

    if role in ("sql", "late"):
        settings = app.settings
        url, lingers = settings.database_url or "", role == "late"
        return SqlWay(url, settings.schema, settings.patience, lingers=lingers)
    return PythonWay(app)


def main() -> None:
    parser = argparse.ArgumentParser(description="A client that enqueues until SIGTERM.")
    parser.add_argument("--role", choices=ROLES, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, default=10.0, help="requests a second")
    parser.add_argument("--url", action="append", default=[], help="of the API; again for each")
    parser.add_argument("--burst", type=int, default=200, help="jobs of one request of a flood")
    parser.add_argument("--tenant", default="acme", help="whom a remote worker works for")
    given = parser.parse_args()
    if given.role == "remote":
        from sexton.torture.work import remote

        asyncio.run(remote.run(given.url, given.tenant))
    else:
        asyncio.run(run(given.role, given.seed, given.rate, given.url, given.burst))


if __name__ == "__main__":
    main()
