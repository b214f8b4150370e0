"""Three ways to enqueue: through the Python application, through SQL, and through the API."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Protocol

import asyncpg
import msgspec

from sexton import Call, Sexton
from sexton.torture.stand.sessions import CLIENT
from sexton.torture.work.access import Tenant
from sexton.torture.work.api import Answered, Api
from sexton.torture.work.asks import RolledBack
from sexton.torture.work.mix import Wanted, length

_ENQUEUE = Path(__file__).with_name("enqueue.sql").read_text()
TAKEN_BACK = 0.06
# How long a transaction goes on after its jobs were made: most of it longer than a claimer's slack,
# so that those who claim what came after it have gone past it when it is committed.
LINGERS = (0.2, 2.0)
Made = list[dict[str, Any]]


class Way(Protocol):
    """`jobs` become jobs of a tenant; what is answered for each, in order."""

    name: str

    async def enqueue(
        self, tenant: Tenant, jobs: Sequence[Wanted], idempotency_key: str
    ) -> Made: ...

    async def close(self) -> None: ...


class PythonWay:
    """The application object: one by one, or many by COPY."""

    name = "python"

    def __init__(self, app: Sexton) -> None:
        self._app = app

    async def enqueue(self, tenant: Tenant, jobs: Sequence[Wanted], idempotency_key: str) -> Made:
        calls = [self._call(tenant, job) for job in jobs]
        if len(calls) == 1:
            made = [await self._app.enqueue_call(calls[0])]
        else:
            made = await self._app.enqueue_many(calls)
        return [_made(job, each.id, each.duplicate) for job, each in zip(jobs, made, strict=True)]

    def _call(self, tenant: Tenant, job: Wanted) -> Call:
        call = self._app.tasks[job.task].call(**job.payload).options(**job.options)
        call.job.tenant = tenant.id
        return call

    async def close(self) -> None:
        await self._app.close()


class SqlWay:
    """`select sexton.enqueue(…)` on a connection of its own; several are one transaction, and so
    is each by a program that has something else to do in it."""

    name = "sql"

    def __init__(self, url: str, schema: str, patience: float, *, lingers: bool = False) -> None:
        self._url = url
        self._schema = schema
        self._patience = patience
        self._lingers = lingers
        self._connection: asyncpg.Connection | None = None
        self._roll_back = False
        self._linger = 0.0

    def draw(self, random: Random) -> None:
        """What becomes of the next one: some are taken back, some are committed late."""
        self._roll_back = random.random() < TAKEN_BACK
        self._linger = random.uniform(*LINGERS) if self._lingers else 0.0

    async def enqueue(self, tenant: Tenant, jobs: Sequence[Wanted], idempotency_key: str) -> Made:
        try:
            connection = await self._open()
            if len(jobs) == 1 and not self._roll_back and not self._linger:
                return [await self._one(connection, tenant, jobs[0])]
            async with connection.transaction():
                made = [await self._one(connection, tenant, job) for job in jobs]
                if self._linger:
                    await asyncio.sleep(self._linger)
                if self._roll_back:
                    raise RolledBack("it was taken back")
            return made
        except RolledBack:
            raise
        except BaseException as error:
            if self._connection is not None and not isinstance(error, asyncpg.PostgresError):
                self._connection.terminate()
            if self._roll_back and isinstance(error, Exception):
                raise RolledBack(f"it was never committed: {error}") from error
            raise

    async def _one(self, connection: asyncpg.Connection, tenant: Tenant, job: Wanted) -> Any:
        options = job.options
        row = await connection.fetchrow(
            _ENQUEUE,
            job.task,
            msgspec.json.encode(job.payload).decode(),
            options.get("priority"),
            length(options, "delay"),
            options.get("key"),
            length(options, "key_held_for"),
            options.get("limit_key"),
            length(options, "expires_in"),
            tenant.id,
            timeout=self._patience,
        )
        return _made(job, row["id"], row["duplicate"])

    async def _open(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(
                self._url,
                timeout=self._patience,
                command_timeout=self._patience,
                server_settings={"search_path": self._schema, "application_name": CLIENT},
            )
        return self._connection

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


class ApiWay:
    """POST /v1/jobs, and /v1/jobs/bulk for many, under an Idempotency-Key."""

    name = "api"

    def __init__(self, api: Api) -> None:
        self._api = api

    async def enqueue(self, tenant: Tenant, jobs: Sequence[Wanted], idempotency_key: str) -> Made:
        said = [_said(job) for job in jobs]
        key = tenant.operator
        if len(jobs) == 1:
            answer = await self._api.ask(
                "POST", "/v1/jobs", said[0], key=key, idempotency_key=idempotency_key
            )
            return [_made(jobs[0], answer["id"], answer["duplicate"])]
        lines = await self._api.ask_lines(
            "/v1/jobs/bulk", said, key=key, idempotency_key=idempotency_key
        )
        for line in lines:
            if line["status"] == "error" and line["error"]["status"] >= 500:
                raise Answered(line["error"]["status"], line["error"]["detail"])
        return [
            {"payload_id": job.id, "error": line["error"]["status"]}
            if line["status"] == "error"
            else _made(job, line["id"], line["status"] == "duplicate")
            for job, line in zip(jobs, lines, strict=True)
        ]

    async def close(self) -> None:
        await self._api.__aexit__(None, None, None)


def _said(job: Wanted) -> dict[str, Any]:
    """As the API says it."""
    target = {"http": {"endpoint": job.task}} if job.endpoint else {"task": job.task}
    return {"target": target, "payload": job.payload, **job.options}


def _made(job: Wanted, id: int, duplicate: bool) -> dict[str, Any]:
    return {"payload_id": job.id, "id": id, "duplicate": duplicate}
