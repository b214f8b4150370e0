"""Unique secrets, given to everything that takes one, and then looked for everywhere."""

import asyncio
import base64
import json
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from sexton import Sexton
from sexton.targets.http.seal import fresh_key
from sexton.targets.http.sign import fresh_secret, secret_bytes

from ..targets.http.sink import Heard, Reply, Sink, listening, reply, reply_json
from .served import Served, served

KEY = fresh_key()
TOKEN = "canary-token-" + os.urandom(12).hex()
PASSWORD = "canary-password-" + os.urandom(12).hex()
SECRETS = [fresh_secret() for _ in range(3)]


def canaries() -> list[str]:
    """Each secret in every form in which it might be found."""
    basic = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
    plain = [TOKEN, PASSWORD, basic, KEY, base64.b64decode(KEY).hex()]
    signing = [part for each in SECRETS for part in (each, each[6:], secret_bytes(each).hex())]
    found = [*plain, *signing]
    return [*found, *(each.encode().hex() for each in found)]


def search(where: str, text: str) -> None:
    for canary in canaries():
        assert canary not in text, f"a secret is in {where}"


def echo(heard: Heard) -> Reply:
    """Says back everything that it was told: as a result, as an error, as a redirect."""
    said = dict(heard.headers)
    match heard.json["n"]:
        case 0:
            return reply_json({"you": said})
        case 1:
            return reply(500, json.dumps(said).encode())
        case 2:
            return reply(400, " ".join(said.values()).encode())
        case 3:
            return reply(302, Location="/" + said["authorization"].replace(" ", "%20"))
        case _:
            return None


async def everything_kept(url: str) -> str:
    """All tables as text, in the way in which somebody with a dump would see them."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "select oid::regclass::text as name from pg_class "
            "where relkind in ('r', 'p') and relnamespace = 'sexton'::regnamespace"
        )
        assert len(tables) > 20
        rows = []
        for table in tables:
            found = await connection.fetch(f"select t::text as row from {table['name']} as t")
            rows += [each["row"] for each in found]
        statements = await connection.fetch("select query from pg_stat_activity")
        return "\n".join([*rows, *(each["query"] or "" for each in statements)])
    finally:
        await connection.close()


async def given_secrets(client: httpx.AsyncClient, sink: Sink) -> list[httpx.Response]:
    """Every way to give one."""
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Basic": basic_header()}
    endpoint = {"url": sink.url, "headers": headers, "secrets": SECRETS[:1]}
    target = {"url": sink.url, "headers": headers, "secret": SECRETS[2], "timeout": 4}
    retry = {"max_attempts": 1}
    return [
        await client.put(
            "/v1/endpoints/e",
            json=endpoint | {"retry": retry},
            headers={"Idempotency-Key": "once"},
        ),
        await client.patch(
            "/v1/endpoints/e", json={"add_secret": SECRETS[1], "headers": {"X-More": TOKEN}}
        ),
        await client.put(
            "/v1/schedules/s", json={"every": "1d", "target": {"http": {**target, "retry": retry}}}
        ),
        await client.post("/v1/schedules/s/trigger", json={"payload": {"n": 1}}),
        *[
            await client.post(
                "/v1/jobs", json={"target": {"http": {"endpoint": "e"}}, "payload": {"n": n}}
            )
            for n in range(5)
        ],
        # And wrongly, so that they would be in an error.
        await client.put("/v1/endpoints/x", json=endpoint | {"headers": {"Host": TOKEN}}),
        await client.put("/v1/endpoints/x", json=endpoint | {"headers": {"X": TOKEN + "\n"}}),
        await client.put("/v1/endpoints/x", json=endpoint | {"secrets": [SECRETS[0] + TOKEN]}),
        await client.put("/v1/endpoints/x", json=endpoint | {"secrets": {"a": SECRETS[0]}}),
        await client.put("/v1/endpoints/x", json=endpoint | {"headers": [TOKEN]}),
        await client.put("/v1/endpoints/x", json=endpoint | {"secret": SECRETS[0]}),
        await client.post(
            "/v1/jobs", json={"target": {"http": {**target, "secret": TOKEN}}, "payload": {}}
        ),
        await client.post(
            "/v1/jobs", json={"target": {"http": {**target, "headers": {"X": [TOKEN]}}}}
        ),
    ]


def basic_header() -> str:
    return "Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()


async def read_back(client: httpx.AsyncClient) -> list[httpx.Response]:
    paths = ["endpoints", "endpoints?written_out=true", "endpoints/e", "schedules", "schedules/s"]
    paths += ["jobs", "dead", "audit-log", "workers", "queues", "schedules/s/versions"]
    answers = [await client.get(f"/v1/{path}") for path in paths]
    jobs = (await client.get("/v1/jobs?limit=100")).json()["items"]
    answers += [await client.get(f"/v1/jobs/{job['id']}") for job in jobs]
    answers += [await client.get(path) for path in ("/metrics", "/readyz", "/openapi.json")]
    return answers


async def start_worker(url: str, port: int, log: Path) -> asyncio.subprocess.Process:
    environ = {**os.environ, "SEXTON_DATABASE_URL": url, "SEXTON_SECRET_KEY": KEY}
    environ |= {"SEXTON_HTTP_ALLOW": "127.0.0.1", "SEXTON_LEASE": "3", "SEXTON_POLL": "0.5"}
    words = ["worker", "--queue", "http:20", "--log-level", "debug"]
    words += ["--log-format", "json", "--observe", f"127.0.0.1:{port}"]
    with log.open("wb") as file:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sexton.cli.main", *words, env=environ, stdout=file, stderr=file
        )


async def all_ended(api: Served) -> None:
    connection = await asyncpg.connect(api.database_url)
    try:
        async with asyncio.timeout(60):
            while await connection.fetchval("select count(*) from sexton.job"):
                await asyncio.sleep(0.05)
    finally:
        await connection.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_no_secret_is_found_anywhere(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings: dict[str, Any] = {"lease": 3, "poll": 1, "patience": 5, "secret_key": KEY}
    app = Sexton(database_url, http_allow="127.0.0.1", **settings)
    port, log = free_port(), tmp_path / "worker.log"
    with served(app) as api:
        worker = await start_worker(database_url, port, log)
        try:
            async with listening(echo) as sink, api.caller("admin", "acme") as client:
                answers = await given_secrets(client, sink)
                assert [each.status_code for each in answers[:9]] == [
                    201, 200, 201, 202, 201, 201, 201, 201, 201
                ], [each.text for each in answers]  # fmt: skip
                assert {each.status_code for each in answers[9:]} == {422}
                await all_ended(api)
                told = [heard.headers for heard in sink.heard]
                answers += await read_back(client)
                metrics = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        finally:
            worker.send_signal(signal.SIGTERM)
            await worker.wait()
    assert any(TOKEN in str(each) and PASSWORD not in str(each) for each in told), "it was sent"
    assert any(" " in each["webhook-signature"] for each in told), "by two secrets"
    for each in answers:
        assert each.status_code < 500, each.text
        search(f"the answer to {each.request.method} {each.request.url}", each.text)
        search("the headers of an answer", str(each.headers))
    assert "sexton_" in metrics
    search("the metrics", metrics)
    said = log.read_text()
    assert "HTTP 400" in said
    search("the log of the worker", said)
    search("the log of the service", caplog.text)
    kept = await everything_kept(database_url)
    assert "[hidden]" in kept
    search("the database", kept)
