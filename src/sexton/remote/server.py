"""A service, as an application that is somewhere else: the same verbs, over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from sexton.domain.duration import Duration
from sexton.domain.job import Enqueued, State
from sexton.observe import traces
from sexton.portal import Portal
from sexton.remote import admin
from sexton.remote.schedules import Calendars, Instant, Schedules, Target, lines, plain, target_of
from sexton.remote.views import (
    Cancelled,
    Dead,
    DeadLine,
    Job,
    JobLine,
    Line,
    Page,
    Progress,
    Purge,
    Queue,
    Redrive,
    Retried,
    Worker,
)
from sexton.remote.wire import TRIES, Wire

T = TypeVar("T")


class _Queues(msgspec.Struct):
    items: list[Queue]


class Server:
    """`async with Server("https://sexton.internal", key) as server: await server.enqueue("t")`

    Without `async with` each call has a connection of its own. A change that finds the service
    away is tried again, under an Idempotency-Key of its own, so it is made once. Lists come in
    pages; `each` goes through all of them.
    """

    def __init__(self, url: str, key: str | None = None, *, tries: int = TRIES) -> None:
        self._wire = Wire(url, key, tries=tries)
        self._portal = Portal()
        self.url = self._wire.url
        self.schedules = Schedules(self._wire)
        self.calendars = Calendars(self._wire)
        self.endpoints = admin.Endpoints(self._wire)
        self.keys = admin.Keys(self._wire)
        self.tenants = admin.Tenants(self._wire)

    def __repr__(self) -> str:
        return f"<Server {self.url}>"  # without the key

    async def __aenter__(self) -> Self:
        await self._wire.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """This loop's connections."""
        await self._wire.close()

    def run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of one of these methods, for callers without an event loop:
        `server.run_sync(server.enqueue("t"))`.
        """

        async def kept() -> T:
            await self._wire.open()
            return await work

        try:
            return self._portal.run(kept())
        finally:
            work.close()  # it was not begun, if this thread runs an event loop

    def close_sync(self) -> None:
        """Close what synchronous callers opened."""
        self._portal.run(self.close())
        self._portal.close()

    async def each(
        self, list: Callable[..., Awaitable[Page[T]]], *args: Any, **filters: Any
    ) -> AsyncIterator[T]:
        """Everything in a list, page by page: `async for job in server.each(server.jobs, …)`."""
        cursor = filters.pop("cursor", None)
        while True:
            page = await list(*args, **filters, cursor=cursor)
            for item in page:
                yield item
            cursor = page.next
            if cursor is None:
                return

    # ── jobs ────────────────────────────────────────────────────────────────

    async def enqueue(
        self,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        at: Instant | None = None,
        delay: Duration | None = None,
        key: str | None = None,
        key_held_for: Duration | None = None,
        limit_key: str | None = None,
        tags: Iterable[str] | None = None,
        expires_in: Duration | None = None,
        idempotency_key: str | None = None,
    ) -> Enqueued:
        """A job of a task, by name, or for a target such as `{"http": {"endpoint": "billing"}}`."""
        options = {
            "queue": queue,
            "priority": priority,
            "at": at,
            "delay": delay,
            "key": key,
            "key_held_for": key_held_for,
            "limit_key": limit_key,
            "tags": None if tags is None else [*tags],
            "expires_in": expires_in,
        }
        headers = _headers(idempotency_key)
        said = job(target, arguments, **options)
        return await self._wire.ask("POST", "/v1/jobs", said, kind=Enqueued, headers=headers)

    def enqueue_sync(
        self, target: Target, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> Enqueued:
        """The same for callers without an event loop."""
        return self.run_sync(self.enqueue(target, arguments, **options))

    async def enqueue_many(
        self, jobs: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> AsyncIterator[Line]:
        """Many, each made by `job(…)` or as the API says it; an answer for each, in order.

        Not all or none: a bad one stops none of the others, and what was answered is there.
        """
        headers = _headers(idempotency_key)
        answers = self._wire.lines("/v1/jobs/bulk", lines(jobs), kind=Line, headers=headers)
        async for line in answers:
            yield line

    async def job(self, id: int) -> Job:
        """State, result, error and every attempt of a job."""
        return await self._wire.ask("GET", f"/v1/jobs/{id:d}", kind=Job)

    async def jobs(
        self,
        *,
        state: State | None = None,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        schedule: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[JobLine]:
        """Jobs, live and finished, newest first; with filters a page may be short."""
        query = {
            "state": state,
            "task": task,
            "queue": queue,
            "tag": tag,
            "key": key,
            "schedule": schedule,
            "from": from_,
            "to": to,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._wire.ask("GET", "/v1/jobs", kind=Page[JobLine], query=query)

    async def progress(self, id: int) -> Progress:
        """How far a job is, as it said itself."""
        return await self._wire.ask("GET", f"/v1/jobs/{id:d}/progress", kind=Progress)

    async def cancel(self, id: int) -> Cancelled:
        """End a live job: one that waits at once, one that runs through its worker."""
        return await self._wire.ask("POST", f"/v1/jobs/{id:d}/cancel", kind=Cancelled)

    async def retry(self, id: int) -> Retried:
        """Try it again now: one that waits, a dead one, or a new job for one that has ended."""
        return await self._wire.ask("POST", f"/v1/jobs/{id:d}/retry", kind=Retried)

    async def queues(self) -> list[Queue]:
        """Every queue with live jobs, counted by state."""
        return (await self._wire.ask("GET", "/v1/queues", kind=_Queues)).items

    async def workers(self, *, limit: int = 50, cursor: str | None = None) -> Page[Worker]:
        """The workers that live."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/v1/workers", kind=Page[Worker], query=query)

    async def cluster(self) -> admin.Cluster:
        """The nodes that fire schedules, for keys of the tenant `default`."""
        return await self._wire.ask("GET", "/v1/cluster", kind=admin.Cluster)

    async def audit_log(
        self,
        *,
        action: str | None = None,
        actor: str | None = None,
        subject: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[admin.LogLine]:
        """What was changed through the service, by whom and from where, newest first."""
        filters = {"action": action, "actor": actor, "subject": subject, "from": from_, "to": to}
        return await admin.audit_log(self._wire, filters, limit, cursor)

    async def now(self) -> datetime:
        """By this machine's clock: instants relative to it are good enough from afar."""
        return datetime.now(UTC)

    # ── settling, for targets that answered 202 ─────────────────────────────

    async def succeed(self, id: int, fence: int, result: Any = None) -> None:
        """The job is done; Stale if the attempt is no longer its running one."""
        said = {"fence": fence, "result": plain(result)}
        await self._wire.ask("POST", f"/v1/jobs/{id:d}/succeed", said, kind=dict)

    async def fail(
        self,
        id: int,
        fence: int,
        error: str = "",
        *,
        permanent: bool = False,
        retry_after: Duration | None = None,
    ) -> None:
        """The attempt failed: it is tried again as its task says, or dead."""
        said = {
            "fence": fence,
            "error": error,
            "permanent": permanent,
            "retry_after": plain(retry_after),
        }
        await self._wire.ask("POST", f"/v1/jobs/{id:d}/fail", said, kind=dict)

    async def snooze(self, id: int, fence: int, delay: Duration, reason: str = "") -> None:
        """Not now: again after `delay`, which uses up no attempt."""
        said = {"fence": fence, "delay": plain(delay), "reason": reason}
        await self._wire.ask("POST", f"/v1/jobs/{id:d}/snooze", said, kind=dict)

    # ── dead jobs ───────────────────────────────────────────────────────────

    async def dead(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        error: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeadLine]:
        """Dead jobs, the latest death first."""
        query = {
            "task": task,
            "queue": queue,
            "tag": tag,
            "key": key,
            "reason": reason,
            "error": error,
            "from": from_,
            "to": to,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._wire.ask("GET", "/v1/dead", kind=Page[DeadLine], query=query)

    async def dead_job(self, id: int) -> Dead:
        """One dead job with its payload and every attempt."""
        return await self._wire.ask("GET", f"/v1/dead/{id:d}", kind=Dead)

    async def redrive(
        self,
        *ids: int,
        task: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> Redrive:
        """Give dead jobs another life: these, or the oldest `limit` that the filters choose."""
        said = _choice(ids, task, queue, error, since, until, limit, dry_run)
        return await self._wire.ask("POST", "/v1/dead/redrive", said, kind=Redrive)

    async def purge(
        self,
        *ids: int,
        task: str | None = None,
        queue: str | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> Purge:
        """Throw dead jobs away for good."""
        said = _choice(ids, task, queue, error, since, until, limit, dry_run)
        return await self._wire.ask("POST", "/v1/dead/purge", said, kind=Purge)


def job(
    target: Target, arguments: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """A job as the API says it, for `enqueue_many`."""
    given = {name: plain(value) for name, value in options.items() if value is not None}
    return {"target": target_of(target), "payload": plain(arguments or {}), **given}


def _headers(idempotency_key: str | None) -> dict[str, str]:
    """Of an enqueue, which goes on with the caller's trace."""
    return traces.sent() | ({} if idempotency_key is None else {"Idempotency-Key": idempotency_key})


def _choice(
    ids: tuple[int, ...],
    task: str | None,
    queue: str | None,
    error: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    dry_run: bool,
) -> dict[str, Any]:
    filters = {"task": task, "queue": queue, "error": error, "since": since, "until": until}
    given = {name: value for name, value in filters.items() if value is not None}
    said: dict[str, Any] = {"dry_run": dry_run, "limit": limit}
    if ids:
        said["ids"] = [*ids]
    if given:
        said["filter"] = given
    return said
