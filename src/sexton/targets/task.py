"""A registered Python function, and a call of it that is to become a job."""

import inspect
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar

from sexton.domain.duration import Duration, seconds
from sexton.domain.job import PRIORITIES, Enqueued, NewJob
from sexton.domain.retry import Retry
from sexton.errors import ConfigurationError, InvalidJob
from sexton.store.workers import Declaration
from sexton.targets.arguments import Arguments
from sexton.targets.http import PREFIX
from sexton.targets.job import Job

P = ParamSpec("P")
R = TypeVar("R")
Runs = Literal["loop", "thread", "process"]

OPTIONS = (
    "at",
    "connection",
    "delay",
    "expires_in",
    "key",
    "key_held_for",
    "limit_key",
    "priority",
    "queue",
    "tags",
)
_LONGEST_NAME = 200
_LONGEST_KEY = 1000


class Enqueuer(Protocol):
    """What a task needs of its application."""

    max_payload_bytes: int

    async def enqueue_call(self, call: "Call", connection: Any) -> Enqueued: ...

    def enqueue_call_sync(self, call: "Call", connection: Any) -> Enqueued: ...


class Call:
    """A task with its arguments, ready to be enqueued: `await task.call(n=1).enqueue(delay=5)`."""

    __slots__ = ("_app", "job")

    def __init__(self, app: Enqueuer, job: NewJob) -> None:
        self._app = app
        self.job = job

    def options(
        self,
        *,
        key: str | None = None,
        key_held_for: Duration | None = None,
        at: datetime | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        queue: str | None = None,
        tags: Sequence[str] | None = None,
        limit_key: str | None = None,
        expires_in: Duration | None = None,
    ) -> "Call":
        """Set when, where and under which key; returns itself."""
        job = self.job
        if key is not None:
            job.key = checked_text("key", key, _LONGEST_KEY)
        if key_held_for is not None:
            if job.key is None:
                raise InvalidJob("key_held_for says how long a key is held on: it needs a key")
            job.key_held_for = _length("key_held_for", key_held_for)
        if at is not None:
            if not isinstance(at, datetime) or at.tzinfo is None:
                raise InvalidJob(f"at must be a datetime with a time zone, not {at!r}")
            if delay is not None:
                raise InvalidJob("give at or delay, not both")
            if not 1900 <= at.year < 3000:
                raise InvalidJob(f"at must be an instant between the years 1900 and 3000, not {at}")
            job.at = at
        if delay is not None:
            job.delay = _length("delay", delay)
        if priority is not None:
            job.priority = checked_priority(priority)
        if queue is not None:
            job.queue = checked_text("queue", queue, _LONGEST_NAME)
        if tags is not None:
            if not isinstance(tags, list | tuple | set | frozenset):
                raise InvalidJob(f"tags must be a list of strings, not {tags!r}")
            job.tags = [checked_text("tag", tag, _LONGEST_NAME) for tag in tags]
        if limit_key is not None:
            job.limit_key = checked_text("limit_key", limit_key, _LONGEST_KEY)
        if expires_in is not None:
            job.expires_in = _length("expires_in", expires_in)
        return self

    async def enqueue(self, *, connection: Any = None, **options: Any) -> Enqueued:
        """Enqueue it; `connection` makes it part of the caller's own transaction."""
        return await self._app.enqueue_call(self.options(**options), connection)

    def enqueue_sync(self, *, connection: Any = None, **options: Any) -> Enqueued:
        """The same for callers without an event loop."""
        return self._app.enqueue_call_sync(self.options(**options), connection)


