"""Schedules by the thousand: lines read, checked each for itself, and enrolled chunk by chunk."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg
import msgspec

from sexton.api import bodies, idempotency, limits
from sexton.api.call import Answer, Call
from sexton.api.desk import Desk
from sexton.api.models.common import reachable
from sexton.api.ndjson import Line
from sexton.api.problems import Problem, problem_of
from sexton.api.targets import task_of
from sexton.domain.spec import Spec, Terms
from sexton.domain.text import clean
from sexton.domain.when.effort import NEW_RULE, TooLong, at_most
from sexton.errors import SextonError
from sexton.flow.decide import in_turns
from sexton.flow.enrol import Enrolled, enrol, write_rules
from sexton.reach import COLLIDED
from sexton.schedules import Schedules
from sexton.targets.http import PREFIX

Mode = Literal["create", "upsert"]
Ready = tuple[int, Spec]  # with the number of its line
Status = Literal["created", "updated", "exists", "error"]
# Besides its payload.
LONGEST_REST = 65_536
# How much the rules of a chunk may take to compute, all of them.
STEPS = 10_000_000
LONGEST_DETAIL = 1000


class Told(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one line."""

    line: int
    name: str | None
    status: Status
    id: int | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line that may become a schedule, but for its target."""

    line: int
    spec: Spec
    target: Mapping[str, Any]


@dataclass(slots=True)
class Chunk:
    """What one transaction is about."""

    number: int
    text: bytes
    wanted: list[Wanted] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)


class Clerk:
    """Takes in the lines of one request."""

    def __init__(self, call: Call, mode: Mode) -> None:
        self._call = call
        self._mode = mode
        self._app = call.service.app
        self._book = call.service.rulebook
        self._chunks = 0
        self.key = call.idempotency_key
        quota = call.principal.quotas.max_payload_bytes
        # What the checks of a single schedule want to know of their application.
        self.max_payload_bytes = min(
            quota or self._app.max_payload_bytes, self._app.max_payload_bytes
        )
        self.tasks = self._app.tasks
        self._schedules = Schedules(self)  # type: ignore[arg-type]

    @property
    def longest(self) -> int:
        return self.max_payload_bytes + LONGEST_REST

    # ── reading ─────────────────────────────────────────────────────────────

    async def read(self, lines: list[Line]) -> Chunk:
        """Others have their turn between: each line may have a rule that takes its time."""
        self._chunks += 1
        whole = b"\n".join(line.text or b"" for line in lines) if self.key else b""
        chunk = Chunk(self._chunks, whole)
        async for number, text in in_turns(lines):
            said: dict[str, Any] = {}
            try:
                said = _said(text, self.longest)
                with at_most(NEW_RULE):
                    chunk.wanted.append(self._wanted(number, said))
            except Exception as error:  # whatever it is, the others need not suffer for it
                chunk.told.append(_refused(number, said.get("name"), problem_of(error)))
        return chunk

    def _wanted(self, number: int, said: dict[str, Any]) -> Wanted:
        options = {**said}
        name = reachable(options.pop("name", None))
        target = options.pop("target", None)
        if not isinstance(target, dict) or len(target) != 1:
            raise Problem(
                422, "invalid", 'target: is an object like {"task": "name"}', field="target"
            )
        task = target.get("task")
        if not isinstance(task, str):
            task = PREFIX  # of an endpoint, which is found in the transaction
        arguments = options.pop("payload", None)
        payload = self._schedules.payload(task, {} if arguments is None else arguments)
        return Wanted(number, Spec(name, task, payload, Terms.of(name, options)), target)

    # ── enrolling ───────────────────────────────────────────────────────────

    async def work(self, chunk: Chunk) -> bytes:
        """Its lines of the answer; a line that cannot be done stops none of the others."""
        told = chunk.told
        if chunk.wanted:
            try:
                told = told + await self._enrolled(chunk)
            except Exception as error:  # of the transaction as a whole
                problem = problem_of(error)
                told = told + [
                    _refused(each.line, each.spec.name, problem) for each in chunk.wanted
                ]
        return _lines.encode_lines(sorted(told, key=_line))

    async def _enrolled(self, chunk: Chunk) -> list[Told]:
        await self._call.confirm()
        await self._write_rules([each.spec for each in chunk.wanted])

        told: list[Told] = []

        async def work(desk: Desk) -> Answer:
            nonlocal told
            told, ready = await self._within_limits(desk, chunk.wanted)
            told += await self._in_halves(desk, ready)
            _log(desk, told)
            return Answer(told if self.key else None)

        key, fingerprint = None, b""
        if self.key is not None:
            key = idempotency.part(self.key, chunk.number)
            fingerprint = idempotency.fingerprint(b"bulk", self._mode.encode(), chunk.text)
        made = await self._call.carry_out(work, key=key, fingerprint=fingerprint, steps=STEPS)
        return _told.decode(made.body) if made.replayed else told

    async def _write_rules(self, specs: Sequence[Spec]) -> None:
        book = self._book
        if all(each.terms.when.calendars or book.get(each.terms.text) for each in specs):
            return

        async def work(desk: Desk) -> Answer:
            written = await write_rules(desk.store, desk.tenant_id, specs, book)
            desk.after_commit(lambda: book.keep(written))
            return Answer()

        await self._call.carry_out(work, key=None, fingerprint=b"", steps=STEPS)

    async def _within_limits(
        self, desk: Desk, wanted: Sequence[Wanted]
    ) -> tuple[list[Told], list[Ready]]:
        """With their targets found; what the tenant may not have is told so."""
        told: list[Told] = []
        ready: list[Ready] = []
        tasks: dict[bytes, str | Problem] = {}
        async for each in in_turns(wanted):
            try:
                spec = await _targeted(desk, each, tasks)
                with at_most(NEW_RULE):
                    limits.demand_interval(desk.principal, spec)
                ready.append((each.line, spec))
            except (Problem, TooLong) as error:
                told.append(_refused(each.line, each.spec.name, problem_of(error)))
        try:
            await limits.room_for_schedules(desk, len(ready))
        except Problem:
            ready, others = await _with_room(desk, ready)
            told += others
        return told, ready

    async def _in_halves(self, desk: Desk, ready: Sequence[Ready]) -> list[Told]:
        """All at once; if that is refused, each half by itself, down to the line at fault."""
        if not ready:
            return []
        try:
            async with desk.held.savepoint():
                return await self._together(desk, ready)
        except COLLIDED:
            raise
        except (Problem, SextonError, asyncpg.PostgresError, ValueError) as error:
            problem = problem_of(error)
            if problem.status >= 500:
                raise
            if len(ready) == 1:
                line, spec = ready[0]
                return [_refused(line, spec.name, problem)]
        half = len(ready) // 2
        first = await self._in_halves(desk, ready[:half])
        return first + await self._in_halves(desk, ready[half:])

    async def _together(self, desk: Desk, ready: Sequence[Ready]) -> list[Told]:
        specs, upsert = [spec for _, spec in ready], self._mode == "upsert"
        outcomes = await enrol(desk.store, desk.tenant_id, specs, self._book, upsert=upsert)
        return [
            Told(line, spec.name, outcome.status, outcome.id)
            if isinstance(outcome, Enrolled)
            else _refused(line, spec.name, problem_of(outcome))
            for (line, spec), outcome in zip(ready, outcomes, strict=True)
        ]


async def _targeted(desk: Desk, wanted: Wanted, tasks: dict[bytes, str | Problem]) -> Spec:
    """With the task that its target is; many have the same."""
    key = msgspec.json.encode(wanted.target)
    task = tasks.get(key)
    if task is None:
        try:
            task = await task_of(desk, wanted.target)
        except (Problem, SextonError) as error:
            task = problem_of(error)
        tasks[key] = task
    if isinstance(task, Problem):
        raise task
    spec = wanted.spec
    return spec if spec.task == task else Spec(spec.name, task, spec.payload, spec.terms)


async def _with_room(desk: Desk, ready: Sequence[Ready]) -> tuple[list[Ready], list[Told]]:
    """Those that exist, which need none, and as many of the others as may be added."""
    quota = desk.principal.quotas.max_schedules
    assert quota is not None, "without one there is always room"
    found = await desk.store.schedules.standings(desk.tenant_id, [spec.name for _, spec in ready])
    there = {name for name, each in found.items() if each.state != "cancelled"}
    left = quota - await desk.store.tenants.schedules_in(desk.tenant_id, quota + 1)
    fitting: list[Ready] = []
    refused: list[Told] = []
    detail = f"max_schedules: this tenant may have {quota:,} schedules; another would be too many"
    for line, spec in ready:
        if spec.name not in there and left > 0:
            there.add(spec.name)
            left -= 1
        if spec.name in there:
            fitting.append((line, spec))
        else:
            refused.append(_refused(line, spec.name, Problem(403, "quota_exceeded", detail)))
    return fitting, refused


def _log(desk: Desk, told: Sequence[Told]) -> None:
    """One line for all of them, with the names; what each said before is in its versions."""
    created = [each.name for each in told if each.status == "created"]
    updated = [each.name for each in told if each.status == "updated"]
    if names := created + updated:
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        done = {"created": created, "updated": updated}
        desk.log("schedule.bulk", f"{names[0]}{more}", after=done)


def _said(text: bytes | None, longest: int) -> dict[str, Any]:
    if text is None:
        raise Problem(413, "too_large", f"the line is longer than {longest:,} bytes")
    if text.count(b"[") + text.count(b"{") > bodies.DEEPEST and bodies._is_deep(text):
        raise Problem(400, "malformed", f"the line is nested deeper than {bodies.DEEPEST} levels")
    try:
        return _decode(text)
    except msgspec.ValidationError:
        raise Problem(422, "invalid", "the line is not a JSON object") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        why = str(error).removeprefix("JSON is malformed: ")
        raise Problem(400, "malformed", f"the line is not JSON: {why}") from None


def _refused(line: int, name: Any, problem: Problem) -> Told:
    error: dict[str, Any] = {
        "type": f"/problems/{problem.kind}",
        "status": problem.status,
        "detail": clean(problem.detail, LONGEST_DETAIL),
    }
    if problem.field is not None:
        error["field"] = problem.field
    return Told(line, name if isinstance(name, str) else None, "error", error=error)


def _line(told: Told) -> int:
    return told.line


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_told = msgspec.json.Decoder(list[Told])
_lines = msgspec.json.Encoder()
