"""Idempotency-Key: one change and one answer, however often and however badly a request is sent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx

from sexton import Sexton
from sexton.api.errands import forget_answers

from .process import processes, until
from .served import Served, served

KEY = {"name": "k", "role": "viewer"}


def key(text: str) -> dict[str, str]:
    return {"idempotency-key": text}


async def names(api: Served) -> list[str]:
    rows = await api.rows("select name from sexton.api_key where created_by <> 'test' order by id")
    return [row["name"] for row in rows]


@contextlib.asynccontextmanager
async def held(api: Served, statement: str) -> AsyncIterator[asyncpg.Connection]:
    """A lock that the test has, until the block ends."""
    connection = await asyncpg.connect(api.database_url)
    try:
        async with connection.transaction():
            await connection.execute(statement)
            yield connection
    finally:
        await connection.close()


async def waiting(api: Served) -> int:
    [row] = await api.rows(
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and wait_event_type = 'Lock'"
    )
    return int(row["count"])


async def test_the_same_request_again_gets_the_same_answer(api: Served) -> None:
    async with api.caller("admin") as admin:
        first = await admin.post("/v1/keys", json=KEY, headers=key("a"))
        again = await admin.post("/v1/keys", json=KEY, headers=key("a"))
    assert (first.status_code, again.status_code) == (201, 201)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"]
    # A key is shown once: the answer that is kept is without it, and the model says so.
    assert again.json() == first.json() | {"key": None}
    assert await names(api) == ["k"]
    kept = await api.rows("select convert_from(body, 'UTF8') as body from sexton.request")
    assert len(kept) == 1
    assert first.json()["key"] not in kept[0]["body"]


async def test_every_method_that_changes_something_takes_a_key(api: Served) -> None:
    async with api.caller("admin") as admin:
        for _ in range(2):
            put = await admin.put("/v1/tenants/acme", json={}, headers=key("put"))
            assert put.status_code == 201
        for _ in range(2):
            gone = await admin.delete("/v1/tenants/acme", headers=key("delete"))
            assert (gone.status_code, gone.content) == (204, b"")
        assert gone.headers["idempotency-replayed"] == "true"
        log = (await admin.get("/v1/audit-log")).json()["items"]
        assert [each["action"] for each in log] == ["tenant.remove", "tenant.put"]


async def test_a_key_stands_for_one_request(api: Served) -> None:
    async with api.caller("admin") as admin:
        made = await admin.post("/v1/keys", json=KEY, headers=key("a"))
        id = made.json()["id"]
        for other in (
            admin.post("/v1/keys", json=KEY | {"name": "other"}, headers=key("a")),
            admin.post("/v1/keys?tenant=default", json=KEY, headers=key("a")),
            admin.post(f"/v1/keys/{id}/rotate", headers=key("a")),
            admin.delete(f"/v1/keys/{id}", headers=key("a")),
        ):
            answer = await other
            assert answer.status_code == 422
            assert answer.json()["type"] == "/problems/idempotency_key_reused"
            assert answer.json()["field"] == "Idempotency-Key"
        assert (await admin.get(f"/v1/keys/{id}")).json()["state"] == "active"
    assert await names(api) == ["k"]


async def test_what_was_refused_may_be_sent_again_mended(api: Served) -> None:
    async with api.caller("admin") as admin:
        for body, status in ((KEY | {"role": "root"}, 422), (KEY, 201), (KEY, 201)):
            answer = await admin.post("/v1/keys", json=body, headers=key("a"))
            assert answer.status_code == status
        nobody = "/v1/keys/999/rotate"
        assert (await admin.post(nobody, headers=key("b"))).status_code == 404
        assert (await admin.post("/v1/keys", json=KEY, headers=key("b"))).status_code == 201
    assert await names(api) == ["k", "k"]


async def test_keys_of_two_tenants_have_nothing_to_do_with_each_other(api: Served) -> None:
    async with api.caller("admin", "acme") as acme, api.caller("admin", "other") as other:
        for http, name in ((acme, "one"), (other, "two")):
            answer = await http.post("/v1/keys", json=KEY | {"name": name}, headers=key("a"))
            assert answer.status_code == 201
            assert answer.json()["name"] == name


async def test_a_key_is_255_visible_characters_at_most(api: Served) -> None:
    async with api.caller("admin") as admin:
        for wrong in ("", "a" * 256, "a b", "é".encode()):
            headers: Any = {"idempotency-key": wrong}
            answer = await admin.post("/v1/keys", json=KEY, headers=headers)
            assert answer.status_code == 400, wrong
            assert answer.json()["field"] == "Idempotency-Key"
        answer = await admin.post("/v1/keys", json=KEY, headers=key("a" * 255))
        assert answer.status_code == 201
    assert await names(api) == ["k"]


async def twins(api: Served, admin: httpx.AsyncClient) -> list[httpx.Response]:
    """The same request over two connections, both of them in the database at the same moment."""
    async with held(api, "lock table sexton.api_key in exclusive mode"):
        sent = [
            asyncio.create_task(admin.post("/v1/keys", json=KEY, headers=key("twin")))
            for _ in range(2)
        ]
        await until(lambda: both_wait(api))
    return await asyncio.gather(*sent)


async def both_wait(api: Served) -> bool:
    return await waiting(api) == 2


async def test_whoever_waits_for_a_lock_too_long_is_told_so_and_nothing_is_changed(
    api: Served,
) -> None:
    with served(Sexton(api.database_url, patience=3)) as hasty:
        async with hasty.client(await api.key("admin")) as admin:
            async with held(api, "lock table sexton.api_key in exclusive mode"):
                answer = await admin.post("/v1/keys", json=KEY)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "another change has this locked; nothing was changed" in answer.json()["detail"]
    assert "k" not in await names(api)


async def test_of_two_at_the_same_moment_one_waits_for_the_other(api: Served) -> None:
    async with api.caller("admin") as admin:
        await admin.get("/v1/keys")
        answers = await twins(api, admin)
    assert [each.status_code for each in answers] == [201, 201]
    replayed = [each.headers.get("idempotency-replayed") for each in answers]
    assert sorted(replayed, key=str) == [None, "true"]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert await names(api) == ["k"]


async def test_if_the_first_of_two_fails_the_other_does_it(api: Served) -> None:
    await api.rows("create sequence attempts")
    await api.rows("grant usage on sequence attempts to public")
    await api.rows(
        "create function fails_once() returns trigger language plpgsql as $$ begin "
        "if nextval('attempts') = 1 then raise exception 'not this time'; end if; return new; "
        "end $$"
    )
    await api.rows(
        "create trigger fails before insert on sexton.audit_log "
        "for each row execute function fails_once()"
    )
    async with api.caller("admin") as admin:
        await admin.get("/v1/keys")
        answers = await twins(api, admin)
    assert sorted(each.status_code for each in answers) == [201, 500]
    assert all("idempotency-replayed" not in each.headers for each in answers)
    assert await names(api) == ["k"]


async def test_who_was_killed_after_the_change_and_before_the_answer_has_answered(
    api: Served,
) -> None:
    """The commit is under way when the process dies; PostgreSQL finishes it."""
    await api.rows(
        "create function hold_commit() returns trigger language plpgsql as "
        "$$ begin perform pg_advisory_xact_lock(42); return null; end $$"
    )
    await api.rows(
        "create constraint trigger held after insert on sexton.api_key deferrable initially "
        "deferred for each row execute function hold_commit()"
    )
    admin_key = await api.key("admin")
    with processes(api.database_url) as start:
        doomed = await start().started()
        async with (
            doomed.client(admin_key) as http,
            held(api, "select pg_advisory_xact_lock(42)"),
        ):
            sending = asyncio.create_task(http.post("/v1/keys", json=KEY, headers=key("a")))
            await until(lambda: one_waits(api))
            doomed.process.kill()
            doomed.process.wait()
            answer = (await asyncio.gather(sending, return_exceptions=True))[0]
            assert isinstance(answer, httpx.TransportError), "nobody was told anything"
            assert await names(api) == []
        await until(lambda: names(api))
    async with api.client(admin_key) as http:
        again = await http.post("/v1/keys", json=KEY, headers=key("a"))
        assert (again.status_code, again.headers["idempotency-replayed"]) == (201, "true")
        assert again.json()["name"] == "k"
    assert await names(api) == ["k"]


async def one_waits(api: Served) -> bool:
    return await waiting(api) == 1


async def test_answers_are_forgotten_after_a_day(api: Served) -> None:
    async with api.caller("admin") as admin, api.app as app:
        store = (await app.client()).store
        await admin.post("/v1/keys", json=KEY, headers=key("old"))
        await api.rows("update sexton.request set at = at - interval '25 hours'")
        await admin.post("/v1/keys", json=KEY, headers=key("new"))
        assert await forget_answers(store) == 1
        assert await forget_answers(store) == 0
        rows = await api.rows("select key from sexton.request")
        assert [row["key"] for row in rows] == ["new"]
