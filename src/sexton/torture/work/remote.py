"""A remote worker: it has the API's URL and a key, and nothing else.

Every outcome that it sends is a request `settle` of its own about the job: in its body {fence,
outcome}, and acknowledged if the service has accepted it. Now and then it tries the key of another
tenant on a job that it runs, with the right fence: a trespass, as those of operators.
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from sexton.remote import RemoteJob, RemoteWorker
from sexton.remote.wire import Wire
from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.api import Api
from sexton.torture.work.asks import Asks, Request
from sexton.torture.work.effects import effect, say_progress
from sexton.torture.work.journal import process_name, run_folder

# The shortest that the API allows.
LEASE, GRACE = 5.0, 3.0
SLOTS = 8
# Of all jobs, so many are tried with another's key; which must not hold them up for long.
TRESPASSES, TRIED_FOR = 0.1, 2.0
SETTLEMENTS = ("succeed", "fail", "snooze", "progress", "settle")
_OF_A_JOB: dict[str, dict[str, Any]] = {
    "succeed": {"result": {"trespass": True}},
    "fail": {"error": "trespass"},
    "snooze": {"delay": 1},
    "progress": {"value": "trespass"},
}


class Stale(Exception):
    """The service did not take an outcome."""


class Noted(Wire):
    """Writes down what is settled, and what the service made of it."""

    def __init__(self, url: str, key: str, asks: Asks, tenant: str) -> None:
        super().__init__(url, key)
        self._asks = asks
        self._tenant = tenant

    async def ask(self, method: str, path: str, said: Any = msgspec.UNSET, **how: Any) -> Any:
        if not path.endswith("/settle"):
            return await super().ask(method, path, said, **how)
        results = msgspec.json.decode(msgspec.json.encode(said))["results"]
        numbers = [self._asks.ask(self._request(each)) for each in results]
        try:
            answer = await super().ask(method, path, said, **how)
        except Exception as error:
            for n in numbers:
                self._asks.error(n, error, unsure=True)
            raise
        for n, verdict in zip(numbers, answer.results, strict=True):
            if verdict.status == "accepted":
                self._asks.answer(n, {"status": verdict.status})
            else:
                self._asks.error(n, Stale(verdict.status), unsure=False)
        return answer

    def _request(self, result: dict[str, Any]) -> Request:
        body = {"fence": result["fence"], "outcome": result["outcome"]}
        return Request("settle", "api", self._tenant, result["id"], body)


class Trespassing:
    """Tries the keys of others on what runs here."""

    def __init__(self, api: Api, asks: Asks, random: Random, owner: str, others: list[Tenant]):
        self._api = api
        self._asks = asks
        self._random = random
        self._owner = owner
        self._others = others

    async def perhaps(self, job: RemoteJob, worker: int | None) -> None:
        if worker is not None and self._random.random() < TRESPASSES:
            what, by = self._random.choice(SETTLEMENTS), self._random.choice(self._others)
            body = {"what": what, "owner": self._owner, "fence": job.fence}
            request = Request("trespass", "api", by.name, job.id, body)
            tried = partial(settled, self._api, what, by, job.id, job.fence, worker)
            await self._asks.make(request, tried)


async def settled(api: Api, what: str, by: Tenant, job: int, fence: int, worker: int) -> Any:
    """What the service says to one of SETTLEMENTS, with the key of `by`."""
    path, said = f"/v1/jobs/{job}/{what}", {"fence": fence, **_OF_A_JOB.get(what, {})}
    if what == "settle":
        path = f"/v1/workers/{worker}/settle"
        said = {"results": [{"id": job, "fence": fence, "outcome": "succeeded"}]}
    return await api.ask("POST", path, said, key=by.worker)


async def run(urls: Sequence[str], tenant: str) -> None:
    """Until SIGTERM; at one of the servers, which is the same for the same name."""
    random = Random(process_name())
    url = random.choice(urls)
    folder = run_folder()
    tenants = Access.load(folder).tenants
    key = tenants[tenant].worker
    asks = Asks(folder, process_name())
    worker = RemoteWorker(
        url,
        key,
        queues=["remote"],
        concurrency=SLOTS,
        lease=LEASE,
        grace=GRACE,
        name=process_name(),
    )
    worker._wire = Noted(url, key, asks, tenant)
    others = [each for name, each in sorted(tenants.items()) if name != tenant]
    async with Api([url], timeout=TRIED_FOR) as api:
        trespassing = Trespassing(api, asks, random, tenant, others)

        async def far(
            job: RemoteJob, id: str, tenant: str, seconds: float = 0.0, rev: int = 0
        ) -> None:
            """As workers with a database do it."""
            with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
                await trespassing.perhaps(job, worker.id)
                await say_progress(job, seconds)

        worker.task("far", timeout=10)(far)
        await worker.run(handle_signals=True)
