"""A target as the API says it, and the task that it is to everybody else.

`{"task": "name"}` is a task. `{"http": {"endpoint": "name"}}` is the task `http:<id>` of that
endpoint, and so is `{"http": {"url": …}}`, whose endpoint is made if there is none just like it.
"""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from pydantic import ValidationError

from sexton.api import endpoint, limits
from sexton.api.desk import Desk
from sexton.api.models.endpoints import HttpTargetIn
from sexton.api.problems import Problem
from sexton.errors import InvalidJob, InvalidTarget
from sexton.store.endpoints import EndpointRow
from sexton.targets.http import PREFIX
from sexton.targets.task import checked_text

TRIES = 5

# What was found in a transaction holds for all of it: a bulk names the same target again and again.
_found: WeakKeyDictionary[Desk, dict[bytes, str]] = WeakKeyDictionary()


async def task_of(desk: Desk, target: Mapping[str, Any], *, hold: bool = True) -> str:
    """The task's name. With `hold` its endpoint stays at least as long as this transaction."""
    match target:
        case {"task": str() as name} if len(target) == 1:
            return _task(name)
        case {"http": dict() as said} if len(target) == 1:
            return await _endpoint_task(desk, said, hold)
    raise _wrong("target", 'give {"task": "name"} or {"http": {…}}')


def target_of(task: str, endpoints: Mapping[int, EndpointRow]) -> dict[str, Any]:
    """The way back; one that was written out is shown so, but for its secrets."""
    number = task.removeprefix(PREFIX)
    if number == task or not number.isdecimal():
        return {"task": task}
    row = endpoints.get(int(number))
    if row is None:
        return {"http": {"endpoint": None}}
    said: dict[str, Any] = {"endpoint": row.name}
    if row.name.startswith(endpoint.WRITTEN_OUT):
        said["url"] = row.url
    return {"http": said}


def _task(name: str) -> str:
    try:
        checked_text("name", name)
    except InvalidJob as error:
        raise _wrong("target.task", str(error)) from None
    if name.startswith(PREFIX):
        raise _wrong(
            "target.task", f'names that begin with {PREFIX} are endpoints: give {{"http": …}}'
        )
    return name


async def _endpoint_task(desk: Desk, said: dict[str, Any], hold: bool) -> str:
    found = _found.setdefault(desk, {})
    try:
        key = msgspec.json.encode(said, order="sorted")
    except (TypeError, ValueError, RecursionError):
        raise _wrong("target.http", "is not JSON") from None
    task = found.get(key)
    if task is None:
        row = await (_named(desk, said, hold) if "endpoint" in said else _written_out(desk, said))
        task = found[key] = f"{PREFIX}{row.id}"
    return task


async def _named(desk: Desk, said: dict[str, Any], hold: bool) -> EndpointRow:
    name = said["endpoint"]
    # What is read of one that was written out can be written again: its url is just to be seen.
    if said.keys() - {"endpoint", "url"} or not isinstance(name, str):
        raise _wrong("target.http.endpoint", "give the name of an endpoint, and nothing else")
    row = None
    if "\x00" not in name:
        endpoints = desk.store.endpoints
        if hold:
            row = await endpoints.held(desk.tenant_id, name)
        else:
            row = next(iter(await endpoints.by_name(desk.tenant_id, [name])), None)
    if row is None:
        raise _wrong("target.http.endpoint", f"there is no endpoint {name!r:.100}")
    return row


async def _written_out(desk: Desk, said: dict[str, Any]) -> EndpointRow:
    try:
        draft = endpoint.written_out(desk, HttpTargetIn.model_validate(said))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(["target.http", *(str(part) for part in first["loc"])])
        raise _wrong(where, first["msg"]) from None
    except InvalidTarget as error:
        field, _, detail = str(error).partition(": ")
        raise _wrong(f"target.http.{field}", detail) from None
    except Problem as problem:
        if problem.field is None:
            raise
        detail = problem.detail.removeprefix(f"{problem.field}: ")
        raise _wrong(f"target.http.{problem.field}", detail, problem.kind) from None
    names, endpoints = endpoint.names_of(desk, draft), desk.store.endpoints
    for _ in range(TRIES):
        rows = {row.name: row for row in await endpoints.used(desk.tenant_id, names)}
        if rows:
            return next(rows[name] for name in names if name in rows)
        await limits.room_for_endpoint(desk)
        made = await endpoints.add(desk.tenant_id, draft.sealed(desk, names[0], None))
        if made is not None:
            return made
    raise Problem(409, "conflict", "target: others change the same endpoint all the time")


def _wrong(field: str, detail: str, kind: str = "invalid") -> Problem:
    return Problem(422, kind, f"{field}: {detail}", field=field)
