"""An operator's two hands: the Python application, and the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from sexton import ScheduleView, Sexton
from sexton.torture.work.access import Access, Tenant
from sexton.torture.work.api import Api, segment
from sexton.torture.work.clock import from_us, to_us
from sexton.torture.work.population import as_ranges
from sexton.torture.work.rules import iso

Answer = dict[str, Any]
Ranges = Sequence[Sequence[int]]
LOOKED_AT = 30


class Hand(Protocol):
    """Every verb answers with what it was told; `sign` is the request's own Idempotency-Key."""

    via: str

    async def add(
        self, tenant: Tenant, name: str, task: str, payload: Answer, told: Answer, sign: str
    ) -> Answer: ...

    async def update(
        self, tenant: Tenant, name: str, payload: Answer, told: Answer, sign: str
    ) -> Answer: ...

    async def pause(
        self, tenant: Tenant, name: str, reason: str, until: int | None, sign: str
    ) -> Answer: ...

    async def resume(self, tenant: Tenant, name: str, sign: str) -> Answer: ...

    async def cancel(self, tenant: Tenant, name: str, sign: str) -> Answer: ...

    async def trigger(
        self, tenant: Tenant, name: str, payload: Answer | None, sign: str
    ) -> Answer: ...

    async def backfill(
        self, tenant: Tenant, name: str, first: int, end: int, rate: float, sign: str
    ) -> Answer: ...

    async def put_calendar(
        self, tenant: Tenant, name: str, ranges: Ranges, sign: str
    ) -> Answer: ...

    async def cancel_job(self, tenant: Tenant, id: int, sign: str) -> Answer: ...

    async def redrive(self, tenant: Tenant, ids: Sequence[int], sign: str) -> Answer: ...

    async def live(self, tenant: Tenant) -> list[tuple[Tenant, int]]:
        """Some live jobs; those of others too where nobody asks for whom."""
        ...

    async def dead(self, tenant: Tenant) -> list[tuple[Tenant, int]]: ...


class PythonHand:
    """`app.schedules` for a tenant; jobs are anybody's here."""

    via = "python"

    def __init__(self, app: Sexton, access: Access) -> None:
        self._app = app
        self._tenants = {each.id: each for each in access.tenants.values()}

    async def add(
        self, tenant: Tenant, name: str, task: str, payload: Answer, told: Answer, sign: str
    ) -> Answer:
        return _seen(await self._app.schedules.add(name, task, payload, tenant=tenant.name, **told))

    async def update(
        self, tenant: Tenant, name: str, payload: Answer, told: Answer, sign: str
    ) -> Answer:
        return _seen(
            await self._app.schedules.update(name, tenant=tenant.name, arguments=payload, **told)
        )

    async def pause(
        self, tenant: Tenant, name: str, reason: str, until: int | None, sign: str
    ) -> Answer:
        end = None if until is None else from_us(until)
        return _seen(await self._app.schedules.pause(name, reason, until=end, tenant=tenant.name))

    async def resume(self, tenant: Tenant, name: str, sign: str) -> Answer:
        return _seen(await self._app.schedules.resume(name, tenant=tenant.name))

    async def cancel(self, tenant: Tenant, name: str, sign: str) -> Answer:
        return _seen(await self._app.schedules.cancel(name, "torture", tenant=tenant.name))

    async def trigger(self, tenant: Tenant, name: str, payload: Answer | None, sign: str) -> Answer:
        made = await self._app.schedules.trigger(name, arguments=payload, tenant=tenant.name)
        return {"job": made}

    async def backfill(
        self, tenant: Tenant, name: str, first: int, end: int, rate: float, sign: str
    ) -> Answer:
        made = await self._app.schedules.backfill(
            name, from_us(first), from_us(end), rate=rate, tenant=tenant.name
        )
        return {"id": made}

    async def put_calendar(self, tenant: Tenant, name: str, ranges: Ranges, sign: str) -> Answer:
        told = as_ranges(ranges)
        return {"recomputed": await self._app.calendars.put(name, ranges=told, tenant=tenant.name)}

    async def cancel_job(self, tenant: Tenant, id: int, sign: str) -> Answer:
        """`ended` is null if it was not live any more."""
        return {"ended": (await self._app.cancel(id)).get(id)}

    async def redrive(self, tenant: Tenant, ids: Sequence[int], sign: str) -> Answer:
        done = await self._app.redrive(*ids)
        return {"jobs": [{"id": each.id, "revived": each.revived} for each in done]}

    async def days_kept(self) -> int:
        retention, _ = await self._app.keep_history()
        return round(retention / 86_400)

    async def keep_history(self, days: int, sign: str) -> Answer:
        """For the whole installation, and not over the API."""
        retention, _ = await self._app.keep_history(f"{days}d")
        return {"days": round(retention / 86_400)}

    async def live(self, tenant: Tenant) -> list[tuple[Tenant, int]]:
        found = await self._app.jobs(limit=LOOKED_AT)
        return self._owned((each.tenant, each.id) for each in found)

    async def dead(self, tenant: Tenant) -> list[tuple[Tenant, int]]:
        found = await self._app.dead(limit=LOOKED_AT)
        return self._owned((each.tenant, each.id) for each in found)

    def _owned(self, found: Any) -> list[tuple[Tenant, int]]:
        return [(self._tenants[owner], id) for owner, id in found if owner in self._tenants]


