"""What the page about remote workers shows is so."""

import asyncio
import json
from pathlib import Path
from typing import Any

from ..api.served import Served
from ..api.test_docs import sent
from ..docs.pages import ROOT, blocks
from ..docs.test_examples import compiled

PAGE: Path = ROOT / "docs" / "remote-workers.md"


async def test_every_request_of_the_page_is_answered_as_it_says(api: Served) -> None:
    """On a fresh database, whose first ids and fences are those of the page."""
    examples = blocks(PAGE, "http")
    assert len(examples) > 10
    async with api.caller("worker", "acme") as http:
        for block in examples:
            method, path, headers, body, status = sent(block)
            answer = await http.request(method, path, headers=headers, content=body.encode())
            assert answer.status_code == status, f"line {block.line}: {answer.text}"
            if path == "/v1/workers/1/settle":
                assert answer.json()["results"][0]["status"] == "accepted"


async def test_the_answer_that_the_page_shows_has_the_fields_of_a_real_one(api: Served) -> None:
    [shown] = (json.loads(block.text) for block in blocks(PAGE, "json"))
    async with api.caller("worker", "acme") as http:
        worker = (await http.post("/v1/workers", json={"name": "x", "queues": ["q"]})).json()["id"]
        await http.post("/v1/jobs", json={"task": "t", "queue": "q"})
        real = (await http.post(f"/v1/workers/{worker}/claim")).json()
    assert shown.keys() == real.keys()
    assert shown["jobs"][0].keys() == real["jobs"][0].keys()


async def test_the_examples_of_the_client_run(api: Served) -> None:
    await api.tenant("acme")
    names: dict[str, Any] = {"url": api.url, "key": await api.key("operator", "acme")}
    for block in blocks(PAGE, "python"):
        if block.file is None:
            returned = eval(compiled(block, PAGE), names)
            if returned is not None:
                await returned
    assert await asyncio.to_thread(names["in_a_view"], "b@example.com") > 1000
