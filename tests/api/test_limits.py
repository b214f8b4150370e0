"""Quotas: how fast, how much and how often, for each tenant by itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from sexton import Sexton
from sexton.api import limits
from sexton.api.desk import Desk
from sexton.api.principal import Principal, Quotas
from sexton.api.problems import Problem
from sexton.api.service import Service
from sexton.domain.spec import Spec, Terms

from .process import until
from .served import Served
from .test_idempotency import held, waiting

# ── how fast ────────────────────────────────────────────────────────────────


def test_as_many_at_once_as_a_second_has_and_then_at_its_pace() -> None:
    now = 100.0
    asked = limits.Limits(clock=lambda: now)
    acme, other = (
        Principal(id, "t", "viewer", "test", None, Quotas(requests_per_second=4.0)) for id in (2, 3)
    )
    for left in (3, 2, 1, 0):
        assert dict(asked.request(acme))[b"ratelimit-policy"] == b'"tenant";q=4;w=1'
        assert dict(asked.request(other))[b"ratelimit"].startswith(f'"tenant";r={left};'.encode())
    for _ in range(3):
        with pytest.raises(Problem) as refused:
            asked.request(acme)
    assert refused.value.headers == {
        "Retry-After": "1",
        "RateLimit-Policy": '"tenant";q=4;w=1',
        "RateLimit": '"tenant";r=0;t=1',
    }
    now += 0.5
    asked.request(acme)
    asked.request(acme)
    with pytest.raises(Problem):
        asked.request(acme)
    now += 3600
    for _ in range(4):
        asked.request(acme)
    with pytest.raises(Problem):
        asked.request(acme)


async def test_too_many_requests_are_told_when_to_come_back(api: Served) -> None:
    """So slow a rate that one request is all there is, however slow this machine is."""
    async with (
        api.caller("viewer", "acme", requests_per_second=0.005) as acme,
        api.caller("viewer", "other") as other,
    ):
        assert (await acme.get("/v1/tenants")).status_code == 200
        refused = await acme.get("/v1/tenants")
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/rate_limited")
        assert 100 <= int(refused.headers["retry-after"]) <= 200
        assert refused.headers["ratelimit-policy"] == '"tenant";q=1;w=200'
        # All keys of a tenant together; another tenant does not notice.
        async with api.client(await api.key("admin", "acme")) as same_tenant:
            assert (await same_tenant.get("/v1/tenants")).status_code == 429
        assert (await other.get("/v1/tenants")).status_code == 200


async def test_the_operator_is_not_counted(api: Served) -> None:
    async with api.caller("viewer") as viewer:
        answer = await viewer.get("/v1/tenants")
        assert "ratelimit" not in answer.headers


# ── how much ────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def desk_of(service: Service, **quotas: Any) -> AsyncIterator[Desk]:
    who = Principal(1, "default", "admin", "test", None, Quotas(**quotas))
    async with service.transaction(who) as desk:
        yield desk


async def add(desk: Desk, name: str) -> None:
    await limits.room_for_schedules(desk, 1)
    await desk.schedules.add(name, "report", every="1h", tenant=desk.tenant)


async def test_the_last_schedule_fits_and_the_next_does_not(app: Sexton) -> None:
    async with Service.running(app) as service:
        for n in range(3):
            async with desk_of(service, max_schedules=3) as desk:
                await add(desk, f"s{n}")
        with pytest.raises(Problem) as refused:
            async with desk_of(service, max_schedules=3) as desk:
                await add(desk, "one-too-many")
        assert (refused.value.status, refused.value.kind) == (403, "quota_exceeded")
        assert refused.value.more == {"quota": "max_schedules"}
        with pytest.raises(Problem):
            async with desk_of(service, max_schedules=4) as desk:
                await limits.room_for_schedules(desk, 2)
        # A cancelled one makes room.
        await app.schedules.cancel("s0")
        async with desk_of(service, max_schedules=3) as desk:
            await add(desk, "again")


async def test_ten_at_once_do_not_take_more_than_there_is(app: Sexton) -> None:
    async with Service.running(app) as service:

        async def one(n: int) -> bool:
            try:
                async with desk_of(service, max_schedules=4) as desk:
                    await add(desk, f"s{n}")
            except Problem:
                return False
            return True

        done = await asyncio.gather(*(one(n) for n in range(10)))
        assert sum(done) == 4
        assert len(await app.schedules.list()) == 4


class Believing(limits.Limits):
    """What was counted is believed all the while, even when a listener hears that it listens."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)

    def forget(self) -> None: ...


