"""Schedules and calendars of a service, with the verbs that `app.schedules` has."""

import builtins
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from sexton.remote.views import (
    Backfill,
    Calendar,
    Decision,
    Explanation,
    Line,
    Page,
    Plan,
    Planned,
    Schedule,
    Version,
)
from sexton.remote.wire import Wire, segment

Target = str | Mapping[str, Any]
Instant = datetime | str
LINES_AT_ONCE = 500


def target_of(target: Target) -> dict[str, Any]:
    """A text is a task's name; anything else is a target as the API says it."""
    return {"task": target} if isinstance(target, str) else dict(target)


def plain(value: Any) -> Any:
    """As JSON says it: lengths of time as seconds."""
    match value:
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {name: plain(each) for name, each in value.items()}
        case builtins.list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
    return value


def instead(before: Any, after: Any) -> Any:
    """The merge patch (RFC 7396) that makes one of the other."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    return gone | {name: instead(before.get(name), value) for name, value in after.items()}


async def lines(said: Iterable[Any]) -> AsyncIterator[bytes]:
    """As NDJSON, some at a time."""
    encode = msgspec.json.Encoder().encode
    part = bytearray()
    for nth, each in enumerate(said, 1):
        part += encode(plain(each)) + b"\n"
        if nth % LINES_AT_ONCE == 0:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


class _Made(msgspec.Struct):
    job: int = 0
    id: int = 0


class _Fires(msgspec.Struct):
    fires: list[Planned]


class Schedules:
    """Add, change, stop, trigger and look at schedules, by name."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def _to(self, method: str, name: str, rest: str = "", **more: Any) -> Any:
        return await self._wire.ask(method, f"/v1/schedules/{segment(name)}{rest}", **more)

    # ── verbs ───────────────────────────────────────────────────────────────

    async def add(
        self,
        name: str,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Schedule:
        """A new schedule; one with a name that exists is a Conflict. Options as of a rule: cron,
        every, at, rrule, any, timezone, overlap, misfire, grace, tags, and so on.
        """
        said = {"name": name, **_said(target, arguments, options)}
        return await self._wire.ask("POST", "/v1/schedules", said, kind=Schedule)

    async def put(
        self,
        name: str,
        target: Target,
        arguments: Mapping[str, Any] | None = None,
        *,
        if_version: int | None = None,
        **options: Any,
    ) -> Schedule:
        """Add it, or make the one of this name say exactly this; no new version if it does."""
        said = _said(target, arguments, options)
        headers = _match(if_version)
        made: Schedule = await self._to("PUT", name, said=said, kind=Schedule, headers=headers)
        return made

    async def add_many(
        self,
        schedules: Iterable[Mapping[str, Any]],
        *,
        mode: Literal["create", "upsert"] = "create",
        idempotency_key: str | None = None,
    ) -> AsyncIterator[Line]:
        """Many, each as the API says it, with its `name` and `target`; an answer for each, in
        order. A bad one stops none of the others.
        """
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        async for line in self._wire.lines(
            "/v1/schedules/bulk",
            lines(schedules),
            kind=Line,
            query={"mode": mode},
            headers=headers,
        ):
            yield line

    async def update(
        self,
        name: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        if_version: int | None = None,
        **changes: Any,
    ) -> Schedule:
        """Change some of it: options, `target` or `payload`; None takes an option back. Of a
        `payload` what is given changes, `arguments` are all that there are then.
        """
        said = await self._changes(name, arguments, changes)
        made: Schedule = await self._to(
            "PATCH", name, said=said, kind=Schedule, headers=_match(if_version)
        )
        return made

    async def plan(
        self,
        name: str,
        *,
        count: int = 10,
        arguments: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Plan:
        """What an update would do to its fires; nothing is changed."""
        said = {"count": count, **await self._changes(name, arguments, changes)}
        made: Plan = await self._to("POST", name, "/plan", said=said, kind=Plan)
        return made

    async def _changes(
        self, name: str, arguments: Mapping[str, Any] | None, changes: dict[str, Any]
    ) -> dict[str, Any]:
        if changes.get("target") is not None:
            changes["target"] = target_of(changes["target"])
        if arguments is not None:
            changes["payload"] = instead((await self.get(name)).payload, plain(arguments))
        said: dict[str, Any] = plain(changes)
        return said

    async def pause(
        self, name: str, reason: str | None = None, *, until: Instant | None = None
    ) -> Schedule:
        """No fires until it is resumed, or by itself at `until`."""
        said = {"reason": reason, "until": until}
        made: Schedule = await self._to("POST", name, "/pause", said=said, kind=Schedule)
        return made

    async def resume(self, name: str) -> Schedule:
        """Go on, also after a quarantine; what the pause left out is not made up for."""
        made: Schedule = await self._to("POST", name, "/resume", kind=Schedule)
        return made

    async def cancel(self, name: str, reason: str | None = None) -> None:
        """No more fires. Its jobs go on, its history stays, and its name may be added again."""
        await self._to("DELETE", name, kind=type(None), query={"reason": reason})

    async def trigger(self, name: str, *, arguments: Mapping[str, Any] | None = None) -> int:
        """A job of it at once, whatever its state and overlap say; returns the job's id."""
        said = {"payload": None if arguments is None else plain(arguments)}
        made: _Made = await self._to("POST", name, "/trigger", said=said, kind=_Made)
        return made.job

    async def backfill(self, name: str, from_: Instant, to: Instant, *, rate: float = 10.0) -> int:
        """Fire what was not fired in a stretch of the past; returns the backfill's id."""
        said = {"from": from_, "to": to, "rate": float(rate)}
        made: _Made = await self._to("POST", name, "/backfill", said=said, kind=_Made)
        return made.id

    async def cancel_backfill(self, name: str, id: int) -> None:
        """End it where it is."""
        await self._to("DELETE", name, f"/backfills/{id:d}", kind=type(None))

    # ── looking ─────────────────────────────────────────────────────────────

    async def get(self, name: str) -> Schedule:
        found: Schedule = await self._to("GET", name, kind=Schedule)
        return found

    async def list(
        self,
        *,
        state: str | None = None,
        tag: str | None = None,
        target: str | None = None,
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Schedule]:
        """By name; `text` is a part of it."""
        query = {"state": state, "tag": tag, "target": target, "text": text}
        query |= {"limit": str(limit), "cursor": cursor}
        return await self._wire.ask("GET", "/v1/schedules", kind=Page[Schedule], query=query)

    async def preview(
        self,
        name: str | None = None,
        *,
        count: int = 10,
        from_: Instant | None = None,
        **options: Any,
    ) -> builtins.list[Planned]:
        """The next fires of a schedule by its name, or of one that says this."""
        if not options and name is not None:
            query = {"count": count, "from": from_}
            found: _Fires = await self._to("GET", name, "/preview", kind=_Fires, query=query)
            return found.fires
        said = {"count": count, "from": from_, **plain(options)}
        if name is not None:
            said["name"] = name
        made = await self._wire.ask("POST", "/v1/schedules/preview", said, kind=_Fires)
        return made.fires

    async def explain(self, name: str, at: Instant) -> Explanation:
        """What became of its fire at an instant, or of those next to it, and why."""
        found: Explanation = await self._to(
            "GET", name, "/explain", kind=Explanation, query={"at": at}
        )
        return found

    async def fires(
        self,
        name: str,
        *,
        from_: Instant | None = None,
        to: Instant | None = None,
        decision: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Decision]:
        """The ledger: every decision about its fires, newest first."""
        query = {"from": from_, "to": to, "decision": decision, "limit": limit, "cursor": cursor}
        found: Page[Decision] = await self._to(
            "GET", name, "/fires", kind=Page[Decision], query=query
        )
        return found

    async def versions(
        self, name: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Version]:
        """Everything it has said, newest first."""
        query = {"limit": limit, "cursor": cursor}
        found: Page[Version] = await self._to(
            "GET", name, "/versions", kind=Page[Version], query=query
        )
        return found

    async def backfills(
        self, name: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Backfill]:
        """Newest first, with how far each has come."""
        query = {"limit": limit, "cursor": cursor}
        found: Page[Backfill] = await self._to(
            "GET", name, "/backfills", kind=Page[Backfill], query=query
        )
        return found


class _User(msgspec.Struct):
    name: str


class Calendars:
    """Put, look at and remove calendars; a change holds for every schedule that uses one."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def put(
        self,
        name: str,
        *,
        dates: Iterable[Any] = (),
        ranges: Iterable[str] = (),
        windows: Iterable[str] = (),
        timezone: str | None = None,
    ) -> Calendar:
        """Make it, or change it; `recomputed` schedules have a new version by it."""
        said = {
            "dates": [str(each) for each in dates],
            "ranges": [*ranges],
            "windows": [*windows],
            "timezone": timezone,
        }
        return await self._wire.ask("PUT", f"/v1/calendars/{segment(name)}", said, kind=Calendar)

    async def get(self, name: str) -> Calendar:
        return await self._wire.ask("GET", f"/v1/calendars/{segment(name)}", kind=Calendar)

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> Page[Calendar]:
        """By name."""
        query = {"limit": limit, "cursor": cursor}
        return await self._wire.ask("GET", "/v1/calendars", kind=Page[Calendar], query=query)

    async def users(self, name: str, *, limit: int = 50, cursor: str | None = None) -> Page[str]:
        """The schedules that go by it, by name."""
        query = {"limit": limit, "cursor": cursor}
        path = f"/v1/calendars/{segment(name)}/users"
        found = await self._wire.ask("GET", path, kind=Page[_User], query=query)
        return Page([each.name for each in found], found.next)

    async def remove(self, name: str) -> None:
        """End it; refused while a schedule uses it."""
        await self._wire.ask("DELETE", f"/v1/calendars/{segment(name)}", kind=type(None))


def _said(
    target: Target, arguments: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    given = {name: plain(value) for name, value in options.items() if value is not None}
    return {"target": target_of(target), "payload": plain(arguments or {}), **given}


def _match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version:d}"'}
