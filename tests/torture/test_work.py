"""The workload itself: tasks do what they say, notes are taken, descriptions are true."""

import asyncio
import base64
import hmac
import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from sexton import Sexton
from sexton.targets.http.sign import fresh_secret, secret_bytes, signature
from sexton.torture.work.api import Answered, Api
from sexton.torture.work.clock import from_us, now_us, to_us
from sexton.torture.work.hands import ApiHand
from sexton.torture.work.journal import read_all
from sexton.torture.work.operators import VERBS
from sexton.torture.work.past import DAY, DAYS, KEPT, is_old
from sexton.torture.work.population import MISFIRES, OVERLAPS, Shape, population
from sexton.torture.work.prepare import fresh_secret_key, prepare
from sexton.torture.work.remote import SETTLEMENTS, settled
from sexton.torture.work.trespass import OF_JOBS, OF_SCHEDULES, Trespass, Trespasses
from sexton.torture.work.ways import LINGERS
from sexton.torture.work.webhook import genuine

from ..support.postgres import Postgres
from .oracle import SECOND, promised, ranges_of
from .workplace import LEASE, Line, Workplace, acknowledged, open_asks, shown, until, workplace

# What is enqueued of each task, and what is to be in the effect log then.
DONE, ONCE_FAILED = ["begin", "end"], ["begin", "fail", "begin", "end"]
DEAD, TAKEN_OVER = ["begin", "fail"], ["begin", "effect"]
TASKS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "quick": ({}, DONE),
    "quick_sync": ({}, DONE),
    "apart": ({}, DONE),
    "slow": ({"seconds": 0.3}, DONE),
    "slow_sync": ({"seconds": 0.3}, DONE),
    "long": ({"seconds": 1.5 * LEASE}, DONE),
    "keyed": ({}, DONE),
    "limited": ({"seconds": 0.1}, DONE),
    "transactional": ({}, ["begin", "effect", "end"]),
    "far": ({}, DONE),
    "fails": ({"times": 2}, [*DEAD, *DEAD, *DONE]),
    "fails_sync": ({"times": 1}, ONCE_FAILED),
    "always_fails": ({}, [*DEAD, *DEAD, *DEAD]),
    "permanent": ({}, DEAD),
    # It puts itself off if it is begun while it is younger than that, which must not be a race.
    "snoozes": ({"seconds": 9.0, "rest": 9.0}, ONCE_FAILED),
    "hangs": ({}, [*DEAD, *DEAD]),
    "hangs_sync": ({}, [*DEAD, *DEAD]),
    "blocks": ({"seconds": 1.2 * LEASE}, DONE),
    "burns": ({"seconds": 0.2}, DONE),
    "burns_sync": ({"seconds": 0.2}, DONE),
    "suicide_apart": ({"times": 1}, ["begin", *DONE]),
}
DELIVERIES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "sink ok": ({}, DONE),
    "sink slow": ({"seconds": 0.2}, DONE),
    "sink later": ({"times": 1, "seconds": 0.1}, [*TAKEN_OVER, "fail", *TAKEN_OVER, "end"]),
    "sink fails_later": ({"seconds": 0.1}, [*TAKEN_OVER, "fail", *DONE]),
    "rough fails": ({"times": 1}, ONCE_FAILED),
    "rough busy": ({"times": 1}, ONCE_FAILED),
    "rough refuses": ({}, DEAD),
    "rough hangs": ({"times": 1}, ONCE_FAILED),
}