class Task(Generic[P, R]):
    """A function that jobs can be made of. Calling it just calls the function."""

    def __init__(
        self,
        app: Enqueuer,
        function: Callable[P, R],
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        max_running: int | None = None,
        max_running_per_key: int | None = None,
        process: bool = False,
    ) -> None:
        self._app = app
        self.function = function
        if not inspect.isroutine(function):
            raise ConfigurationError(f"a task is made of a function, not of {function!r:.100}")
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError(f"retry must be a Retry(…), not {retry!r:.100}")
        try:
            self.name = checked_text("a task's name", name or function.__name__)
            if self.name.startswith(PREFIX):
                raise InvalidJob(f"names that begin with {PREFIX} are those of endpoints")
            self.queue = checked_text("queue", queue)
            self.priority = checked_priority(priority)
            self.timeout = None if timeout is None else seconds(timeout)
        except (InvalidJob, ValueError) as error:
            raise ConfigurationError(
                f"{error}, in the declaration of {function.__name__}"
            ) from None
        if self.timeout == 0:
            raise ConfigurationError(f"task {self.name!r}: a timeout of 0 lets nothing be done")
        self.retry = retry or Retry()
        self.max_running = _limit("max_running", max_running)
        self.max_running_per_key = _limit("max_running_per_key", max_running_per_key)
        self.limited = max_running is not None or max_running_per_key is not None
        self.runs: Runs = _where_it_runs(function, process, self.name)
        self.arguments = Arguments(function, self.name, Job, OPTIONS)
        self._expires_in = None if self.retry.max_age is None else seconds(self.retry.max_age)
        self._clashing = [name for name in self.arguments.names if name in OPTIONS]
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__qualname__ = function.__qualname__
        self.__wrapped__ = function

    @property
    def declaration(self) -> Declaration:
        """What the database is told of it."""
        return Declaration(
            self.name,
            self.queue,
            self.priority,
            self.retry,
            self.max_running,
            self.max_running_per_key,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """These arguments, checked: for `enqueue_many`, or when one is named like an option."""
        arguments = self.arguments
        payload = arguments.encode(arguments.bind(args, kwargs), self._app.max_payload_bytes)
        return self.call_json(payload)

    def call_json(self, payload: str) -> Call:
        """A call whose arguments are JSON already."""
        job = NewJob(self.name, payload, self.queue)
        if self.priority:
            job.priority = self.priority
        if self.limited:
            job.limited = True
        if self._expires_in is not None:
            job.expires_in = self._expires_in
        return Call(self._app, job)

    async def enqueue(
        self,
        *args: Any,
        key: str | None = None,
        key_held_for: Duration | None = None,
        at: datetime | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        queue: str | None = None,
        tags: Sequence[str] | None = None,
        limit_key: str | None = None,
        expires_in: Duration | None = None,
        connection: Any = None,
        **arguments: Any,
    ) -> Enqueued:
        """Make a job of a call with these arguments; see `Call.options` for the options.

        With `connection` it becomes part of the caller's own transaction.
        """
        call = self._call(args, arguments).options(
            key=key,
            key_held_for=key_held_for,
            at=at,
            delay=delay,
            priority=priority,
            queue=queue,
            tags=tags,
            limit_key=limit_key,
            expires_in=expires_in,
        )
        return await self._app.enqueue_call(call, connection)

    def enqueue_sync(
        self,
        *args: Any,
        key: str | None = None,
        key_held_for: Duration | None = None,
        at: datetime | None = None,
        delay: Duration | None = None,
        priority: int | None = None,
        queue: str | None = None,
        tags: Sequence[str] | None = None,
        limit_key: str | None = None,
        expires_in: Duration | None = None,
        connection: Any = None,
        **arguments: Any,
    ) -> Enqueued:
        """`enqueue` for callers without an event loop: Django, Flask, a script."""
        call = self._call(args, arguments).options(
            key=key,
            key_held_for=key_held_for,
            at=at,
            delay=delay,
            priority=priority,
            queue=queue,
            tags=tags,
            limit_key=limit_key,
            expires_in=expires_in,
        )
        return self._app.enqueue_call_sync(call, connection)

    def _call(self, args: tuple[Any, ...], arguments: dict[str, Any]) -> Call:
        if self._clashing:
            raise InvalidJob(
                f"task {self.name!r} has arguments named like options of enqueue "
                f"({', '.join(self._clashing)}): write {self.name}.call(…).enqueue(…)"
            )
        return self.call(*args, **arguments)

    def __repr__(self) -> str:
        return f"<Task {self.name} queue={self.queue}>"


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or priority not in PRIORITIES:
        raise InvalidJob(
            f"priority must be a whole number from {PRIORITIES[0]} to {PRIORITIES[-1]}, "
            f"the larger the sooner, not {priority!r}"
        )
    return priority


def _where_it_runs(function: Callable[..., Any], process: bool, name: str) -> Runs:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"task {name!r} is a generator: it would run nothing by itself")
    asynchronous = inspect.iscoroutinefunction(function)
    if not process:
        return "loop" if asynchronous else "thread"
    if "<locals>" in function.__qualname__ or "<lambda>" in function.__qualname__:
        raise ConfigurationError(
            f"task {name!r} runs in a process of its own, which imports it by name: "
            "define it at the top level of a module"
        )
    return "process"


def _limit(name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def _length(name: str, value: Duration) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise InvalidJob(f"{name}: {error}") from None


def checked_text(name: str, value: str, longest: int = _LONGEST_NAME) -> str:
    """A name or key that PostgreSQL can keep and index."""
    if not isinstance(value, str) or not value:
        raise InvalidJob(f"{name} must be a string that is not empty, not {value!r}")
    if "\x00" in value:
        raise InvalidJob(f"{name} holds a NUL character, which PostgreSQL cannot keep")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidJob(f"{name} holds half a character: {value!r:.100}") from None
    if size > longest:
        raise InvalidJob(f"{name} is {size} bytes long; at most {longest} are allowed")
    return value