class ApiHand:
    """The same over HTTP, with the key of the tenant's operator."""

    via = "api"

    def __init__(self, api: Api) -> None:
        self._api = api

    async def _to(
        self, tenant: Tenant, method: str, path: str, said: Any, sign: str | None, **query: str
    ) -> Any:
        return await self._api.ask(
            method, path, said, key=tenant.operator, idempotency_key=sign, query=query or None
        )

    async def _schedule(
        self, tenant: Tenant, method: str, name: str, rest: str, said: Any, sign: str
    ) -> Any:
        return await self._to(tenant, method, f"/v1/schedules/{segment(name)}{rest}", said, sign)

    async def add(
        self, tenant: Tenant, name: str, task: str, payload: Answer, told: Answer, sign: str
    ) -> Answer:
        endpoints = {each: endpoint for endpoint, each in tenant.endpoints.items()}
        target = {"http": {"endpoint": endpoints[task]}} if task in endpoints else {"task": task}
        said = {"name": name, "target": target, "payload": payload, **told}
        return _told(await self._to(tenant, "POST", "/v1/schedules", said, sign))

    async def update(
        self, tenant: Tenant, name: str, payload: Answer, told: Answer, sign: str
    ) -> Answer:
        said = {"payload": payload, **told}
        return _told(await self._schedule(tenant, "PATCH", name, "", said, sign))

    async def pause(
        self, tenant: Tenant, name: str, reason: str, until: int | None, sign: str
    ) -> Answer:
        said = {"reason": reason, "until": None if until is None else iso(until)}
        return _told(await self._schedule(tenant, "POST", name, "/pause", said, sign))

    async def resume(self, tenant: Tenant, name: str, sign: str) -> Answer:
        return _told(await self._schedule(tenant, "POST", name, "/resume", None, sign))

    async def cancel(self, tenant: Tenant, name: str, sign: str) -> Answer:
        await self._schedule(tenant, "DELETE", name, "", None, sign)
        return {}

    async def trigger(self, tenant: Tenant, name: str, payload: Answer | None, sign: str) -> Answer:
        said = {"payload": payload}
        made: Answer = await self._schedule(tenant, "POST", name, "/trigger", said, sign)
        return made

    async def backfill(
        self, tenant: Tenant, name: str, first: int, end: int, rate: float, sign: str
    ) -> Answer:
        said = {"from": iso(first), "to": iso(end), "rate": rate}
        made: Answer = await self._schedule(tenant, "POST", name, "/backfill", said, sign)
        return made

    async def put_calendar(self, tenant: Tenant, name: str, ranges: Ranges, sign: str) -> Answer:
        path, said = f"/v1/calendars/{segment(name)}", {"ranges": as_ranges(ranges)}
        made = await self._to(tenant, "PUT", path, said, sign)
        return {"recomputed": made["recomputed"]}

    async def cancel_job(self, tenant: Tenant, id: int, sign: str) -> Answer:
        made = await self._to(tenant, "POST", f"/v1/jobs/{id}/cancel", None, sign)
        return {"ended": made["state"] == "cancelled"}

    async def redrive(self, tenant: Tenant, ids: Sequence[int], sign: str) -> Answer:
        made = await self._to(tenant, "POST", "/v1/dead/redrive", {"ids": [*ids]}, sign)
        return {"jobs": [{"id": each["id"], "revived": each["revived"]} for each in made["jobs"]]}

    async def read_job(self, tenant: Tenant, id: int) -> Answer:
        found = await self._to(tenant, "GET", f"/v1/jobs/{id}", None, None)
        return {"id": found["id"], "state": found["state"]}

    async def read_schedule(self, tenant: Tenant, name: str) -> Answer:
        path = f"/v1/schedules/{segment(name)}"
        return _told(await self._to(tenant, "GET", path, None, None))

    async def schedules(self, tenant: Tenant) -> Answer:
        """The first of them."""
        page = await self._to(tenant, "GET", "/v1/schedules", None, None, limit=str(LOOKED_AT))
        return {"schedules": [{"id": each["id"]} for each in page["items"]]}

    async def jobs_of(self, tenant: Tenant, schedule: str) -> Answer:
        """Those that one schedule made."""
        found = await self._listed(tenant, "/v1/jobs", schedule=schedule)
        return {"jobs": [{"id": id} for _, id in found]}

    async def live(self, tenant: Tenant) -> list[tuple[Tenant, int]]:
        running = await self._listed(tenant, "/v1/jobs", state="running")
        return running or await self._listed(tenant, "/v1/jobs", state="waiting")

    async def dead(self, tenant: Tenant) -> list[tuple[Tenant, int]]:
        return await self._listed(tenant, "/v1/dead")

    async def _listed(self, tenant: Tenant, path: str, **filters: str) -> list[tuple[Tenant, int]]:
        page = await self._to(tenant, "GET", path, None, None, limit=str(LOOKED_AT), **filters)
        return [(tenant, each["id"]) for each in page["items"]]


def _seen(view: ScheduleView) -> Answer:
    """As it stood when it was looked at, after the change: another may have come since."""
    return {"version": view.version, "state": view.state, "since_us": to_us(view.since)}


def _told(answer: Answer) -> Answer:
    since = to_us(datetime.fromisoformat(answer["since"]))
    return {"version": answer["version"], "state": answer["state"], "since_us": since}
