"""The application object: tasks are declared on it, jobs go through it."""

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, overload

from sexton.calendars import Calendars
from sexton.client import Client
from sexton.domain.duration import Duration
from sexton.domain.job import Enqueued, NewJob
from sexton.domain.retry import Retry
from sexton.embedded import EmbeddedServer, default_folder
from sexton.errors import ConfigurationError, InvalidJob, did_you_mean
from sexton.flow import backfill, forget, quota, verbs
from sexton.flow.scheduler import Scheduler
from sexton.flow.worker import Worker
from sexton.observe import traces
from sexton.operations import Operations
from sexton.portal import Portal
from sexton.schedules import Schedules
from sexton.settings import Settings
from sexton.store import Clock
from sexton.store.connection import Address
from sexton.store.migrations import Migration, SchemaState, check, migrate
from sexton.targets.arguments import encode
from sexton.targets.http import QUEUE as HTTP_QUEUE
from sexton.targets.task import Call, Task, checked_text

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_CONCURRENCY = 50

log = logging.getLogger("sexton.app")


class Declare(Protocol):
    """What `@app.task(…)` returns: it makes a task of a function and keeps its signature."""

    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class Sexton(Operations):
    """`app = Sexton()` uses SEXTON_DATABASE_URL, or starts the embedded PostgreSQL."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        name: str | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        # Whose declarations a schedule is: by default those of the module that makes this.
        self.name = name or _module_name(sys._getframe(1).f_globals)
        self.settings = Settings.load(database_url=database_url, **settings)
        self.max_payload_bytes = self.settings.max_payload_bytes
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules = Schedules(self)
        self.calendars = Calendars(self)
        self.clock = clock
        self._server: EmbeddedServer | None = None
        self._clients: dict[asyncio.AbstractEventLoop, Client] = {}
        self._opening = threading.Lock()
        self._migrated = False
        self._portal = Portal()

    # ── declaring ───────────────────────────────────────────────────────────

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        max_running: int | None = None,
        max_running_per_key: int | None = None,
        process: bool = False,
    ) -> "Declare": ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a function as a task: async on the loop, plain in a thread, or in a process."""

        def declare(function: Callable[..., Any]) -> Task[..., Any]:
            task = Task(self, function, **options)
            if task.name in self.tasks:
                raise ConfigurationError(
                    f"two tasks are called {task.name!r}: give one of them another name="
                )
            self.tasks[task.name] = task
            return task

        return declare if function is None else declare(function)

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Callable[[Task[P, R]], Task[P, R]]:
        """Declare a schedule of a task; `await app.schedules.sync()` puts it into the database.

        A text alone is cron; see `Schedules.add` for the other rules and the policies.
        """
        if cron is not None:
            if "cron" in options:
                raise ConfigurationError("@app.schedule: the cron expression is there twice")
            options["cron"] = cron

        def declare(task: Task[P, R]) -> Task[P, R]:
            self.schedules.declare(name, task, arguments, options)
            return task

        return declare

    # ── opening ─────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        await self.client()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def client(self) -> Client:
        """The connections of the running loop, opened when first needed."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            self._forget_closed_loops()
            address = await self.address()
            client = self._clients.setdefault(loop, Client(address, self.settings, self.clock))
        return client

    async def address(self) -> Address:
        """Where PostgreSQL is; the embedded one is started and brought up to date first."""
        settings = self.settings
        url = settings.database_url
        if url is None:
            server = await asyncio.to_thread(self._embedded)
            url = server.url
        address = Address(url, settings.pooler, settings.patience)
        if settings.database_url is None and not self._migrated:
            await migrate(address, settings.schema)
            self._migrated = True
        return address

    def _embedded(self) -> EmbeddedServer:
        with self._opening:
            if self._server is None:
                folder = self.settings.data_folder or default_folder(Path.cwd())
                self._server = EmbeddedServer.open(folder)
                self._migrated = False
            return self._server

    def _forget_closed_loops(self) -> None:
        """`asyncio.run` for every enqueue must not leave a connection each."""
        for loop in [each for each in self._clients if each.is_closed()]:
            self._clients.pop(loop).pool.abandon()

    def _revive(self) -> None:
        """Opening the folder starts a server that crashed; ours stays open all the while."""
        if self._server is not None:
            EmbeddedServer.open(self._server.folder, bin_dir=self._server.bin_dir).close()

    async def close(self) -> None:
        """Close this loop's connections, and the embedded server if nobody else uses it."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        self._forget_closed_loops()
        if not self._clients and self._server is not None:
            server, self._server = self._server, None
            await asyncio.to_thread(server.close)

    def close_sync(self) -> None:
        """Close what synchronous callers opened."""
        self._portal.run(self.close())
        self._portal.close()

    def run_sync(self, work: Coroutine[Any, Any, R]) -> R:
        """The result of a coroutine of ours, for callers without an event loop."""
        return self._portal.run(work)

    async def migrate(self) -> list[Migration]:
        """Bring the schema up to date; safe when many do so at once."""
        return await migrate(await self.address(), self.settings.schema)

    async def declare(self) -> None:
        """Tell the database of our tasks, as every worker does when it starts."""
        await (await self.client()).store.workers.declare(
            [task.declaration for task in self.tasks.values()]
        )

    async def schema_state(self) -> SchemaState:
        return await check(await self.address(), self.settings.schema)

    # ── enqueueing ──────────────────────────────────────────────────────────

    async def enqueue_call(self, call: Call, connection: Any = None) -> Enqueued:
        return await (await self.client()).enqueue(call.job, connection)

    def enqueue_call_sync(self, call: Call, connection: Any = None) -> Enqueued:
        if connection is not None:
            now = self.clock() if self.clock else None
            return Client.enqueue_in_sync(self.settings.schema, call.job, connection, now)
        return self._portal.run(self.enqueue_call(call))

    async def enqueue(
        self,
        task: str | Task[Any, Any],
        arguments: Mapping[str, Any] | None = None,
        *,
        connection: Any = None,
        **options: Any,
    ) -> Enqueued:
        """Enqueue by name; also tasks that only the workers' code declares."""
        name = checked_text("a task's name", task if isinstance(task, str) else task.name)
        if not isinstance(arguments or {}, Mapping):
            raise InvalidJob(f"arguments are given by name, as a dict, not as {arguments!r:.100}")
        if name in self.tasks:
            call = self.tasks[name].call(**(arguments or {})).options(**options)
            return await self.enqueue_call(call, connection)
        if hint := did_you_mean(name, self.tasks):
            log.warning("task %r is not declared in this application%s", name, hint)
        payload = encode(dict(arguments or {}), f"task {name!r}", self.max_payload_bytes)
        call = Call(self, NewJob(name, payload, "", None)).options(**options)
        return await (await self.client()).enqueue_named(call.job, connection)

    async def enqueue_many(
        self, calls: Iterable[Call], *, connection: Any = None
    ) -> list[Enqueued]:
        """All or none of them, as fast as PostgreSQL can copy; in the order given."""
        return await (await self.client()).enqueue_many(calls, connection)

    def enqueue_many_sync(self, calls: Iterable[Call], *, connection: Any = None) -> list[Enqueued]:
        """The same for callers without an event loop."""
        if connection is not None:
            return [self.enqueue_call_sync(call, connection) for call in calls]
        return self._portal.run(self.enqueue_many(calls))

    # ── working ─────────────────────────────────────────────────────────────

    async def worker(
        self,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        name: str | None = None,
    ) -> Worker:
        """A worker for these queues, or for all that our tasks name; not running yet."""
        settings = self.settings
        client = await self.client()
        address = client.address
        (await check(address, settings.schema)).demand_current()
        return Worker(
            address=address,
            listen=self._listen_address(address),
            pool=client.pool,
            settings=settings,
            tasks=self.tasks,
            queues=self._slots(queues, concurrency),
            clock=self.clock,
            name=name,
            revive=self._revive if settings.database_url is None else None,
            spans=traces.spans(),
        )

    def _listen_address(self, address: Address) -> Address | None:
        if self.settings.listen_url is not None:
            return Address(self.settings.listen_url, False, self.settings.patience)
        # A session that a pooler lends would take our LISTEN along to its next user.
        return None if self.settings.pooler else address

    def _slots(
        self, queues: Sequence[str] | Mapping[str, int] | None, concurrency: int
    ) -> dict[str, int]:
        known = {task.queue for task in self.tasks.values()}
        if queues is None:
            queues = sorted(known)
        if isinstance(queues, str):
            queues = [queues]
        slots = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, concurrency)
        if not self.tasks and HTTP_QUEUE not in slots:
            raise ConfigurationError(
                "this application declares no tasks: there is nothing to run, except deliveries "
                f"to endpoints, in the queue {HTTP_QUEUE!r}"
            )
        for queue in slots.keys() - known - {HTTP_QUEUE}:
            hint = did_you_mean(str(queue), known)
            log.warning("no task of this application has the queue %r%s", queue, hint)
        for queue, many in slots.items():
            if not isinstance(many, int) or not 1 <= many <= 100_000:
                raise ConfigurationError(
                    f"concurrency of queue {queue!r} is {many!r}: from 1 to 100,000"
                )
            if not isinstance(queue, str) or not queue:
                raise ConfigurationError(
                    f"{queue!r} is not a queue{did_you_mean(str(queue), known)}"
                )
        return slots

    async def run_worker(
        self,
        queues: Sequence[str] | Mapping[str, int] | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        name: str | None = None,
        sync: bool = False,
        handle_signals: bool = False,
    ) -> None:
        """Work until cancelled or, with `handle_signals`, until SIGTERM or Ctrl-C.

        `sync` first brings the declared schedules into the database; not where versions of the
        code run side by side, which would undo what the others did.
        """
        if sync:
            await self.schedules.sync()
        worker = await self.worker(queues, concurrency=concurrency, name=name)
        await self._run(worker, handle_signals)

    async def scheduler(self, *, name: str | None = None) -> Scheduler:
        """A node that is ready to run; `run_scheduler` is this and running it."""
        client = await self.client()
        (await check(client.address, self.settings.schema)).demand_current()
        return Scheduler(
            address=client.address,
            listen=self._listen_address(client.address),
            settings=self.settings,
            name=name,
            revive=self._revive if self.settings.database_url is None else None,
            errands=(
                ("ending pauses", verbs.RESUME_EVERY, verbs.resume_all_over),
                ("backfilling", backfill.EVERY, backfill.Backfiller().run_once),
                ("counting quotas", quota.EVERY, quota.Quotas().run_once),
                ("forgetting endpoints", forget.EVERY, forget.forget_endpoints),
            ),
            spans=traces.spans(),
        )

    async def run_scheduler(
        self, *, name: str | None = None, sync: bool = False, handle_signals: bool = False
    ) -> None:
        """Fire schedules until cancelled or, with `handle_signals`, until SIGTERM or Ctrl-C.

        `sync` as for `run_worker`.
        """
        if sync:
            await self.schedules.sync()
        await self._run(await self.scheduler(name=name), handle_signals)

    async def _run(self, process: Worker | Scheduler, handle_signals: bool) -> None:
        """With somebody to answer for it, if it is to be observed."""
        if self.settings.observe is None:
            await _run_until_stopped(process, handle_signals)
            return
        from sexton.observe.observer import observing  # and its library, only if it is wanted

        async with observing(self.settings, (await self.client()).address, process):
            await _run_until_stopped(process, handle_signals)


class _Process(Protocol):
    async def run(self) -> None: ...

    def stop(self) -> None: ...


async def _run_until_stopped(process: _Process, handle_signals: bool) -> None:
    loop = asyncio.get_running_loop()
    if handle_signals:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, process.stop)
    running = asyncio.create_task(process.run())
    cancelled = False
    try:
        while not running.done():
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                # Once lets the tasks finish, twice does not wait for them; it always leaves.
                cancelled = True
                process.stop()
        await running
        if cancelled:
            raise asyncio.CancelledError
    finally:
        if handle_signals:
            for each in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(each)


def _module_name(module: Mapping[str, Any]) -> str:
    """A module that is run as a program is called as if it were imported."""
    name = str(module.get("__name__", "app"))
    if name != "__main__":
        return name
    spec = module.get("__spec__")
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(str(module.get("__file__", "app"))).stem
