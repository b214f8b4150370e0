"""A fresh database made ready: tenants, keys, endpoints, calendars, tasks and the population."""

import base64
import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from sexton import Sexton
from sexton.cli.database import Database
from sexton.domain.spec import Spec
from sexton.torture.work import app as tasks
from sexton.torture.work import past
from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.clock import SECOND, now_us
from sexton.torture.work.journal import write_all
from sexton.torture.work.population import (
    ENDPOINTS,
    FLOODS,
    TENANTS,
    Planned,
    Shape,
    as_ranges,
    calendars,
    population,
)

LOOPBACK = "127.0.0.1/32"
# So much may the flood have at once; then its fires are decided as `quota`, its requests refused.
# Somebody else, who may have as much, does not notice.
LIVE_JOBS = {FLOODS: 150, "cedar": 150}
# Seconds until the first of what happens once: it must not be over before it is registered.
LEAD = 10
_TABLE = Path(__file__).with_name("effect_table.sql")
_POLICIES: dict[str, dict[str, Any]] = {
    "sink": {
        "timeout": 5,
        "accepted_for": 4,
        "retry": {"max_attempts": 12, "base": 0.3, "factor": 2, "cap": 3},
    },
    "rough": {
        "timeout": 2,
        "accepted_for": 4,
        "retry": {"max_attempts": 5, "base": 0.5, "factor": 2, "cap": 5},
    },
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What there is now; `tenants` is for run.json."""

    access: Access
    schedules: int
    rate: float  # fires a second that the population makes
    begins: int  # µs

    @property
    def tenants(self) -> list[dict[str, Any]]:
        return [{"name": each.name, "id": each.id} for each in self.access.tenants.values()]


def fresh_secret_key() -> str:
    """For SEXTON_SECRET_KEY of the API servers, of the workers and of `prepare`."""
    return base64.b64encode(os.urandom(32)).decode()


async def prepare(
    where: str | Sexton,
    folder: Path,
    *,
    seed: int,
    seconds: float,
    secret_key: str,
    sink: tuple[str, str] | None = None,
    fires_per_second: float = 110.0,
    lease: float = 3.0,
    harsh: float = 1.0,
    schema: str = "sexton",
) -> Prepared:
    """Everything but the processes, in a migrated database; files for the checker in `dump/`.

    `sink` are the URLs of its two ports, the well-behaved and the rough one. Workers, API servers
    and this need the same SEXTON_SECRET_KEY, and SEXTON_HTTP_ALLOW with loopback in it.
    """
    own = isinstance(where, str)
    app = where
    if isinstance(app, str):
        app = Sexton(app, schema=schema, secret_key=secret_key, http_allow=LOOPBACK)
    try:
        await _make_table(app)
        await _declare(app)
        access, policies = await _make_tenants(app, seed, sink)
        access.save(folder)
        write_all(folder / "dump" / "tasks.jsonl", [*tasks.described(), *policies])
        begins = (now_us() // SECOND + LEAD) * SECOND
        shape = Shape(begins, seconds, fires_per_second, lease, harsh)
        await _put_calendars(app, folder, seed, shape, access)
        wanted = [*population(seed, shape), *past.planned(seed, begins)]
        lines = await _register(app, access, wanted, with_http=sink is not None)
        write_all(folder / "dump" / "population.jsonl", lines)
        write_all(folder / "dump" / "ledger.jsonl", await _put_past(app, schema, lines))
        return Prepared(access, len(lines), sum(line["rate"] for line in lines), begins)
    finally:
        if own:
            await app.close()


async def _make_table(app: Sexton) -> None:
    connection = await asyncpg.connect((await app.address()).url)
    try:
        await connection.execute(_TABLE.read_text())
    finally:
        await connection.close()


async def _declare(app: Sexton) -> None:
    """Before the first fire: it asks the database for the queue of its task."""
    store = (await app.client()).store
    await store.workers.declare([task.declaration for task in tasks.app.tasks.values()])


async def _make_tenants(
    app: Sexton, seed: int, sink: tuple[str, str] | None
) -> tuple[Access, list[dict[str, Any]]]:
    random = Random(f"tenants {seed}")
    made: dict[str, Tenant] = {}
    policies: list[dict[str, Any]] = []
    desk = Database(app, "default")
    for name in TENANTS:
        if name != "default":
            quotas = {"min_interval": None, "requests_per_second": None}
            await desk.tenants.put(name, **quotas, max_live_jobs=LIVE_JOBS.get(name))
        site = Database(app, name)
        keys = {}
        for role in ("operator", "worker"):
            key = (await site.keys.create(f"torture {role}", role)).key
            assert key is not None, "a key is shown when it is made"
            keys[role] = key
        secret = "whsec_" + base64.b64encode(random.randbytes(32)).decode()
        endpoints = {}
        for endpoint, url in zip(ENDPOINTS, sink or (), strict=False):
            policy = _POLICIES[endpoint]
            there = f"{url.rstrip('/')}/{name}/{endpoint}"
            found = await site.endpoints.put(endpoint, there, secrets=[secret], **policy)
            endpoints[endpoint] = found.task
            policies.append(_policy(found.task, name, endpoint, policy))
        id = await site.ground.owner()
        made[name] = Tenant(name=name, id=id, secret=secret, endpoints=endpoints, **keys)
    return Access(made, FLOODS), policies


def _policy(task: str, tenant: str, endpoint: str, policy: dict[str, Any]) -> dict[str, Any]:
    """As of a task; what a delivery is put off by its host is a snooze, as for any other."""
    return {
        "task": task,
        "queue": "http",
        "runs": "http",
        **policy["retry"],
        "timeout": policy["timeout"],
        "accepted_for": policy["accepted_for"],
        "max_running": None,
        "max_running_per_key": None,
        "tenant": tenant,
        "does": f"Delivers to the endpoint {endpoint}, which answers as the payload asks; 429 says "
        "when to come back.",
    }


async def _put_calendars(
    app: Sexton, folder: Path, seed: int, shape: Shape, access: Access
) -> None:
    lines = []
    for tenant in access.tenants.values():
        drawn = calendars(Random(f"calendars {seed} {tenant.name}"), shape)
        for name, ranges in drawn.items():
            await app.calendars.put(name, ranges=as_ranges(ranges), tenant=tenant.name)
            lines.append({"tenant": tenant.name, "name": name, "ranges_us": ranges})
    write_all(folder / "dump" / "calendars.jsonl", lines)


async def _put_past(app: Sexton, schema: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    connection = await asyncpg.connect((await app.address()).url)
    try:
        return await past.put(connection, schema, lines)
    finally:
        await connection.close()


async def _register(
    app: Sexton, access: Access, planned: list[Planned], *, with_http: bool
) -> list[dict[str, Any]]:
    """In bulk, one transaction for each tenant."""
    by_tenant: dict[str, list[tuple[Planned, Spec]]] = defaultdict(list)
    for each in planned:
        chosen = each
        if each.task in ENDPOINTS and not with_http:
            plain = {name: each.payload[name] for name in ("id", "tenant", "rev")}
            chosen = replace(each, task="quick", payload=plain)
        task = access.tenants[each.tenant].endpoints.get(chosen.task, chosen.task)
        spec = app.schedules.spec(chosen.name, task, chosen.payload, **chosen.told)
        by_tenant[each.tenant].append((chosen, spec))
    lines: list[dict[str, Any]] = []
    for tenant, chosen_specs in by_tenant.items():
        registered = await app.schedules.add_many([spec for _, spec in chosen_specs], tenant=tenant)
        id = access.tenants[tenant].id
        lines += [
            each.line(made.id, id, spec.task)
            for (each, spec), made in zip(chosen_specs, registered, strict=True)
        ]
    return lines
