"""The worker in plain JavaScript, run by node as its page says."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..api.served import Served
from ..support.logs import log_file
from .test_worker import Site, site, until

SCRIPT = Path(__file__).parents[2] / "examples" / "worker.mjs"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


class Node:
    """`node examples/worker.mjs`, with a short lease."""

    def __init__(self, there: Site, *queues: str, **environ: Any) -> None:
        self.log = log_file()
        given = {name.upper(): str(value) for name, value in environ.items()}
        self.process = subprocess.Popen(
            [str(NODE), str(SCRIPT), *queues],
            env={
                **os.environ,
                "SERVICE_URL": there.api.url,
                "SERVICE_KEY": there.key,
                "LEASE": "5",
                "GRACE": "1",
                **given,
            },
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def output(self) -> str:
        self.log.seek(0)
        return self.log.read()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, 30)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    started: list[Node] = []
    yield started
    for each in started:
        each.end()


async def test_it_runs_jobs_and_says_what_became_of_them(api: Served, nodes: list[Node]) -> None:
    async with site(api) as there:
        nodes.append(Node(there, "js"))
        echo = await there.server.enqueue("echo", {"a": [1, "é"]}, queue="js")
        fail = await there.server.enqueue("fail", {"message": "no\x01"}, queue="js")
        none = await there.server.enqueue("unheard-of", queue="js")
        assert (await there.done(echo.id)).result == {"a": [1, "é"]}

        async def tried() -> bool:
            jobs = [await there.server.job(each.id) for each in (fail, none)]
            return all(job.attempts for job in jobs)

        await until(tried)
        failed = (await there.server.job(fail.id)).attempts[0]
        assert failed.outcome == "failed"
        assert failed.error is not None
        assert "Error: no" in failed.error
        assert (await there.server.job(none.id)).attempts[0].outcome == "snoozed"
        nodes[0].process.send_signal(signal.SIGTERM)
        assert await nodes[0].ended() == 0
        assert list(await there.server.workers()) == []


async def test_a_cancelled_job_stops_in_javascript_too(api: Served, nodes: list[Node]) -> None:
    async with site(api) as there:
        nodes.append(Node(there))
        made = await there.server.enqueue("sleep", {"seconds": 60})

        async def said() -> bool:
            return (await there.server.progress(made.id)).progress is not None

        await until(said)
        await there.server.cancel(made.id)
        assert (await there.done(made.id)).state == "cancelled"


async def test_the_job_of_a_killed_worker_runs_in_another(api: Served, nodes: list[Node]) -> None:
    async with site(api) as there:
        nodes.append(Node(there))
        made = await there.server.enqueue("sleep", {"seconds": 0.2})
        slow = await there.server.enqueue("sleep", {"seconds": 30})
        await there.done(made.id)
        await there.done(slow.id, "running")
        nodes[0].process.kill()
        nodes.append(Node(there))

        async def again() -> bool:
            return (await there.server.job(slow.id)).attempt == 2

        await until(again, 40)
        lost = (await there.server.job(slow.id)).attempts[0]
        assert lost.outcome == "lost"
        nodes[1].process.send_signal(signal.SIGINT)
        assert await nodes[1].ended() == 0
        back = await there.server.job(slow.id)
        assert (back.state, back.attempt) == ("ready", 1)