@pytest.fixture(scope="module")
def place(server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """At work, and with one job of each kind to begin with."""
    url = server.create_database("torture_work")
    with workplace(url, tmp_path_factory.mktemp("run")) as made:
        for task, (more, _) in TASKS.items():
            enqueue(made, task, f"one {task}", **more)
        for called, (more, _) in DELIVERIES.items():
            endpoint, answer = called.split()
            task = made.tenant("acme").endpoints[endpoint]
            enqueue(made, task, f"one {called}", answer=answer, **more)
        yield made
    server.drop_database("torture_work")


def enqueue(place: Workplace, task: str, id: str, tenant: str = "acme", **more: Any) -> None:
    payload = json.dumps({"id": id, "tenant": tenant, **more})
    place.rows(
        "select sexton.enqueue($1, $2::jsonb, key => $3, tenant_id => $4)",
        *(task, payload, "a key" if task == "keyed" else None, place.tenant(tenant).id),
    )


def events(lines: list[Line]) -> list[str]:
    return [line["event"] for line in lines]


# ── tasks and deliveries ────────────────────────────────────────────────────


def test_each_kind_of_task_does_what_it_says_and_writes_it_down(place: Workplace) -> None:
    for task, (_, expected) in TASKS.items():
        lines = until(task, place.of, f"one {task}", len(expected))
        assert events(lines) == expected, shown(lines)
        assert {line["task"] for line in lines} == {task}
        assert {line["tenant"] for line in lines} == {"acme"}
        assert len({line["idempotency_key"] for line in lines}) == 1
        begun = [line for line in lines if line["event"] == "begin"]
        attempts = [1, 1] if task == "snoozes" else [*range(1, len(begun) + 1)]
        assert [line["attempt"] for line in begun] == attempts
        fences = [line["fence"] for line in begun]
        assert fences == sorted(set(fences))
        assert {line["worker_pid"] for line in lines} == {place.processes["worker-1"].pid}
    [begin, end] = place.of("one long")
    assert end["at"] - begin["at"] > 1.4 * LEASE * SECOND
    assert place.of("one keyed")[0]["key"] == "a key"


def test_what_cannot_succeed_is_dead_in_the_end(place: Workplace) -> None:
    names = ("always_fails", "permanent", "hangs", "hangs_sync")
    wanted = {f"one {name}" for name in names}

    def dead() -> bool:
        rows = place.rows("select payload->>'id' as id from sexton.dead")
        return wanted <= {row["id"] for row in rows}

    until("dead", dead)


def test_a_transactional_task_leaves_one_row_with_its_fence(place: Workplace) -> None:
    [line, *_] = until("begun", place.of, "one transactional")
    statement = "select fence, tenant from torture.effect where payload_id = $1"
    [row] = until("written", place.rows, statement, "one transactional")
    assert (row["fence"], row["tenant"]) == (line["fence"], "acme")


def test_the_sink_answers_as_the_payload_asks(place: Workplace) -> None:
    for called, (_, expected) in DELIVERIES.items():
        lines = until(called, place.of, f"one {called}", len(expected))
        assert events(lines) == expected, shown(lines)
        assert all(line["headers"]["verified"] for line in lines)
        assert {line["headers"]["idempotency-key"] for line in lines} == {
            lines[0]["idempotency_key"]
        }
    [ask] = until("settled", _settled, place, "succeed", "one sink later")
    assert ask["body"]["fence"] == place.of("one sink later")[-1]["fence"]


def _settled(place: Workplace, verb: str, id: str) -> list[Line]:
    [line, *_] = place.of(id)
    return [
        ask
        for ask, _ in acknowledged(place.acks("sink"))
        if (ask["verb"], ask["subject"]) == (verb, line["job"])
    ]


def test_the_sink_refuses_a_forged_signature_and_writes_it_down(place: Workplace) -> None:
    tenant = place.tenant("birch")
    body = b'{"id": "forged", "tenant": "birch"}'
    stamp = str(now_us() // SECOND)

    def posted(secret: str) -> int:
        signed = signature([secret_bytes(secret)], "msg", stamp, body)
        headers = {"webhook-id": "msg", "webhook-timestamp": stamp, "webhook-signature": signed}
        return httpx.post(f"{place.sink}/birch/sink", content=body, headers=headers).status_code

    assert posted(place.tenant("acme").secret) == 401
    assert posted(tenant.secret) == 200
    [forged, *rest] = place.of("forged")
    assert (forged["event"], forged["why"]) == ("fail", "forged")
    assert not forged["headers"]["verified"]
    assert events(rest) == DONE


def test_only_what_was_signed_with_the_secret_is_genuine() -> None:
    secret, body, now = fresh_secret(), b'{"a": 1}', 1_800_000_000.0

    def headers(key: str, id: str = "msg", at: float = now) -> dict[str, str]:
        signed = signature([secret_bytes(key)], id, str(int(at)), body)
        return {"webhook-id": id, "webhook-timestamp": str(int(at)), "webhook-signature": signed}

    good = headers(secret)
    assert genuine(secret, good, body, now)
    two = f"{headers(fresh_secret())['webhook-signature']} {good['webhook-signature']}"
    assert genuine(secret, {**good, "webhook-signature": two}, body, now)
    raw = hmac.digest(secret_bytes(secret), b"msg.1800000000." + body, "sha256")
    for wrong in (
        headers(fresh_secret()),
        {**good, "webhook-id": "other"},
        {**good, "webhook-timestamp": "1800000001"},
        {**good, "webhook-timestamp": "now"},
        {**good, "webhook-signature": base64.b64encode(raw).decode()},
        {**good, "webhook-signature": "v2," + base64.b64encode(raw).decode()},
        {**good, "webhook-signature": "v1,not base64"},
        {**good, "webhook-signature": ""},
        headers(secret, at=now - 301),
        {},
    ):
        assert not genuine(secret, wrong, body, now), wrong
    assert not genuine(secret, good, b'{"a": 2}', now)


# ── the population ──────────────────────────────────────────────────────────


def test_the_same_seed_draws_the_same_population_and_another_does_not() -> None:
    shape = Shape(begins=1_800_000_000 * SECOND, seconds=900)
    drawn = [each.line(0, 0, each.task) for each in population(7, shape)]
    assert drawn == [each.line(0, 0, each.task) for each in population(7, shape)]
    assert drawn != [each.line(0, 0, each.task) for each in population(8, shape)]
    assert 2000 < len(drawn) < 5000
    assert 110 <= sum(line["rate"] for line in drawn) < 112
    policies = Counter((line["overlap"], line["misfire"]) for line in drawn)
    assert len(policies) == len(OVERLAPS) * len(MISFIRES)
    assert min(policies.values()) > 100
    assert min(Counter(line["tenant"] for line in drawn).values()) > 200


def test_a_population_has_schedules_of_every_kind_whenever_its_run_begins() -> None:
    wanted = ("cron", "every", "at", "any", "random", "fixed", "exclude", "only", "bounded")
    for nth in range(10):
        kinds: Counter[str] = Counter()
        for planned in population(nth, Shape(now_us() + nth * 97 * SECOND, 900.0)):
            line = planned.line(0, 0, planned.task)
            jitter = (line["jitter"] or {}).get("kind", "steady")
            bounded = line["starts_us"] or line["ends_us"]
            kinds.update({*line["options"]} | {jitter} | ({"bounded"} if bounded else set()))
        assert all(kinds[kind] > 3 for kind in (*wanted, "max_fires", "grace")), kinds


async def test_the_description_agrees_with_what_the_engine_previews(
    database_url: str, tmp_path: Path
) -> None:
    made = await prepare(
        database_url,
        tmp_path,
        seed=11,
        seconds=120,
        secret_key=fresh_secret_key(),
        fires_per_second=15,
    )
    lines = read_all(tmp_path / "dump" / "population.jsonl")
    calendars = ranges_of(read_all(tmp_path / "dump" / "calendars.jsonl"))
    after, end = made.begins, made.begins + 120 * SECOND
    fires = 0
    async with Sexton(database_url) as app:
        for line in lines:
            expected = promised(line, calendars, after, end)
            found = await app.schedules.preview(
                line["name"], tenant=line["tenant"], from_=from_us(after), count=len(expected) + 1
            )
            previewed = {to_us(each.scheduled_at): to_us(each.fire_at) for each in found}
            within = {at: fire for at, fire in previewed.items() if at <= end}
            assert within == expected, line
            fires += len(expected)
    assert 0.6 * 120 * 15 < fires < 1.4 * 120 * 15


def test_fires_are_in_the_effect_log_at_the_instants_of_the_description(place: Workplace) -> None:
    described = {line["payload"]["id"]: line for line in place.lines("population")}
    calendars = ranges_of(place.lines("calendars"))

    def fired() -> list[Line]:
        lines = [
            line
            for line in place.effects("begin")
            if line["schedule"] and line["payload"].get("rev") == 0
        ]
        return lines if len({line["schedule"] for line in lines}) >= 40 else []

    for line in until("fires", fired):
        said = described[line["payload"]["id"]]
        assert line["schedule"] == said["name"]
        assert line["task"] == said["task"]
        assert line["tenant"] == said["tenant"]
        at = line["fire_at"]
        near = promised(said, calendars, at - 5 * SECOND, at + 1)
        assert at in near.values(), (line, said)
        assert line["at"] >= at
        assert not line["catch_up"]


def test_some_schedules_have_a_past_that_the_ledger_knows(place: Workplace) -> None:
    """All but some of its instants, of which nobody makes a job before somebody asks for them."""
    known = {(line["schedule"], line["fire_at"]) for line in place.lines("ledger")}
    old = {schedule for schedule, _ in known}
    assert old == {line["id"] for line in place.lines("population") if is_old(line)}
    rows = place.rows(
        "select schedule_id, fire_at from sexton.fire where schedule_id = any ($1) and "
        "kind = 'due' and fire_at < now() - interval '1 day'",
        [*old],
    )
    there = {(row["schedule_id"], to_us(row["fire_at"])) for row in rows}
    # Whoever has started first may have dropped the days that are not kept.
    kept = {(schedule, at) for schedule, at in known if at > now_us() - (KEPT - 1) * DAY}
    assert kept <= there <= known
    oldest = now_us() - min(at for _, at in known)
    assert KEPT * DAY < oldest < (DAYS + 2) * DAY


# ── clients and operators ───────────────────────────────────────────────────


def test_every_way_to_enqueue_is_acknowledged_and_what_was_is_there(place: Workplace) -> None:
    for role in ("python", "sql", "api"):
        place.client(f"by-{role}", role, "--rate", "60")
    place.client("by-flood", "flood", "--rate", "2", "--burst", "50")
    remote = place.client("remote-1", "remote", "--tenant", "acme")

    def enough(name: str) -> bool:
        asked = [ask for ask, _ in acknowledged(place.acks(name))]
        return len(asked) >= 40 and {"enqueue", "enqueue_many"} <= {ask["verb"] for ask in asked}

    for name in ("by-python", "by-sql", "by-api"):
        until(name, enough, name)
    until("keys are used again", _used_again, place, "by-api", "enqueue")
    until("the flood", _answered, place, "by-flood", 2)
    until("the remote worker", lambda: place.effects("end", task="far", worker_pid=remote.pid))
    for name in ("by-python", "by-sql", "by-api", "by-flood", "remote-1"):
        place.end(name)
    duplicates = 0
    for name in ("by-python", "by-sql", "by-api", "by-flood"):
        lines = place.acks(name)
        assert not open_asks(lines)
        made = [
            (ask["tenant"], job) for ask, answer in acknowledged(lines) for job in answer["jobs"]
        ]
        assert _there(place, [(tenant, job["id"]) for tenant, job in made])
        duplicates += sum(job["duplicate"] for _, job in made)
    assert duplicates
    _demand_taken_back(place, place.acks("by-sql"))
    _demand_one_answer(place.acks("by-api"))


def test_what_is_committed_late_is_done_all_the_same(place: Workplace) -> None:
    """By workers that have claimed what was due after it, and gone past it, in the meantime."""
    place.client("on-time", "sql", "--rate", "40")
    place.client("late", "late", "--rate", "1000")

    def begun() -> set[str]:
        asked = acknowledged(place.acks("late"))
        late = [
            ask["body"]["jobs"][0]["payload"]["id"]
            for ask, _ in asked
            if ask["verb"] == "enqueue" and ask["body"]["jobs"][0]["task"] == "quick"
        ]
        effects = place.effects("begin", task="quick")
        return {*late} & {line["payload"]["id"] for line in effects}

    until("several are done", lambda: len(begun()) >= 3)
    for name in ("late", "on-time"):
        place.end(name)
    lines = place.acks("late")
    answered = {line["n"]: line["at"] for line in lines if line["event"] == "ack"}
    took = [answered[ask["n"]] - ask["at"] for ask, _ in acknowledged(lines)]
    assert min(took) >= LINGERS[0] * SECOND


def _there(place: Workplace, jobs: list[tuple[str, int]]) -> bool:
    """Whether each of these is there, live, dead or in history, and its tenant's."""
    rows = place.rows(
        "select id, tenant_id from sexton.job union select job_id, tenant_id from sexton.dead "
        "union select job_id, tenant_id from sexton.attempt"
    )
    known = {(row["id"], row["tenant_id"]) for row in rows}
    return {(id, place.tenant(tenant).id) for tenant, id in jobs} <= known


def _used_again(place: Workplace, name: str, *whats: str) -> bool:
    """Whether each of these was sent again, and its key used for something else."""
    lines = [line for line in place.acks(name) if line["event"] == "ask"]
    asked = {(line["verb"], line["body"].get("what")) for line in lines}
    return {(verb, what) for verb in ("echo", "reuse") for what in whats} <= asked


def _demand_one_answer(lines: list[Line]) -> None:
    """The same request is told the same, and another under its key that it was used."""
    asks = {line["n"]: line for line in lines if line["event"] == "ask"}
    for line in lines:
        ask = asks[line["n"]]
        if line["event"] != "ask" and ask["verb"] == "echo":
            assert line.get("answer") == ask["body"]["told"], line
        elif line["event"] != "ask" and ask["verb"] == "reuse":
            assert line.get("error", "").startswith("Answered: 422"), line


def _demand_taken_back(place: Workplace, lines: list[Line]) -> None:
    asks = {line["n"]: line for line in lines if line["event"] == "ask"}
    refused = [asks[line["n"]] for line in lines if line["event"] == "error"]
    assert refused
    assert not any(line["unsure"] for line in lines if line["event"] == "error")
    ids = {job["payload"]["id"] for ask in refused for job in ask["body"]["jobs"]}
    assert not any(line["payload"].get("id") in ids for line in place.effects())


def test_a_client_killed_with_9_leaves_at_most_one_ask_without_an_answer(
    place: Workplace,
) -> None:
    process = place.client("killed", "python", "--rate", "1000")
    until("answers", _answered, place, "killed", 50)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lines = place.acks("killed")
    assert len(open_asks(lines)) <= 1
    jobs = [
        (ask["tenant"], job["id"]) for ask, answer in acknowledged(lines) for job in answer["jobs"]
    ]
    assert _there(place, jobs)


def _answered(place: Workplace, name: str, least: int) -> bool:
    return len(acknowledged(place.acks(name))) >= least


def test_operators_do_everything_and_what_was_acknowledged_is_there(place: Workplace) -> None:
    names = ("operator-1", "operator-2")
    for nth, via in enumerate(("python", "api")):
        where = ("--nth", str(nth), "--of", "2")
        place.operator(names[nth], via, "--rate", "40", *where)

    def everything(name: str) -> bool:
        return {*VERBS} <= {ask["verb"] for ask, _ in acknowledged(place.acks(name))}

    for name in names:
        until(f"{name} does everything", everything, name)
    until("it trespasses", _trespasses, place, "operator-2")
    until("keys are used again", _used_again, place, "operator-2", "pause", "update", "trigger")
    until("weeks ago is asked about", _recalls, place, *names)
    for name in names:
        place.end(name)
    assert not _trespasses(place, "operator-1")
    _demand_one_answer(place.acks("operator-2"))
    assert {*_trespasses(place, "operator-2")} <= {"Answered: 404", "nothing"}
    said = {
        (row["reason"], row["rev"])
        for row in place.rows(
            "select reason, (payload->>'rev')::bigint as rev from sexton.schedule union "
            "select reason, (payload->>'rev')::bigint from sexton.schedule_version"
        )
    }
    reasons, revisions = {reason for reason, _ in said}, {rev for _, rev in said}
    backfills = {row["id"] for row in place.rows("select id from sexton.backfill")}
    triggered = place.rows("select job_id from sexton.fire where kind = 'trigger'")
    jobs = {row["job_id"] for row in triggered}
    for name in names:
        lines = place.acks(name)
        assert not open_asks(lines)
        assert not any(line["unsure"] for line in lines if line["event"] == "error"), name
        for ask, answer in acknowledged(lines):
            match ask["verb"]:
                case "update" | "add":
                    assert ask["body"]["payload"]["rev"] in revisions, ask
                case "pause":
                    assert ask["body"]["reason"] in reasons, ask
                case "backfill":
                    assert answer["id"] in backfills, ask
                case "trigger":
                    assert answer["job"] in jobs, ask


def _recalls(place: Workplace, *names: str) -> bool:
    """Whether stretches of an old past were granted, and the days that are kept were changed."""
    asked = [each for name in names for each in acknowledged(place.acks(name))]
    days = [answer["days"] for ask, answer in asked if ask["verb"] == "keep_history"]
    old = [ask for ask, _ in asked if str(ask["subject"]).startswith("old")]
    return bool(days) and any(ask["verb"] == "backfill" for ask in old)


def _trespasses(place: Workplace, name: str) -> list[str]:
    """What was told to whoever asked for what is another tenant's."""
    lines = place.acks(name)
    asked = {line["n"] for line in lines if line.get("verb") == "trespass"}
    told = [line for line in lines if line["event"] != "ask" and line["n"] in asked]
    return [
        line["error"][:13]
        if "error" in line
        else "nothing"
        if line["answer"] == {"jobs": []}
        else "?"
        for line in told
    ]


@pytest.mark.parametrize("what", [*OF_JOBS, *OF_SCHEDULES])
def test_what_is_another_tenants_is_not_there(place: Workplace, what: str) -> None:
    """Its owner is heard about the same thing; who redrives it is told of nothing."""
    access, population = place.prepared.access, place.lines("population")
    look = "read_schedule" if what in OF_SCHEDULES else "read_job"

    async def told() -> tuple[Any, Any]:
        async with Api([place.api]) as api:
            trespasses = Trespasses(ApiHand(api), access, Random(7), population)
            drawn: Trespass | None = None
            while drawn is None:  # a tenant may have no such job just then
                drawn = await trespasses.draw(what)
            owner = access.tenants[drawn.body["owner"]]
            assert owner != drawn.by
            heard = await trespasses.work(look, owner, drawn.subject, 0, "")
            try:
                return await drawn.work(f"trespass-{what}"), heard
            except Answered as error:
                return error.status, heard

    refused, heard = asyncio.run(told())
    assert refused == ({"jobs": []} if what == "redrive" else 404)
    assert heard["state"]


def test_what_another_tenant_runs_cannot_be_settled(place: Workplace) -> None:
    """With the fence that it has: its owner is heard about the same thing, and it ends in peace."""
    tenants = place.prepared.access.tenants
    enqueue(place, "slow", "one that is coveted", seconds=3.0)
    [begun] = until("it runs", place.of, "one that is coveted", 1)
    held = "select id, fence, claimed_by from sexton.job where id = $1"
    [row] = place.rows(held, begun["job"])
    assert row["fence"] == begun["fence"]

    async def told() -> list[Any]:
        answers: list[Any] = []
        async with Api([place.api]) as api:
            for what in SETTLEMENTS:
                try:
                    answers.append(await settled(api, what, tenants["birch"], *row))
                except Answered as error:
                    answers.append(error.status)
            return [*answers, await settled(api, "progress", tenants["acme"], *row)]

    *refused, heard = asyncio.run(told())
    assert refused == [404] * len(SETTLEMENTS)
    assert heard["progress"] == "trespass"
    assert events(until("it is done", place.of, "one that is coveted", 2)) == DONE


def test_what_a_remote_worker_was_told_to_be_settled_is(place: Workplace) -> None:
    place.client("remote-2", "remote", "--tenant", "birch")
    for nth in range(40):
        enqueue(place, "far", f"far {nth}", tenant="birch", seconds=0.2)

    def accepted() -> list[tuple[int, int, str]]:
        asked = [ask for ask, _ in acknowledged(place.acks("remote-2")) if ask["verb"] == "settle"]
        return [(each["subject"], each["body"]["fence"], each["body"]["outcome"]) for each in asked]

    until("it is told", accepted)
    place.end("remote-2")
    rows = place.rows("select job_id, fence, outcome::text from sexton.attempt")
    assert {*accepted()} <= {tuple(row) for row in rows}
    assert not open_asks(place.acks("remote-2"))


# ── last, because it ends the worker ────────────────────────────────────────


def test_a_suicide_takes_its_worker_along_and_succeeds_at_the_next(place: Workplace) -> None:
    worker = place.processes["worker-1"]
    enqueue(place, "suicide", "one suicide", times=1)
    until("the worker is dead", lambda: worker.poll() is not None)
    assert worker.returncode == -signal.SIGKILL
    died_at = time.monotonic()
    place.start_worker()
    lines = until("done all the same", place.of, "one suicide", 3)
    assert time.monotonic() - died_at < 10 * LEASE
    assert events(lines) == ["begin", *DONE]
    assert [line["attempt"] for line in lines] == [1, 2, 2]
    assert lines[0]["worker_pid"] == worker.pid != lines[1]["worker_pid"]
