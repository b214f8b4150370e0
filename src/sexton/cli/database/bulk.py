"""Many at a time at the database: chunk by chunk, and a bad one stops none of the others."""

import itertools
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sexton.cli.database.ground import Ground
from sexton.domain.job import NewJob
from sexton.errors import SextonError
from sexton.remote.views import Line

if TYPE_CHECKING:
    from sexton.api.desk import Desk

CHUNK = 1000
_CARRIED = ("name", "target", "payload")

Numbered = list[tuple[int, Mapping[str, Any]]]


def _chunks(said: Iterable[Mapping[str, Any]]) -> Iterable[Numbered]:
    numbered = enumerate(said, 1)
    while chunk := [*itertools.islice(numbered, CHUNK)]:
        yield chunk


async def enqueue_many(ground: Ground, jobs: Iterable[Mapping[str, Any]]) -> AsyncIterator[Line]:
    """An answer for each, in order; each chunk is a transaction."""
    from sexton.api.enqueue import enqueue

    for chunk in _chunks(jobs):
        told: dict[int, Line] = {}
        good: list[tuple[int, NewJob]] = []
        async with ground.desk() as desk:
            for number, said in chunk:
                made = await _job(desk, number, said)
                if isinstance(made, Line):
                    told[number] = made
                else:
                    good.append((number, made))
            enqueued = await enqueue(desk, [job for _, job in good])
            for (number, _), each in zip(good, enqueued, strict=True):
                status = "duplicate" if each.duplicate else "created"
                told[number] = Line(number, status, each.id)
            if enqueued:
                desk.log("job.bulk", f"{len(enqueued)} jobs")
        for number, _ in chunk:
            yield told[number]


async def _job(desk: "Desk", number: int, said: Mapping[str, Any]) -> NewJob | Line:
    from sexton.api.enqueue import OPTIONS, new_job
    from sexton.api.problems import Problem

    try:
        _demand_known(said, ("task", "target", "payload", *OPTIONS))
        return await new_job(desk, said)
    except (Problem, SextonError, ValueError, TypeError) as error:
        return _wrong(number, None, error)


async def add_many(
    ground: Ground, schedules: Iterable[Mapping[str, Any]], mode: str
) -> AsyncIterator[Line]:
    """An answer for each, in order; each chunk is a transaction."""
    for chunk in _chunks(schedules):
        async with ground.desk() as desk:
            told = [await _schedule(desk, number, said, mode) for number, said in chunk]
            made = [each.name for each in told if each.status in ("created", "updated")]
            if made:
                desk.log("schedule.bulk", f"{len(made)} schedules")
        for each in told:
            yield each


async def _schedule(desk: "Desk", number: int, said: Mapping[str, Any], mode: str) -> Line:
    from sexton.api.problems import Problem
    from sexton.api.schedule import become, begun, begun_again, spec_of, verbs
    from sexton.domain.spec import OPTIONS, checked_name

    name = said.get("name")
    try:
        _demand_known(said, (*_CARRIED, *OPTIONS))
        name = checked_name(name)
        options = {each: value for each, value in said.items() if each not in _CARRIED}
        target = said.get("target")
        if not isinstance(target, Mapping):
            raise ValueError('target: is an object like {"task": "name"}')
        spec = await spec_of(desk, name, target, said.get("payload") or {}, options)
        after = await begun(desk, spec)
        if after is not None:
            return Line(number, "created", after.id, name)
        before = await desk.store.schedules.hold(desk.tenant_id, name)
        assert before is not None, "its name was taken a moment ago, and no row is ever removed"
        if before.state == "cancelled":
            return Line(number, "created", (await begun_again(desk, spec)).id, name)
        if mode == "create":
            return Line(number, "exists", before.id, name)
        after = await become(desk, before, await verbs(desk).demand(name), spec)
        return Line(number, "exists" if after is before else "updated", after.id, name)
    except (Problem, SextonError, ValueError, TypeError) as error:
        return _wrong(number, name if isinstance(name, str) else None, error)


def _demand_known(said: Mapping[str, Any], known: Iterable[str]) -> None:
    from sexton.errors import did_you_mean

    if not isinstance(said, Mapping):
        raise TypeError("it is not a JSON object")
    for field in said.keys() - {*known}:
        raise ValueError(f"{field}: there is no such field{did_you_mean(field, known)}")


def _wrong(number: int, name: str | None, error: Exception) -> Line:
    status = getattr(error, "status", 422)
    return Line(number, "error", None, name, {"status": status, "detail": str(error)})
