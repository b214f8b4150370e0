"""Jobs over HTTP: made, looked at, listed, stopped and repeated."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx

from sexton import Sexton
from sexton.api.models.jobs import JobOut
from sexton.api.routes.jobs import SLACK
from sexton.domain.outcome import Failed
from sexton.store.connection import Address

from ..support.hands import Hands, hands
from .served import Served


async def enqueue(http: httpx.AsyncClient, task: str = "t", **fields: Any) -> int:
    answer = await http.post("/v1/jobs", json={"task": task, **fields})
    assert answer.status_code == 201, answer.text
    id: int = answer.json()["id"]
    return id


async def pages(http: httpx.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """Every line of a list, page by page."""
    lines: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        given = query | ({} if cursor is None else {"cursor": cursor})
        answer = await http.get(path, params=given)
        assert answer.status_code == 200, answer.text
        lines += answer.json()["items"]
        cursor = answer.json()["next"]
        if cursor is None:
            return lines


async def rows(api: Served, query: str, *args: Any) -> list[Any]:
    connection = await asyncpg.connect(api.database_url)
    try:
        found: list[Any] = await connection.fetch(query, *args)
        return found
    finally:
        await connection.close()


@asynccontextmanager
async def at_home(api: Served) -> AsyncIterator[Sexton]:
    """The application itself, in this loop."""
    try:
        yield api.app
    finally:
        await api.app.close()


def hand(api: Served, **options: Any) -> Any:
    return hands(Address(api.database_url), **options)


async def finish(worker: Hands, count: int = 1) -> None:
    claims = await worker.claim(count)
    ids, fences = [each.id for each in claims], [each.fence for each in claims]
    assert await worker.store.jobs.settle_succeeded(ids, fences) == set(ids)


# ── making ──────────────────────────────────────────────────────────────────


async def test_a_job_is_read_with_what_is_described_and_nothing_else(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        id = await enqueue(http)
        told = (await http.get(f"/v1/jobs/{id}")).json()
    assert told.keys() == JobOut.model_fields.keys()


async def test_a_job_is_made_and_read_with_all_that_was_said(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        answer = await http.post(
            "/v1/jobs",
            json={
                "target": {"task": "send"},
                "payload": {"to": "ü", "n": [1, 2.5, None]},
                "queue": "mail",
                "priority": 3,
                "delay": "90s",
                "key": "k:1",
                "tags": ["march", "x"],
            },
        )
        assert answer.status_code == 201
        made = answer.json()
        assert made["duplicate"] is False
        assert answer.headers["location"] == f"/v1/jobs/{made['id']}"
        job = (await http.get(answer.headers["location"])).json()
    assert job["state"] == "waiting"
    assert job["target"] == {"task": "send"}
    assert job["payload"] == {"to": "ü", "n": [1, 2.5, None]}
    assert (job["queue"], job["priority"], job["key"]) == ("mail", 3, "k:1")
    assert job["tags"] == ["march", "x"]
    due = datetime.fromisoformat(job["due_at"]) - datetime.fromisoformat(job["created_at"])
    assert due == timedelta(seconds=90)
    assert job["attempts"] == []
    [row] = await rows(api, "select tenant_id from sexton.job where id = $1", made["id"])
    assert row["tenant_id"] != 1


async def test_a_key_makes_one_job_in_each_tenant(api: Served) -> None:
    said = {"task": "t", "key": "same"}
    async with api.caller("operator", "acme") as acme, api.caller("operator", "other") as other:
        first = await acme.post("/v1/jobs", json=said)
        again = await acme.post("/v1/jobs", json=said)
        theirs = await other.post("/v1/jobs", json=said)
    assert (first.status_code, again.status_code, theirs.status_code) == (201, 200, 201)
    assert again.json() == {"id": first.json()["id"], "duplicate": True}
    assert theirs.json()["id"] != first.json()["id"]


async def test_what_a_task_declares_holds_for_jobs_made_over_http(api: Served) -> None:
    await rows(
        api,
        "insert into sexton.task values ('heavy', 'slow', 2, 3, 1, 2, 9, '1 hour', 5, null, now())",
    )
    async with api.caller("operator", "acme") as http:
        plain = await enqueue(http, "heavy")
        keyed = await enqueue(http, "heavy", key="k")
        said = await enqueue(http, "heavy", queue="other", priority=-1)
    made = await rows(
        api, "select queue, priority, limited, expires_at from sexton.job order by id"
    )
    assert [(r["queue"], r["priority"], r["limited"]) for r in made] == [
        ("slow", 2, True),
        ("slow", 2, True),
        ("other", -1, True),
    ]
    assert all(r["expires_at"] is not None for r in made)
    assert plain < keyed < said


JSON = {"content-type": "application/json"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "target"),
    ({"task": "t", "target": {"task": "t"}}, "target"),
    ({"task": ""}, "task"),
    ({"task": "x" * 201}, "task"),
    ({"task": "é" * 150}, "task"),
    ({"task": "http:1"}, "task"),
    ({"target": {"task": "http:1"}}, "target.task"),
    ({"target": {}}, "target"),
    ({"target": {"http": {"endpoint": "none"}}}, "target.http.endpoint"),
    ({"task": "t", "payload": [1]}, "payload"),
    ({"task": "t", "payload": {"x": "y" * 300_000}}, "payload"),
    ({"task": "t", "payload": {"x": "\x00"}}, "payload.x"),
    ({"task": "t", "queue": ""}, "queue"),
    ({"task": "t", "queue": "é" * 150}, "queue"),
    ({"task": "t", "priority": 6}, "priority"),
    ({"task": "t", "priority": True}, "priority"),
    ({"task": "t", "priority": "1"}, "priority"),
    ({"task": "t", "at": "tomorrow"}, "at"),
    ({"task": "t", "at": "2030-01-01T00:00:00"}, "at"),
    ({"task": "t", "at": "9999-01-01T00:00:00Z"}, "at"),
    ({"task": "t", "at": "2030-01-01T00:00:00Z", "delay": 1}, "delay"),
    ({"task": "t", "delay": -1}, "delay"),
    ({"task": "t", "delay": "soon"}, "delay"),
    ({"task": "t", "delay": 1e300}, "delay"),
    ({"task": "t", "key": ""}, "key"),
    ({"task": "t", "key": "é" * 900}, "key"),
    ({"task": "t", "key_held_for": "1h"}, "key_held_for"),
    ({"task": "t", "tags": [""]}, "tags.0"),
    ({"task": "t", "tags": "x"}, "tags"),
    ({"task": "t", "expires_in": "-1s"}, "expires_in"),
    ({"task": "t", "colour": "red"}, "colour"),
]


async def test_what_cannot_be_right_names_its_field_and_makes_nothing(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        for said, field in WRONG:
            answer = await http.post("/v1/jobs", content=json.dumps(said), headers=JSON)
            assert answer.status_code == 422, (said, answer.text)
            assert answer.json()["field"] == field, answer.text
    assert await rows(api, "select from sexton.job") == []


async def test_a_job_for_an_endpoint_is_told_by_its_name(api: Served) -> None:
    async with api.caller("operator", "acme") as http, hand(api) as worker:
        put = await http.put("/v1/endpoints/hook", json={"url": "https://example.com/hook"})
        assert put.status_code == 201, put.text
        target = {"http": {"endpoint": "hook"}}
        made = await http.post("/v1/jobs", json={"target": target, "payload": {"n": 1}})
        job = (await http.get(made.headers["location"])).json()
        assert (job["target"], job["queue"]) == (target, "http")
        claim = await worker.store.jobs.claim_one(job["id"], worker.worker)
        assert claim is not None
        await worker.store.jobs.settle_succeeded([claim.id], [claim.fence])
        again = await http.post(f"/v1/jobs/{job['id']}/retry")
        assert again.status_code == 201
        await http.post(f"/v1/jobs/{again.json()['id']}/cancel")
        assert (await http.delete("/v1/endpoints/hook")).status_code == 204
        assert (await http.post(f"/v1/jobs/{job['id']}/retry")).status_code == 409


async def test_the_same_idempotency_key_makes_one_job(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        one = {"Idempotency-Key": "one"}
        first = await http.post("/v1/jobs", json={"task": "t"}, headers=one)
        again = await http.post("/v1/jobs", json={"task": "t"}, headers=one)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert len(await rows(api, "select from sexton.job")) == 1


async def test_a_job_beyond_the_quota_is_refused_until_there_is_room(api: Served) -> None:
    async with api.caller("operator", "small", max_live_jobs=2) as http:
        await enqueue(http)
        second = await enqueue(http)
        refused = await http.post("/v1/jobs", json={"task": "t"})
        assert refused.status_code == 429
        assert refused.json()["type"] == "/problems/quota_exceeded"
        await http.post(f"/v1/jobs/{second}/cancel")
        await enqueue(http)


# ── many at once ────────────────────────────────────────────────────────────


async def bulk(http: httpx.AsyncClient, lines: list[str], **headers: str) -> list[dict[str, Any]]:
    answer = await http.post(
        "/v1/jobs/bulk",
        content="\n".join(lines),
        headers={"content-type": "application/x-ndjson", **headers},
    )
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_a_bulk_with_every_tenth_line_broken_makes_the_others(api: Served) -> None:
    broken = [
        "{",
        '{"task": 5}',
        '{"task": "t", "priority": 9}',
        '{"task": "t", "payload": {"x": "\\u0000"}}',
        '{"task": "http:1"}',
        '{"colour": 1}',
        "[" * 2000,
        '{"task": "t", "at": "soon"}',
        '{"task": "\\ud800"}',
        '{"task": "t", "payload": "' + "x" * 400_000 + '"}',
    ]
    lines = [
        broken[n // 10 % 10] if n % 10 == 9 else json.dumps({"task": "t", "payload": {"n": n}})
        for n in range(5000)
    ]
    async with api.caller("operator", "acme") as http:
        results = await bulk(http, lines)
    assert [each["line"] for each in results] == list(range(1, 5001))
    wrong = [each for each in results if each["status"] == "error"]
    assert [each["line"] for each in wrong] == list(range(10, 5001, 10))
    assert all(400 <= each["error"]["status"] < 500 for each in wrong)
    made = {each["id"]: each["line"] for each in results if each["status"] == "created"}
    kept = await rows(api, "select id, (payload->>'n')::int as n from sexton.job")
    assert {row["id"]: row["n"] + 1 for row in kept} == made


async def test_a_bulk_is_claimed_in_its_order_and_knows_keys_and_tags(api: Served) -> None:
    tags = ["a,b", '"']
    lines = [json.dumps({"task": "t", "payload": {"n": n}, "tags": tags}) for n in range(50)]
    lines += [json.dumps({"task": "t", "key": key}) for key in ("x", "y", "x")]
    async with api.caller("operator") as http:
        results = await bulk(http, lines)
    assert [each["status"] for each in results[-3:]] == ["created", "created", "duplicate"]
    assert results[-1]["id"] == results[-3]["id"]
    async with hand(api) as worker:
        claims = await worker.claim(50)
        assert [json.loads(each.payload)["n"] for each in claims] == list(range(50))
        kept = await worker.value("select tags from sexton.job where id = $1", results[0]["id"])
        assert kept == tags


async def test_a_bulk_sent_again_with_its_key_makes_nothing_new(api: Served) -> None:
    lines = [json.dumps({"task": "t", "payload": {"n": n}}) for n in range(3000)]
    async with api.caller("operator", "acme") as http:
        first = await bulk(http, lines, **{"Idempotency-Key": "b"})
        again = await bulk(http, lines, **{"Idempotency-Key": "b"})
    assert first == again
    assert len(await rows(api, "select from sexton.job")) == 3000


async def test_a_bulk_that_is_not_lines_is_refused(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        answer = await http.post("/v1/jobs/bulk", json={"task": "t"})
    assert answer.status_code == 415


# ── looking ─────────────────────────────────────────────────────────────────


async def test_a_list_has_live_dead_and_finished_jobs_newest_first(api: Served) -> None:
    async with api.caller("operator") as http, hand(api) as worker:
        ids = [await enqueue(http, tags=["odd"] if n % 2 else None) for n in range(6)]
        await finish(worker)  # ids[0]
        await http.post(f"/v1/jobs/{ids[1]}/cancel")
        [claim] = await worker.claim(1)  # ids[2]
        await worker.settle(claim, Failed("no\nmore", permanent=True))
        [running] = await worker.claim(1)  # ids[3]
        lines = await pages(http, "/v1/jobs")
        assert [each["id"] for each in lines] == ids[::-1]
        states = [each["state"] for each in lines]
        assert states == ["ready", "ready", "running", "dead", "cancelled", "succeeded"]
        assert [each["id"] for each in await pages(http, "/v1/jobs", limit=1)] == ids[::-1]
        for state, expected in {
            "ready": [ids[5], ids[4]],
            "running": [running.id],
            "dead": [ids[2]],
            "cancelled": [ids[1]],
            "succeeded": [ids[0]],
            "waiting": [],
        }.items():
            found = await pages(http, "/v1/jobs", state=state)
            assert [each["id"] for each in found] == expected, state
        odd = await pages(http, "/v1/jobs", tag="odd")
        assert [each["id"] for each in odd] == [ids[5], ids[3], ids[1]]
        assert lines[3]["error"].startswith("no\nmore")


async def test_filters_by_task_queue_key_and_time(api: Served) -> None:
    async with api.caller("operator") as http, hand(api) as worker:
        old = await enqueue(http, "a", queue="q", key="one")
        new = await enqueue(http, "b", key="two")
        await rows(
            api, "update sexton.job set created_at = now() - interval '2 h' where id = $1", old
        )

        async def found(**query: Any) -> list[int]:
            return [each["id"] for each in await pages(http, "/v1/jobs", **query)]

        assert await found(task="a") == [old]
        assert await found(queue="q") == [old]
        assert await found(key="two") == [new]
        hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        assert await found(**{"from": hour_ago}) == [new]
        assert await found(to=hour_ago) == [old]
        await finish(worker)
        assert await found(key="two", state="succeeded") == [new]


async def test_a_span_of_time_is_found_among_many_without_walking_over_all(api: Served) -> None:
    """Ids tell the time: a list of an hour last week begins there."""
    await rows(
        api,
        "insert into sexton.job (id, task, created_at) "
        "select nextval('sexton.job_id'), 't', now() - (30000 - n) * interval '1 minute' "
        "from generate_series(1, 30000) as n",
    )
    begins = datetime.now(UTC) - timedelta(minutes=20_000)
    async with api.caller("viewer") as http:
        query = {"from": begins.isoformat(), "to": (begins + timedelta(hours=1)).isoformat()}
        answer = await http.get("/v1/jobs", params={**query, "limit": 500})
        page = answer.json()
        assert len(page["items"]) == 60
        assert timedelta(hours=1) > SLACK
        rest = await pages(http, "/v1/jobs", cursor=page["next"]) if page["next"] else []
        assert rest == []


async def test_the_first_tenants_page_does_not_walk_over_a_flood_of_others(api: Served) -> None:
    async with api.caller("operator") as first, api.caller("operator", "flood"):
        mine = await enqueue(first)
        await rows(
            api,
            "insert into sexton.job (task, tenant_id) "
            "select 't', (select id from sexton.tenant where name = 'flood') "
            "from generate_series(1, 25000)",
        )
        newest = await enqueue(first)
        page = (await first.get("/v1/jobs")).json()
        assert [each["id"] for each in page["items"]] == [newest]
        assert page["next"] is not None
        assert [each["id"] for each in await pages(first, "/v1/jobs")] == [newest, mine]


async def test_jobs_of_a_schedule_are_listed_by_their_fires(api: Served) -> None:
    async with at_home(api) as app:
        await app.schedules.add("nightly", "t", every="1h")
        fired = [await app.schedules.trigger("nightly") for _ in range(3)]
    async with api.caller("operator") as http, hand(api) as worker:
        await enqueue(http)
        await finish(worker)
        lines = await pages(http, "/v1/jobs", schedule="nightly", limit=2)
        assert len(lines) == len(fired)
        assert [each["schedule"] for each in lines] == ["nightly"] * 3
        assert sorted(each["state"] for each in lines) == ["ready", "ready", "succeeded"]
        at = [each["fire_at"] for each in lines]
        assert at == sorted(at, reverse=True)
        live = await pages(http, "/v1/jobs", schedule="nightly", state="ready")
        assert len(live) == 2
        missing = await http.get("/v1/jobs", params={"schedule": "none"})
        assert missing.status_code == 404


async def test_a_cursor_that_nobody_gave_is_refused(api: Served) -> None:
    async with api.caller("viewer") as http:
        for cursor in ("x", "W10", "eyJhIjoxfQ", "WyJhIiwiYiJd", "=", "é"):
            for path in ("/v1/jobs", "/v1/dead", "/v1/workers"):
                answer = await http.get(path, params={"cursor": cursor})
                assert answer.status_code == 422, (path, answer.text)
                assert answer.json()["field"] == "cursor"


async def test_another_tenants_job_is_not_there(api: Served) -> None:
    async with api.caller("operator", "acme") as acme, api.caller("admin", "other") as other:
        id = await enqueue(acme)
        for method, path in (
            ("GET", f"/v1/jobs/{id}"),
            ("GET", f"/v1/jobs/{id}/progress"),
            ("POST", f"/v1/jobs/{id}/cancel"),
            ("POST", f"/v1/jobs/{id}/retry"),
            ("GET", f"/v1/dead/{id}"),
            ("DELETE", f"/v1/dead/{id}"),
        ):
            assert (await other.request(method, path)).status_code == 404, path
        for verb, more in (("succeed", {}), ("fail", {}), ("snooze", {"delay": 1})):
            answer = await other.post(f"/v1/jobs/{id}/{verb}", json={"fence": 1, **more})
            assert answer.status_code == 404, verb
        assert (await other.get("/v1/jobs")).json()["items"] == []
        assert (await acme.get(f"/v1/jobs/{id}")).json()["state"] == "ready"


# ── stopping and repeating ──────────────────────────────────────────────────


async def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_is_asked(api: Served) -> None:
    async with api.caller("operator") as http, hand(api) as worker:
        waiting = await enqueue(http, delay=60)
        running = await enqueue(http)
        [claim] = await worker.claim(1)
        ended = await http.post(f"/v1/jobs/{waiting}/cancel")
        assert (ended.status_code, ended.json()["state"]) == (200, "cancelled")
        asked = await http.post(f"/v1/jobs/{running}/cancel")
        assert (asked.status_code, asked.json()["state"]) == (202, "running")
        assert await worker.store.workers.cancel_requests(worker.worker) == [claim.fence]
        job = (await http.get(f"/v1/jobs/{running}")).json()
        assert job["cancel_requested"] is True
        assert (await http.post(f"/v1/jobs/{waiting}/cancel")).status_code == 200
        await worker.store.jobs.settle_succeeded([claim.id], [claim.fence])
        late = await http.post(f"/v1/jobs/{running}/cancel")
        assert (late.status_code, late.json()["type"]) == (409, "/problems/conflict")
        assert (await http.post("/v1/jobs/999999/cancel")).status_code == 404


async def test_a_retry_hurries_redrives_or_begins_anew(api: Served) -> None:
    async with api.caller("operator") as http, hand(api) as worker:
        later = await enqueue(http, delay="1h", payload={"n": 1})
        hurried = await http.post(f"/v1/jobs/{later}/retry")
        assert (hurried.status_code, hurried.json()["state"]) == (200, "ready")
        assert (await http.post(f"/v1/jobs/{later}/retry")).status_code == 200
        [claim] = await worker.claim(1)
        assert (await http.post(f"/v1/jobs/{later}/retry")).status_code == 409
        await worker.settle(claim, Failed("x", permanent=True))
        redriven = await http.post(f"/v1/jobs/{later}/retry")
        assert (redriven.status_code, redriven.json()["id"]) == (200, later)
        await finish(worker)
        again = await http.post(f"/v1/jobs/{later}/retry")
        assert again.status_code == 201
        assert again.json()["retried"] == later != again.json()["id"]
        copy = (await http.get(again.headers["location"])).json()
        assert (copy["task"], copy["payload"], copy["queue"]) == ("t", {"n": 1}, "default")
        [one] = await worker.claim(5)
        assert one.id == again.json()["id"]


async def test_a_dead_job_whose_key_a_live_one_holds_is_not_redriven(api: Served) -> None:
    async with api.caller("operator") as http, hand(api) as worker:
        dead = await enqueue(http, key="k")
        [claim] = await worker.claim(1)
        await worker.settle(claim, Failed("x", permanent=True))
        await enqueue(http, key="k")
        answer = await http.post(f"/v1/jobs/{dead}/retry")
        assert answer.status_code == 409
        assert (await http.get(f"/v1/jobs/{dead}")).json()["state"] == "dead"


async def test_a_job_that_waits_for_another_is_not_hurried(api: Served) -> None:
    async with api.caller("operator") as http:
        first, second = await enqueue(http), await enqueue(http)
        await rows(
            api,
            "update sexton.job set after_job = $1, due_at = '3000-01-01Z' where id = $2",
            *(first, second),
        )
        answer = await http.post(f"/v1/jobs/{second}/retry")
    assert answer.status_code == 409
    assert f"job {first}" in answer.json()["detail"]


async def test_changes_are_in_the_log_of_their_tenant(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        id = await enqueue(http)
        await http.post(f"/v1/jobs/{id}/cancel")
        await http.post(f"/v1/jobs/{id}/retry")
    logged = await rows(api, "select action, subject, tenant_id from sexton.audit_log order by id")
    assert [(row["action"], row["subject"]) for row in logged] == [
        ("job.enqueue", str(id)),
        ("job.cancel", str(id)),
        ("job.retry", str(id)),
    ]
    assert all(row["tenant_id"] != 1 for row in logged)


# ── who may ─────────────────────────────────────────────────────────────────


async def test_roles(api: Served) -> None:
    async with api.caller("operator", "acme") as http:
        id = await enqueue(http)
    may = {
        ("GET", "/v1/jobs"): {"viewer", "worker", "operator", "admin"},
        ("GET", f"/v1/jobs/{id}"): {"viewer", "worker", "operator", "admin"},
        ("GET", f"/v1/jobs/{id}/progress"): {"viewer", "worker", "operator", "admin"},
        ("GET", "/v1/queues"): {"viewer", "worker", "operator", "admin"},
        ("GET", "/v1/workers"): {"viewer", "worker", "operator", "admin"},
        ("GET", "/v1/dead"): {"viewer", "operator", "admin"},
        ("POST", "/v1/jobs"): {"worker", "operator", "admin"},
        ("POST", "/v1/jobs/bulk"): {"worker", "operator", "admin"},
        ("POST", f"/v1/jobs/{id}/cancel"): {"operator", "admin"},
        ("POST", f"/v1/jobs/{id}/retry"): {"operator", "admin"},
        ("POST", f"/v1/jobs/{id}/succeed"): {"worker", "admin"},
        ("POST", f"/v1/jobs/{id}/fail"): {"worker", "admin"},
        ("POST", f"/v1/jobs/{id}/snooze"): {"worker", "admin"},
        ("POST", f"/v1/jobs/{id}/progress"): {"worker", "admin"},
        ("POST", "/v1/dead/redrive"): {"operator", "admin"},
        ("POST", "/v1/dead/purge"): {"operator", "admin"},
        ("DELETE", f"/v1/dead/{id}"): {"operator", "admin"},
        ("POST", "/v1/workers"): {"worker", "admin"},
        ("POST", "/v1/workers/1/claim"): {"worker", "admin"},
        ("POST", "/v1/workers/1/renew"): {"worker", "admin"},
        ("POST", "/v1/workers/1/settle"): {"worker", "admin"},
        ("DELETE", "/v1/workers/1"): {"worker", "admin"},
    }
    for role in ("viewer", "worker", "operator", "admin"):
        async with api.caller(role, "acme") as http:
            for (method, path), roles in may.items():
                answer = await http.request(method, path)
                assert (answer.status_code == 403) == (role not in roles), (role, method, path)
                assert answer.status_code < 500


async def test_queues_are_counted_for_their_tenant(api: Served) -> None:
    async with api.caller("operator", "acme") as acme, api.caller("viewer", "other") as other:
        await asyncio.gather(*(enqueue(acme, queue="q") for _ in range(3)))
        await enqueue(acme, delay=60)
        counted = (await acme.get("/v1/queues")).json()
        assert [(each["queue"], each["ready"], each["waiting"]) for each in counted["items"]] == [
            ("default", 0, 1),
            ("q", 3, 0),
        ]
        assert counted["items"][0]["oldest_ready_for"] is None
        assert counted["items"][1]["oldest_ready_for"] >= 0
        assert (await other.get("/v1/queues")).json()["items"] == []
