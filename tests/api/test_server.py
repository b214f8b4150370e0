"""`sexton api` as a process: where it listens, whom it answers without a key, and how it ends."""

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from sexton import Sexton
from sexton.api.server import serve
from sexton.api.service import Service
from sexton.errors import Unavailable

from ..docs.pages import ROOT, blocks
from .process import ApiProcess, processes, sexton, until
from .served import Served
from .test_docs import sent

# ── without any key ─────────────────────────────────────────────────────────

FOREIGN: list[dict[str, str]] = [
    {"host": "evil.example"},
    {"host": "evil.example:8000"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "localhost.evil.example"},
    {"host": "192.168.1.1"},
    {"host": "0.0.0.0"},
    {"host": ""},
    {"origin": "https://evil.example"},
    {"origin": "http://localhost.evil.example"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"x-forwarded-for": "203.0.113.9"},
    {"forwarded": "for=203.0.113.9"},
    {"via": "1.1 proxy"},
]


async def test_without_keys_no_page_of_another_site_gets_through(api: Served) -> None:
    async with api.client() as http:
        port = http.base_url.port
        for headers in FOREIGN:
            for answer in (
                await http.get("/v1/tenants", headers=headers),
                await http.put("/v1/tenants/acme", json={}, headers=headers),
            ):
                assert answer.status_code == 403, headers
                assert answer.json()["type"] == "/problems/cross_site"
        fine: list[dict[str, str]] = [
            {},
            {"host": "localhost"},
            {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"},
            {"host": "[::1]:8000"},
            {"sec-fetch-site": "same-origin"},
            {"sec-fetch-site": "none"},
        ]
        for headers in fine:
            answer = await http.get("/v1/tenants", headers=headers)
            assert answer.status_code == 200, (headers, answer.text)
        assert (await http.get("/v1/tenants/acme")).status_code == 404
        # With a key nothing of this matters: a browser does not send it by itself.
        async with api.caller("viewer") as caller:
            for headers in FOREIGN:
                assert (await caller.get("/v1/tenants", headers=headers)).status_code == 200


async def test_the_first_key_ends_the_time_without_keys(api: Served) -> None:
    async with api.client() as http:
        assert (await http.get("/v1/keys")).json()["items"] == []
        made = (await http.post("/v1/keys", json={"name": "first", "role": "admin"})).json()
        assert made["created_by"] == "local"
        assert (await http.get("/v1/keys")).status_code == 401
        headers = {"authorization": f"Bearer {made['key']}"}
        assert (await http.delete(f"/v1/keys/{made['id']}", headers=headers)).status_code == 204
        # Not even when there is none left that opens.
        assert (await http.get("/v1/keys")).status_code == 401


async def test_a_key_made_elsewhere_ends_it_too(api: Served) -> None:
    async with api.client() as http:
        assert (await http.get("/v1/keys")).status_code == 200
        made = sexton(api.database_url, "key", "create", "first", "--role", "admin")
        assert made.returncode == 0, made.stderr

        async def refused() -> bool:
            return (await http.get("/v1/keys")).status_code == 401

        assert await until(refused) < 5.0
        headers = {"authorization": f"Bearer {made.stdout.strip()}"}
        [key] = (await http.get("/v1/keys", headers=headers)).json()["items"]
        assert key["created_by"].endswith("at the command line")
        [line] = (await http.get("/v1/audit-log", headers=headers)).json()["items"]
        assert (line["action"], line["address"]) == ("key.create", socket.gethostname())


# ── where it listens ────────────────────────────────────────────────────────


async def test_without_a_key_it_listens_on_loopback_only(database_url: str) -> None:
    refused = sexton(database_url, "api", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2
    assert "sexton key create --role admin" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert sexton(database_url, "key", "create", "k", "--role", "viewer").returncode == 0
    with processes(database_url) as start:
        listening = await start("--host", "0.0.0.0").started()
        assert ":0" not in listening.url


def test_a_port_that_is_taken_is_an_error_that_says_so(api: Served) -> None:
    port = api.url.rpartition(":")[2]
    said = sexton(api.database_url, "api", "--port", port)
    assert said.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in said.stderr
    said = sexton(api.database_url, "api", "--host", "no.such.host.invalid")
    assert said.returncode == 2
    assert "cannot listen on no.such.host.invalid" in said.stderr


def test_a_schema_that_is_not_there_is_an_error_that_says_so(database_url: str) -> None:
    said = sexton(database_url, "--schema", "nowhere", "api", "--port", "0")
    assert said.returncode == 2
    assert "sexton migrate" in said.stderr


async def test_a_server_that_goes_away_while_the_service_starts_is_told_in_one_line(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @contextlib.asynccontextmanager
    async def running(app: Sexton) -> AsyncIterator[None]:
        """As far as it comes when its session is ended."""
        connection = await asyncpg.connect(database_url)
        try:
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")
        except asyncpg.PostgresError as error:
            raise Unavailable("PostgreSQL did not answer") from error
        yield

    monkeypatch.setattr(Service, "running", running)
    with pytest.raises(Unavailable):
        await serve(Sexton(database_url), "127.0.0.1", 0)
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


# ── how it ends ─────────────────────────────────────────────────────────────


async def test_a_request_that_has_begun_is_answered_before_the_process_ends(
    database_url: str,
) -> None:
    with processes(database_url) as start:
        serving: ApiProcess = await start().started()
        connection = await asyncpg.connect(database_url)
        looking = await asyncpg.connect(database_url)
        async with serving.client() as http, serving.client() as other:
            assert (await other.get("/v1/tenants")).status_code == 200
            async with connection.transaction():
                await connection.execute("lock table sexton.api_key in exclusive mode")
                body = {"name": "slow", "role": "viewer"}
                sending = asyncio.create_task(http.post("/v1/keys", json=body))
                await until(lambda: somebody_waits(looking))
                serving.process.send_signal(signal.SIGTERM)

                async def takes_no_more() -> bool:
                    try:
                        async with serving.client() as late:
                            return (await late.get("/readyz")).status_code == 503
                    except httpx.TransportError:
                        return True

                await until(takes_no_more)
                assert not sending.done()
                assert serving.process.poll() is None
            answer = await sending
        assert answer.status_code == 201
        assert serving.process.wait(30) == 0, serving.output()
        rows = await connection.fetch("select name from sexton.api_key")
        assert [row["name"] for row in rows] == ["slow"]
        await connection.close()
        await looking.close()
        assert "Traceback" not in serving.output()
        assert "the service has ended" in serving.output()


async def somebody_waits(connection: asyncpg.Connection) -> bool:
    return bool(
        await connection.fetchval(
            "select exists (select from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database())"
        )
    )


async def test_the_log_has_a_line_for_each_request_that_cannot_be_broken(
    database_url: str,
) -> None:
    with processes(database_url) as start:
        serving = await start().started()
        async with serving.client() as http:
            await http.get("/v1/tenants/a%0Ab%1B[31m", headers={"x-request-id": "the-id"})
        serving.process.terminate()
        serving.process.wait(30)
        [line] = [each for each in serving.output().splitlines() if "the-id" in each]
        assert "GET /v1/tenants/a%0Ab%1B[31m 422" in line
        assert "default/local" in line


# ── more than one ───────────────────────────────────────────────────────────


async def test_a_key_revoked_in_one_process_opens_nothing_in_another(database_url: str) -> None:
    admin_key, key = (
        json.loads(sexton(database_url, "key", "create", "k", "--role", role, "--json").stdout)
        for role in ("admin", "viewer")
    )
    with processes(database_url) as start:
        one, two = start(), start()
        await one.started()
        await two.started()
        async with one.client(admin_key["key"]) as admin, two.client(key["key"]) as http:
            assert (await http.get("/v1/tenants")).status_code == 200
            await admin.delete(f"/v1/keys/{key['made']['id']}")

            async def refused() -> bool:
                return (await http.get("/v1/tenants")).status_code == 401

            assert await until(refused) < 5.0


# ── its page ────────────────────────────────────────────────────────────────


async def test_the_requests_that_its_page_shows_are_answered_as_it_says(api: Served) -> None:
    async with api.caller("admin") as http:
        for block in blocks(ROOT / "docs" / "service.md", "http"):
            method, path, headers, body, status = sent(block)
            answer = await http.request(method, path, headers=headers, content=body.encode())
            assert answer.status_code == status, f"line {block.line}: {answer.text}"
