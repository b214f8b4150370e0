"""`app.schedules`: schedules as an application and its operators use them."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from sexton.crontab import Crontabs
from sexton.declared import What
from sexton.domain.change import VersionView
from sexton.domain.schedule import ScheduleState, ScheduleView
from sexton.domain.spec import (
    LONGEST_REASON,
    Registered,
    Spec,
    Terms,
    checked_count,
    checked_instant,
    checked_name,
    checked_search,
)
from sexton.domain.version import fresh_anchor, pinned
from sexton.domain.when.timetable import Planned
from sexton.errors import InvalidJob, InvalidSchedule, did_you_mean
from sexton.flow.register import Register
from sexton.flow.verbs import Verbs
from sexton.past import Past
from sexton.store import Store
from sexton.store.schedules import DEFAULT_TENANT
from sexton.targets.arguments import encode
from sexton.targets.task import Call, Task, checked_text

MOST_FIRES = 10_000


class Schedules(Crontabs, Past):
    """Add, change, stop, trigger and look at schedules; they are known by name, in a tenant."""

    # ── what somebody wants ─────────────────────────────────────────────────

    def spec(
        self,
        name: str,
        task: What,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Spec:
        """A schedule to be, checked; for `add_many`."""
        if isinstance(task, Call):
            if arguments is not None:
                raise InvalidSchedule("arguments: they are in the call already; give one of them")
            options = _options_of(task, self._app.tasks.get(task.job.task)) | options
            return Spec(
                checked_name(name), task.job.task, task.job.payload, Terms.of(name, options)
            )
        task_name = _task_name(task)
        payload = self.payload(task_name, {} if arguments is None else arguments)
        return Spec(checked_name(name), task_name, payload, Terms.of(name, options))

    def payload(self, task: str, arguments: Mapping[str, Any]) -> str:
        """Arguments as JSON, checked as an enqueue would."""
        if not isinstance(arguments, Mapping):
            raise InvalidSchedule(
                f"arguments: are given by name, as a dict, not {arguments!r:.100}"
            )
        app = self._app
        try:
            if (known := app.tasks.get(task)) is not None:
                return known.call(**arguments).job.payload
            checked_text("a task's name", task)
            return encode(dict(arguments), f"task {task!r}", app.max_payload_bytes)
        except (InvalidJob, TypeError) as error:  # TypeError: a name that is not a string
            raise InvalidSchedule(f"arguments: {error}") from None

    # ── verbs ───────────────────────────────────────────────────────────────

    async def add(
        self,
        name: str,
        task: What,
        arguments: Mapping[str, Any] | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        exist_ok: bool = False,
        **options: Any,
    ) -> ScheduleView:
        """A new schedule; one with a name that exists is refused, or with `exist_ok` left alone."""
        spec = self.spec(name, task, arguments, **options)
        await self._do(tenant, lambda verbs: verbs.add(spec, exist_ok=exist_ok))
        return await self.get(name, tenant=tenant)

    async def add_many(
        self,
        specs: Iterable[Spec],
        *,
        exist_ok: bool = False,
        batch: int | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Registered]:
        """All or none of them, in the order given; with `batch`, so many in each transaction.

        For millions give a `batch`: a schedule fires only when its transaction has ended. With
        `exist_ok` those that exist are left as they are; without, one that does refuses all.
        """
        drawn = map(_checked_spec, specs)
        size = None if batch is None else _checked_batch(batch)
        added: list[Registered] = []
        while part := [*itertools.islice(drawn, size)]:
            added += await self._register(tenant, part, exist_ok)
        return added

    async def _register(
        self, tenant: str, specs: Sequence[Spec], exist_ok: bool
    ) -> Sequence[Registered]:
        # The rules first, by themselves: nobody who needs one of them waits for all the rest.
        await self.transaction(tenant, lambda store, owner: Register(store, owner).prepare(specs))

        async def add(store: Store, owner: int) -> Sequence[Registered]:
            register = Register(store, owner)
            await register.prepare(specs)
            return await register.add(specs, exist_ok=exist_ok)

        return await self.transaction(tenant, add)

    async def put(
        self,
        name: str,
        task: What,
        arguments: Mapping[str, Any] | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        **options: Any,
    ) -> ScheduleView:
        """Add it, or make the one of this name say exactly this; no new version if it does."""
        spec = self.spec(name, task, arguments, **options)
        await self._do(tenant, lambda verbs: verbs.put(spec))
        return await self.get(name, tenant=tenant)

    async def update(
        self, name: str, *, tenant: str = DEFAULT_TENANT, **changes: Any
    ) -> ScheduleView:
        """Change some of it: options, `task` or `arguments`; None takes an option back."""
        if (task := changes.get("task")) is not None:
            changes["task"] = _task_name(task)
        await self._do(tenant, lambda verbs: verbs.update(name, changes, self.payload))
        return await self.get(name, tenant=tenant)

    async def pause(
        self,
        name: str,
        reason: str | None = None,
        *,
        until: datetime | str | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> ScheduleView:
        """No fires until it is resumed, or by itself at `until`."""
        end = None if until is None else checked_instant(until, "until")
        why = _reason(reason)
        await self._do(tenant, lambda verbs: verbs.pause(name, why, end))
        return await self.get(name, tenant=tenant)

    async def resume(self, name: str, *, tenant: str = DEFAULT_TENANT) -> ScheduleView:
        """Go on, also after a quarantine; what the pause left out is recorded, not made up for."""
        await self._do(tenant, lambda verbs: verbs.resume(name))
        return await self.get(name, tenant=tenant)

    async def cancel(
        self, name: str, reason: str | None = None, *, tenant: str = DEFAULT_TENANT
    ) -> ScheduleView:
        """No more fires. Its jobs go on, its history stays, and its name may be added again."""
        why = _reason(reason)
        await self._do(tenant, lambda verbs: verbs.cancel(name, why))
        return await self.get(name, tenant=tenant)

    async def trigger(
        self,
        name: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        tenant: str = DEFAULT_TENANT,
    ) -> int:
        """A job of it at once, whatever its state and overlap say; returns the job's id."""
        store, tenant_id = await self.at(tenant)
        return await Verbs(store, tenant_id).trigger(name, arguments, self.payload)

    # For callers without an event loop; everything else can wait for one.

    def add_sync(
        self, name: str, task: What, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> ScheduleView:
        return self._app.run_sync(self.add(name, task, arguments, **options))

    def put_sync(
        self, name: str, task: What, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> ScheduleView:
        return self._app.run_sync(self.put(name, task, arguments, **options))

    def update_sync(self, name: str, **changes: Any) -> ScheduleView:
        return self._app.run_sync(self.update(name, **changes))

    def cancel_sync(self, name: str, reason: str | None = None, **where: str) -> ScheduleView:
        return self._app.run_sync(self.cancel(name, reason, **where))

    def trigger_sync(
        self, name: str, *, arguments: Mapping[str, Any] | None = None, **where: str
    ) -> int:
        return self._app.run_sync(self.trigger(name, arguments=arguments, **where))

    # ── looking ─────────────────────────────────────────────────────────────

    async def get(self, name: str, *, tenant: str = DEFAULT_TENANT) -> ScheduleView:
        store, tenant_id = await self.at(tenant)
        view = await store.schedules.get(tenant_id, checked_name(name))
        if view is None:
            await Verbs(store, tenant_id).unknown(name)
        return view

    async def list(
        self,
        *,
        state: ScheduleState | None = None,
        tag: str | None = None,
        task: str | None = None,
        text: str | None = None,
        after: str | None = None,
        limit: int = 50,
        tenant: str = DEFAULT_TENANT,
    ) -> list[ScheduleView]:
        """By name; `text` is a part of it, `after` the last name of the page before."""
        if state is not None and state not in (known := get_args(ScheduleState)):
            hint = did_you_mean(str(state), known)
            raise InvalidSchedule(f"state: {state!r} is none of {', '.join(known)}{hint}")
        store, tenant_id = await self.at(tenant)
        return await store.schedules.list(
            tenant_id,
            state=state,
            tag=checked_search(tag, "tag"),
            task=checked_search(task, "task"),
            text=checked_search(text, "text"),
            after=checked_search(after, "after"),
            limit=checked_count(limit, "limit"),
        )

    async def preview(
        self,
        name: str | None = None,
        *,
        count: int = 10,
        from_: datetime | str | None = None,
        tenant: str = DEFAULT_TENANT,
        **options: Any,
    ) -> Sequence[Planned]:
        """The next fires of a schedule by its name, or of one that says this, with notes on what
        clocks and calendars do to them. Without calendars and with `from_` it needs no database.
        """
        checked_count(count, "count", MOST_FIRES)
        start = None if from_ is None else checked_instant(from_, "from_")
        if not options:
            store, tenant_id = await self.at(tenant)
            verbs = Verbs(store, tenant_id)
            standing = await verbs.demand(checked_name(name))
            own = await verbs.rule(standing)
            if own is None:
                raise InvalidSchedule(f"schedule {name!r}: its rule cannot be used: update it")
            anchor, seed = standing.body.anchor, standing.id
            return own.timetable.preview(start or standing.now, count, anchor, seed)
        terms = Terms.of(name or "", options)
        if terms.when.calendars:
            _, rule = await self._do(tenant, lambda verbs: verbs.rule_of(terms))
        else:
            _, rule = pinned(terms, {})
        if start is None:
            start = await (await self.at(tenant))[0].history.clock()
        return rule.timetable.preview(start, count, fresh_anchor(terms, start))

    async def versions(self, name: str, *, tenant: str = DEFAULT_TENANT) -> Sequence[VersionView]:
        """Everything it has said, newest first, each with the instants between which it held."""
        store, tenant_id = await self.at(tenant)
        found = await store.schedules.versions(tenant_id, checked_name(name))
        if not found:
            await Verbs(store, tenant_id).unknown(name)
        return found


def _options_of(call: Call, task: Task[Any, Any] | None) -> dict[str, Any]:
    """What was set on a call and makes sense again and again."""
    job = call.job
    for option in ("key", "key_held_for", "at", "delay", "limit_key"):
        if getattr(job, option) is not None:
            raise InvalidSchedule(f"{option}: is for one job; a schedule makes many")
    usual = call if task is None else task.call_json("{}")
    given = {name: getattr(job, name) for name in ("queue", "priority", "tags", "expires_in")}
    return {name: value for name, value in given.items() if value != getattr(usual.job, name)}


def _task_name(task: Any) -> str:
    if not isinstance(task, str | Task):
        raise InvalidSchedule(f"task: is a task or the name of one, not {task!r:.100}")
    return task if isinstance(task, str) else task.name


def _checked_spec(spec: Spec) -> Spec:
    if not isinstance(spec, Spec):
        raise InvalidSchedule(f"add_many takes app.schedules.spec(…), not {spec!r:.100}")
    return spec


def _checked_batch(batch: Any) -> int:
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InvalidSchedule(f"batch: {batch!r} is not a whole number of at least 1")
    return batch


def _reason(reason: str | None) -> str | None:
    return checked_name(reason, "reason", LONGEST_REASON) if reason else None
