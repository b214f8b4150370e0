"""Endpoints over HTTP, and targets that name one or are written out."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from sexton import Sexton
from sexton.api.idempotency import fingerprint
from sexton.targets.http.seal import fresh_key
from sexton.targets.http.sign import fresh_secret

from ..targets.http.post import KEY, post, working
from ..targets.http.sink import listening, reply
from .served import Served, served

URL = "https://hooks.example.com/a?b=c"


def application(url: str, **settings: Any) -> Sexton:
    given: dict[str, Any] = {"lease": 3, "poll": 1, "grace": 5, "patience": 5, "secret_key": KEY}
    return Sexton(url, **(given | settings))


@pytest.fixture
def api(database_url: str) -> Iterator[Served]:
    with served(application(database_url)) as service:
        yield service


async def rows(api: Served, query: str, *args: Any) -> list[Any]:
    connection = await asyncpg.connect(api.database_url)
    try:
        return list(await connection.fetch(query, *args))
    finally:
        await connection.close()


async def test_an_endpoint_is_put_read_listed_and_deleted(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        made = await client.put("/v1/endpoints/billing", json={"url": URL})
        assert made.status_code == 201, made.text
        assert made.headers["etag"] == '"1"'
        assert made.headers["location"] == "/v1/endpoints/billing"
        said = made.json()
        assert said["url"] == URL
        assert said["headers"] == {"set": False, "names": []}
        assert said["secrets"] == {"set": False, "count": 0}
        assert (said["timeout"], said["accepted_for"], said["version"]) == (30, 3600, 1)
        assert said["retry"] == {
            "max_attempts": 12, "base": 10, "factor": 3, "cap": 21600, "max_age": None
        }  # fmt: skip
        read = await client.get("/v1/endpoints/billing")
        assert read.json() == {key: said[key] for key in said if key != "secret"}
        [task] = await rows(api, "select * from sexton.task where name = $1", said["task"])
        assert (task["queue"], task["max_attempts"], task["retry_cap"]) == ("http", 12, 21600)

        again = await client.put("/v1/endpoints/billing", json={"url": URL})
        assert (again.status_code, again.json()["version"]) == (200, 1), "nothing has changed"
        body = {"url": URL, "timeout": "5s", "accepted_for": 0, "retry": {"max_attempts": 3}}
        changed = await client.put("/v1/endpoints/billing", json=body)
        assert (changed.status_code, changed.json()["version"]) == (200, 2)
        [task] = await rows(api, "select * from sexton.task where name = $1", said["task"])
        assert task["max_attempts"] == 3

        gone = await client.delete("/v1/endpoints/billing")
        assert gone.status_code == 204
        assert (await client.get("/v1/endpoints/billing")).status_code == 404
        assert not await rows(api, "select from sexton.task where name = $1", said["task"])


async def test_a_list_goes_by_name_page_by_page(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        for name in ("c", "a", "B", "d", "e"):
            await client.put(f"/v1/endpoints/{name}", json={"url": URL})
        target = {"http": {"url": URL}}
        job = await client.post("/v1/jobs", json={"target": target, "payload": {}})
        assert job.status_code == 201, job.text
        found, cursor, pages = [], None, 0
        while pages == 0 or cursor:
            page = (
                await client.get(
                    "/v1/endpoints", params={"limit": 2} | ({"cursor": cursor} if cursor else {})
                )
            ).json()
            found += [each["name"] for each in page["items"]]
            cursor, pages = page["next"], pages + 1
        assert (found, pages) == (["B", "a", "c", "d", "e"], 3)
        both = (await client.get("/v1/endpoints?written_out=true")).json()["items"]
        assert len(both) == 6
        assert both[-1]["name"].startswith("~")


async def test_secrets_go_in_and_never_come_out(api: Served) -> None:
    secret = fresh_secret()
    async with api.caller("operator", "acme") as client:
        body = {"url": URL, "headers": {"Authorization": "Bearer canary"}, "secrets": [secret]}
        made = (await client.put("/v1/endpoints/e", json=body)).json()
        assert made["headers"] == {"set": True, "names": ["Authorization"]}
        assert made["secrets"] == {"set": True, "count": 1}
        assert made["secret"] is None
        kept = (await client.put("/v1/endpoints/e", json={"url": URL})).json()
        assert kept["secrets"]["count"] == 1, "left out is left as it is"
        assert kept["headers"]["set"]
        assert kept["version"] == 1
        gone = await client.put("/v1/endpoints/e", json={"url": URL, "secrets": [], "headers": {}})
        assert gone.json()["secrets"] == {"set": False, "count": 0}
        assert gone.json()["headers"] == {"set": False, "names": []}


async def test_a_secret_is_changed_while_both_sign(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        made = (await client.put("/v1/endpoints/e", json={"url": URL, "generate": True})).json()
        first = made["secret"]
        assert first.startswith("whsec_")
        same = (await client.put("/v1/endpoints/e", json={"url": URL, "generate": True})).json()
        assert (same["secret"], same["version"]) == (None, 1), "it has one"
        both = (await client.patch("/v1/endpoints/e", json={"generate": True})).json()
        assert both["secrets"]["count"] == 2
        assert both["secret"] != first
        kept = (await client.patch("/v1/endpoints/e", json={"keep_secrets": 1})).json()
        assert (kept["secrets"]["count"], kept["secret"]) == (1, None)
        back = (await client.patch("/v1/endpoints/e", json={"add_secret": first})).json()
        assert back["secrets"]["count"] == 2, "the one that was kept was the new one"
        twice = await client.patch("/v1/endpoints/e", json={"add_secret": both["secret"]})
        assert twice.status_code == 422
        for _ in range(3):
            await client.patch("/v1/endpoints/e", json={"generate": True})
        full = await client.patch("/v1/endpoints/e", json={"generate": True})
        assert (full.status_code, full.json()["field"]) == (422, "keep_secrets")


async def test_a_secret_that_was_made_is_shown_once_also_to_who_asks_twice(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        twice = [
            await client.put(
                "/v1/endpoints/e",
                json={"url": URL, "generate": True},
                headers={"Idempotency-Key": "k"},
            )
            for _ in range(2)
        ]
    assert [each.status_code for each in twice] == [201, 201]
    assert twice[0].json()["secret"]
    assert twice[1].json()["secret"] is None
    [kept] = await rows(api, "select body from sexton.request")
    assert twice[0].json()["secret"].encode() not in kept["body"]


async def test_what_is_kept_of_a_request_is_no_way_to_guess_its_secrets(api: Served) -> None:
    """Whoever has the database alone, and an idea of what was sent, cannot see whether it was."""
    body = json.dumps({"url": URL, "headers": {"X-Pin": "hunter22"}}).encode()
    async with api.caller("operator", "acme") as client:
        for _ in range(2):
            answer = await client.put(
                "/v1/endpoints/e",
                content=body,
                headers={"Idempotency-Key": "k", "Content-Type": "application/json"},
            )
            assert answer.status_code == 201
    [kept] = await rows(api, "select fingerprint from sexton.request")
    guessed = fingerprint(b"PUT", b"/v1/endpoints/e", b"", body)
    assert kept["fingerprint"] not in (guessed, hashlib.sha256(guessed).digest())


async def test_a_patch_changes_what_it_says(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        body = {"url": URL, "headers": {"X-One": "1111", "X-Two": "2222"}, "timeout": 5}
        await client.put("/v1/endpoints/e", json=body)
        patched = await client.patch(
            "/v1/endpoints/e", json={"headers": {"x-two": None, "X-Three": "3"}, "accepted_for": 60}
        )
        said = patched.json()
        assert said["headers"]["names"] == ["X-One", "X-Three"]
        assert (said["timeout"], said["accepted_for"], said["version"]) == (5, 60, 2)
        stale = await client.patch(
            "/v1/endpoints/e", json={"timeout": 6}, headers={"If-Match": '"1"'}
        )
        assert stale.status_code == 412
        fresh = await client.patch(
            "/v1/endpoints/e", json={"timeout": 6}, headers={"If-Match": '"2"'}
        )
        assert fresh.json()["version"] == 3
        nothing = await client.patch("/v1/endpoints/e", json={"timeout": 6})
        assert nothing.json()["version"] == 3


async def test_headers_do_not_go_along_to_another_host_unsaid(api: Served) -> None:
    """Whoever may change a URL, and may not read the headers, has them sent to nobody else."""
    elsewhere = [
        "https://evil.example/",
        "http://hooks.example.com/",
        "https://hooks.example.com:8/",
    ]
    async with api.caller("operator", "acme") as client:
        headers = {"Authorization": "Bearer canary-01234567", "X-Two": "2222"}
        await client.put("/v1/endpoints/e", json={"url": URL, "headers": headers})
        for url in elsewhere:
            for refused in (
                await client.put("/v1/endpoints/e", json={"url": url}),
                await client.patch("/v1/endpoints/e", json={"url": url}),
                await client.patch("/v1/endpoints/e", json={"url": url, "headers": {"X-Two": "3"}}),
            ):
                assert (refused.status_code, refused.json()["field"]) == (422, "headers")
        assert (await client.get("/v1/endpoints/e")).json()["url"] == URL
        same = await client.patch("/v1/endpoints/e", json={"url": URL.partition("?")[0] + "/other"})
        assert same.json()["headers"]["names"] == ["Authorization", "X-Two"]
        said = {"url": elsewhere[0], "headers": {"authorization": "Bearer mine", "x-two": None}}
        moved = await client.patch("/v1/endpoints/e", json=said)
        assert (moved.status_code, moved.json()["headers"]["names"]) == (200, ["authorization"])
        back = await client.put("/v1/endpoints/e", json={"url": URL, "headers": {}})
        assert (back.status_code, back.json()["headers"]["set"]) == (200, False)


WRONG_ENDPOINTS: list[tuple[dict[str, Any], str]] = [
    ({}, "url"),
    ({"url": "http://127.0.0.1/"}, "url"),
    ({"url": "http://169.254.169.254/latest/meta-data"}, "url"),
    ({"url": "http://[::ffff:10.0.0.1]/"}, "url"),
    ({"url": "http://localhost/"}, "url"),
    ({"url": "ftp://example.com/"}, "url"),
    ({"url": "http://user:pass@example.com/"}, "url"),
    ({"url": 7}, "url"),
    ({"url": "x" * 3000}, "url"),
    ({"url": URL, "headers": {"Host": "x"}}, "headers"),
    ({"url": URL, "headers": {"X": "a\r\nb"}}, "headers"),
    ({"url": URL, "headers": {"X": 7}}, "headers.X"),
    ({"url": URL, "secrets": ["canary"]}, "secrets"),
    ({"url": URL, "secrets": [fresh_secret() for _ in range(6)]}, "secrets"),
    ({"url": URL, "timeout": 0}, "timeout"),
    ({"url": URL, "timeout": "1h"}, "timeout"),
    ({"url": URL, "timeout": "soon"}, "timeout"),
    ({"url": URL, "accepted_for": "31d"}, "accepted_for"),
    ({"url": URL, "retry": {"max_attempts": 0}}, "retry.max_attempts"),
    ({"url": URL, "retry": {"base": "x"}}, "retry"),
    ({"url": URL, "other": 1}, "other"),
]


async def test_what_cannot_be_is_refused_and_named(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        for body, field in WRONG_ENDPOINTS:
            refused = await client.put("/v1/endpoints/e", json=body)
            assert refused.status_code == 422, (body, refused.text)
            assert refused.json()["field"].startswith(field), (body, refused.text)
            assert "canary" not in refused.text
        assert (await client.get("/v1/endpoints")).json()["items"] == []


async def test_a_name_is_plain(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        for name in ("~abc", "a b", "é", "%2F", "-a", "a" * 101):
            refused = await client.put(f"/v1/endpoints/{name}", json={"url": URL})
            assert refused.status_code == 422, refused.text


async def test_without_a_key_secrets_are_refused_with_what_to_do(database_url: str) -> None:
    with served(application(database_url, secret_key=None)) as api:
        async with api.caller("operator", "acme") as client:
            assert (await client.put("/v1/endpoints/e", json={"url": URL})).status_code == 201
            for body in (
                {"generate": True},
                {"headers": {"X": "1"}},
                {"secrets": [fresh_secret()]},
            ):
                refused = await client.put("/v1/endpoints/e", json={"url": URL, **body})
                assert refused.status_code == 422
                assert "sexton secret-key" in refused.json()["detail"]


async def test_what_another_process_sealed_is_still_told_without_the_key(database_url: str) -> None:
    with served(application(database_url)) as api:
        async with api.caller("operator", "acme") as client:
            body = {"url": URL, "headers": {"X": "1"}, "generate": True}
            await client.put("/v1/endpoints/e", json=body)
    with served(application(database_url, secret_key=fresh_key())) as api:
        async with api.caller("operator", "acme") as client:
            said = (await client.get("/v1/endpoints/e")).json()
            assert said["headers"] == {"set": True, "names": None}
            assert said["secrets"] == {"set": True, "count": 1}
            refused = await client.patch("/v1/endpoints/e", json={"generate": True})
            assert refused.status_code == 422
            assert "SEXTON_SECRET_KEY" in refused.json()["detail"]


# ── tenants and roles ───────────────────────────────────────────────────────


async def test_another_tenants_endpoint_is_not_there(api: Served) -> None:
    async with api.caller("operator", "acme") as acme, api.caller("admin", "other") as other:
        made = (await acme.put("/v1/endpoints/e", json={"url": URL})).json()
        for method, path, body in (
            ("GET", "/v1/endpoints/e", None),
            ("PATCH", "/v1/endpoints/e", {"timeout": 5}),
            ("DELETE", "/v1/endpoints/e", None),
            ("POST", "/v1/endpoints/e/test", None),
        ):
            answer = await other.request(method, path, json=body)
            assert answer.status_code == 404, (method, answer.text)
        for target in ({"http": {"endpoint": "e"}}, {"task": made["task"]}):
            schedule = {"cron": "0 6 * * *", "target": target}
            refused = await other.put("/v1/schedules/s", json=schedule)
            assert refused.status_code == 422, refused.text
            refused = await other.post("/v1/jobs", json={"target": target, "payload": {}})
            assert refused.status_code == 422, refused.text
        assert (await other.put("/v1/endpoints/e", json={"url": URL})).status_code == 201
        mine = (await acme.get("/v1/endpoints/e")).json()
        assert mine == {key: made[key] for key in made if key != "secret"}


@pytest.mark.parametrize(
    ("role", "reads", "changes"),
    [("viewer", 200, 403), ("worker", 403, 403), ("operator", 200, 200), ("admin", 200, 200)],
)
async def test_who_may_do_what(api: Served, role: str, reads: int, changes: int) -> None:
    async with api.caller("admin", "acme") as admin, api.caller(role, "acme") as client:
        await admin.put("/v1/endpoints/e", json={"url": URL})
        assert (await client.get("/v1/endpoints/e")).status_code == reads
        assert (await client.get("/v1/endpoints")).status_code == reads
        assert (await client.put("/v1/endpoints/e", json={"url": URL})).status_code == changes
        patched = await client.patch("/v1/endpoints/e", json={"timeout": 5})
        assert patched.status_code == changes
        tested = await client.post("/v1/endpoints/e/test")
        assert tested.status_code == (202 if changes == 200 else 403)
        deleted = await client.delete("/v1/endpoints/e")
        assert deleted.status_code == (204 if changes == 200 else 403)


async def test_every_change_is_in_the_audit_log_without_its_secrets(api: Served) -> None:
    secret = fresh_secret()
    async with api.caller("admin", "acme") as client:
        body = {"url": URL, "headers": {"Authorization": "Bearer canary"}, "secrets": [secret]}
        await client.put("/v1/endpoints/e", json=body)
        await client.patch("/v1/endpoints/e", json={"timeout": 5})
        await client.delete("/v1/endpoints/e")
    logged = await rows(api, "select * from sexton.audit_log order by id")
    assert [(each["action"], each["subject"]) for each in logged] == [
        ("endpoint.put", "e"), ("endpoint.patch", "e"), ("endpoint.delete", "e")
    ]  # fmt: skip
    for each in logged:
        assert "canary" not in str(dict(each))
        assert secret not in str(dict(each))
    assert '"timeout":5' in logged[1]["after"].replace(" ", "")


# ── targets ─────────────────────────────────────────────────────────────────


async def test_an_endpoint_cannot_be_deleted_while_a_schedule_uses_it(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        await client.put("/v1/endpoints/e", json={"url": URL})
        body = {"cron": "0 6 * * *", "target": {"http": {"endpoint": "e"}}}
        made = await client.put("/v1/schedules/nightly", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["target"] == {"http": {"endpoint": "e"}}
        refused = await client.delete("/v1/endpoints/e")
        assert refused.status_code == 409
        assert "'nightly'" in refused.json()["detail"]
        await client.delete("/v1/schedules/nightly")
        assert (await client.delete("/v1/endpoints/e")).status_code == 204


async def test_a_schedule_and_the_deletion_of_its_endpoint_at_once_never_miss_each_other(
    api: Served,
) -> None:
    async with api.caller("operator", "acme") as client:
        for n in range(10):
            await client.put("/v1/endpoints/e", json={"url": URL})
            body = {"cron": "0 6 * * *", "target": {"http": {"endpoint": "e"}}}
            put, deleted = await asyncio.gather(
                client.put(f"/v1/schedules/s{n}", json=body), client.delete("/v1/endpoints/e")
            )
            assert (put.status_code, deleted.status_code) in {(201, 409), (422, 204)}, put.text
            await client.delete(f"/v1/schedules/s{n}")


async def test_a_target_that_is_written_out_becomes_one_endpoint(api: Served) -> None:
    http = {"url": URL, "headers": {"X-Key": "canary-canary"}, "secret": fresh_secret()}
    async with api.caller("operator", "acme") as client:
        for name in ("a", "b"):
            body = {"cron": "0 6 * * *", "target": {"http": http}}
            made = await client.put(f"/v1/schedules/{name}", json=body)
            assert made.status_code == 201, made.text
        target = made.json()["target"]
        assert target["http"]["url"] == URL
        assert target["http"]["endpoint"].startswith("~")
        again = await client.put("/v1/schedules/b", json={"cron": "0 6 * * *", "target": target})
        assert again.json()["version"] == 1, "what is read back means the same"
        other = {"http": {**http, "timeout": 7}}
        await client.put("/v1/schedules/c", json={"cron": "0 6 * * *", "target": other})
        listed = (await client.get("/v1/endpoints?written_out=true")).json()["items"]
        assert len(listed) == 2
        refused = await client.patch(
            f"/v1/endpoints/{target['http']['endpoint']}", json={"timeout": 9}
        )
        assert refused.status_code == 409
        assert (await client.delete(f"/v1/endpoints/{listed[0]['name']}")).status_code == 409
    kept = await rows(api, "select * from sexton.endpoint")
    assert "canary-canary" not in str([dict(each) for each in kept])


async def test_a_tenant_that_writes_out_another_target_with_every_job_is_stopped(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a row for a month, and a task that every claim of every tenant goes past."""
    monkeypatch.setattr("sexton.api.limits.MOST_ENDPOINTS", 3)

    def job(n: int) -> dict[str, Any]:
        return {"target": {"http": {"url": f"https://hooks.example.com/{n}"}}}

    async with api.caller("operator", "acme") as client:
        assert (await client.put("/v1/endpoints/e", json={"url": URL})).status_code == 201
        made = [await client.post("/v1/jobs", json=job(n)) for n in (1, 2, 1, 3)]
        assert [each.status_code for each in made] == [201, 201, 201, 403]
        assert made[-1].json()["type"] == "/problems/quota_exceeded"
        lines = "\n".join(json.dumps(job(n)) for n in (2, 4))
        told = await client.post(
            "/v1/jobs/bulk", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        statuses = [json.loads(each)["status"] for each in told.text.splitlines()]
        assert statuses == ["created", "error"]
        assert (await client.put("/v1/endpoints/f", json={"url": URL})).status_code == 403
        assert (await client.put("/v1/endpoints/e", json={"url": URL})).status_code == 200


async def test_the_same_target_written_out_by_many_at_once_is_one_endpoint(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        jobs = await asyncio.gather(
            *(
                client.post("/v1/jobs", json={"target": {"http": {"url": URL}}, "payload": {}})
                for _ in range(20)
            )
        )
        assert {job.status_code for job in jobs} == {201}
    [made] = await rows(api, "select * from sexton.endpoint")
    made_of = await rows(api, "select distinct task, queue from sexton.job")
    assert [tuple(each) for each in made_of] == [(f"http:{made['id']}", "http")]


WRONG_TARGETS: list[tuple[dict[str, Any], str]] = [
    ({}, "target"),
    ({"task": "a", "http": {}}, "target"),
    ({"http": "x"}, "target"),
    ({"http": {}}, "target.http.url"),
    ({"http": {"endpoint": "nobody"}}, "target.http.endpoint"),
    ({"http": {"endpoint": "a\x00b"}}, "target.http.endpoint"),
    ({"http": {"endpoint": 7}}, "target.http.endpoint"),
    ({"http": {"endpoint": "a", "timeout": 7}}, "target.http.endpoint"),
    ({"http": {"url": "http://127.0.0.1/"}}, "target.http.url"),
    ({"http": {"url": URL, "headers": {"Host": "a"}}}, "target.http.headers"),
    ({"http": {"url": URL, "secret": "canary"}}, "target.http.secret"),
    ({"http": {"url": URL, "timeout": "canary"}}, "target.http.timeout"),
    ({"http": {"url": URL, "other": 1}}, "target.http.other"),
    ({"topic": {"name": "x"}}, "target"),
    ({"task": "http:1"}, "t"),
]


async def test_a_target_that_cannot_be_is_refused_and_named(api: Served) -> None:
    async with api.caller("operator", "acme") as client:
        for target, field in WRONG_TARGETS:
            for answer in (
                await client.put("/v1/schedules/s", json={"cron": "0 6 * * *", "target": target}),
                await client.post("/v1/jobs", json={"target": target, "payload": {}}),
            ):
                assert answer.status_code in (400, 422), (target, answer.text)
                if answer.status_code == 422:
                    named = answer.json().get("field") or ""
                    assert named.startswith(field), (target, answer.text)
                assert "canary" not in answer.text or "timeout" in field
    assert not await rows(api, "select from sexton.endpoint")


# ── all the way ─────────────────────────────────────────────────────────────


async def test_an_endpoint_that_answers_202_settles_the_job_through_the_api(
    database_url: str,
) -> None:
    app = application(database_url, http_allow="127.0.0.1")
    with served(app) as api:
        async with (
            post(database_url) as office,
            listening(lambda _: reply(202)) as sink,
            working(office),
            api.caller("operator", "acme") as client,
            api.caller("worker", "acme") as receiver,
            api.caller("worker", "other") as stranger,
        ):
            await client.put("/v1/endpoints/e", json={"url": sink.url, "generate": True})
            tested = await client.post("/v1/endpoints/e/test")
            assert tested.status_code == 202, tested.text
            id = tested.json()["job"]
            await sink.until_heard(1)
            heard = sink.heard[0]
            assert heard.json == {"type": "sexton.test", "endpoint": "e"}
            assert heard.headers["webhook-signature"].startswith("v1,")
            fence = int(heard.headers["sexton-fence"])
            job = (await client.get(f"/v1/jobs/{id}")).json()
            assert job["state"] == "running"
            body = {"fence": fence, "result": {"done": True}}
            assert (await stranger.post(f"/v1/jobs/{id}/succeed", json=body)).status_code == 404
            stale = await receiver.post(f"/v1/jobs/{id}/succeed", json={"fence": fence + 1})
            assert (stale.status_code, stale.json()["type"]) == (409, "/problems/stale_fence")
            settled = await receiver.post(f"/v1/jobs/{id}/succeed", json=body)
            assert settled.status_code == 200, settled.text
            job = (await client.get(f"/v1/jobs/{id}")).json()
            assert (job["state"], job["result"]) == ("succeeded", {"done": True})
            twice = await receiver.post(f"/v1/jobs/{id}/succeed", json=body)
            assert twice.status_code == 409