async def test_far_from_the_limit_nobody_counts_and_nobody_waits(app: Sexton) -> None:
    async with Service.running(app) as service:
        service.limits = Believing()
        async with desk_of(service, max_schedules=100_000) as desk:
            await limits.room_for_schedules(desk, 10)  # counts, and holds its place in the row
            async with desk_of(service, max_schedules=100_000) as other:
                await limits.room_for_schedules(other, 10)
        # Half of the room was given away; who wants more than is left of it counts.
        with pytest.raises(Problem):
            async with desk_of(service, max_schedules=100_000) as desk:
                await limits.room_for_schedules(desk, 100_001)


async def test_jobs_that_do_not_fit_may_come_back(app: Sexton) -> None:
    async with Service.running(app) as service:
        await app.enqueue("t")
        await app.enqueue("t")
        async with desk_of(service, max_live_jobs=3) as desk:
            await limits.room_for_jobs(desk, 1)
            with pytest.raises(Problem) as refused:
                await limits.room_for_jobs(desk, 2)
        assert (refused.value.status, refused.value.kind) == (429, "quota_exceeded")
        assert refused.value.headers["Retry-After"] == "5"
        async with desk_of(service) as desk:
            await limits.room_for_jobs(desk, 10**9)


async def test_a_tenant_whose_requests_take_long_leaves_connections_to_others(
    api: Served,
) -> None:
    """A change of a calendar may take as long as its schedules are many, and others wait for it."""
    async with api.caller("operator", "acme") as acme, api.caller("viewer", "other") as other:
        async with held(api, await calendars_of(api, "acme")):
            sent = [asyncio.create_task(acme.put("/v1/calendars/c", json={})) for _ in range(30)]
            await until(lambda: several_wait(api))
            for _ in range(3):
                async with asyncio.timeout(15):
                    assert (await other.get("/v1/schedules")).status_code == 200
        assert {(await each).status_code for each in sent} <= {200, 201, 503}


async def calendars_of(api: Served, tenant: str) -> str:
    [row] = await api.rows("select id from sexton.tenant where name = $1", tenant)
    what = f"sexton.hold:calendar:{row['id']}"
    return f"select pg_advisory_xact_lock(hashtextextended('{what}', 0))"


async def several_wait(api: Served) -> bool:
    return await waiting(api) >= 7


# ── how often ───────────────────────────────────────────────────────────────

NOW = datetime(2026, 3, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "shortest"),
    [
        ({"every": "90s"}, 90.0),
        ({"every": 0.5}, 0.5),
        ({"cron": "* * * * *"}, 60.0),
        ({"cron": "* * * * * *"}, 1.0),
        ({"cron": "0,59 * * * *"}, 60.0),
        ({"cron": "0 0 29 2 *"}, 4 * 365 * 86400.0 + 86400.0),
        # A burst that begins far away is what comes next all the same.
        ({"cron": "*/2 * 0 1 1 *"}, 2.0),
        ({"cron": "*/15 * * * *", "starts_at": "2030-01-01T00:00:00Z"}, 900.0),
        ({"cron": "*/15 * * * *", "exclude": ["holidays"]}, 900.0),
        ({"rrule": "FREQ=MINUTELY;INTERVAL=10"}, 600.0),
        ({"any": ["0 * * * *", "10 * * * *"]}, 600.0),
        # Hidden behind fifty hourly ones, and looked at by itself.
        ({"any": ["0 * * * *", "30-31 12 1 1 *"]}, 60.0),
        ({"at": "2027-01-01T00:00:00Z"}, float("inf")),
    ],
)
def test_the_shortest_time_between_fires_is_found(options: dict[str, Any], shortest: float) -> None:
    assert limits.shortest_interval(Terms.of("s", options), NOW) == shortest


async def test_a_schedule_that_fires_too_often_is_refused_by_its_rule(app: Sexton) -> None:
    async with Service.running(app) as service:
        for options, field in (
            ({"every": "59s"}, "every"),
            ({"cron": "*/30 * * * * *"}, "cron"),
            ({"any": ["* * * * * *"]}, "any"),
        ):
            spec = Spec("s", "t", "{}", Terms.of("s", options))
            async with desk_of(service, min_interval=60.0) as desk:
                with pytest.raises(Problem) as refused:
                    limits.demand_interval(desk.principal, spec)
                assert (refused.value.status, refused.value.field) == (422, field)
            async with desk_of(service, min_interval=None) as desk:
                limits.demand_interval(desk.principal, spec)
        spec = Spec("s", "t", "{}", Terms.of("s", {"cron": "* * * * *"}))
        async with desk_of(service, min_interval=60.0) as desk:
            limits.demand_interval(desk.principal, spec)
