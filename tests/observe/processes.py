"""Processes as an operator starts them, asked over their own port."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ..support.logs import log_file
from ..support.processes import ROOT

_WHERE = re.compile(r"probes and metrics at (http://\S+:\d+)")
PATIENCE = 30.0


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.samples = [sample for family in self.families for sample in family.samples]

    def value(self, name: str, /, **labels: str) -> float | None:
        """The sum over all samples of this name that have these labels; None: there is none."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None


class Observed:
    """A process with `--observe`, and what it says."""

    def __init__(self, command: list[str], url: str, **settings: object) -> None:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("SEXTON")}
        environ |= {
            "SEXTON_DATABASE_URL": url,
            "SEXTON_LEASE": "2",
            "SEXTON_NODE_LEASE": "1",
            "SEXTON_POLL": "0.5",
            "SEXTON_GRACE": "20",
            "SEXTON_PATIENCE": "2",
            "SEXTON_OBSERVE": "127.0.0.1:0",
            "PYTHONPATH": str(ROOT),
            **{f"SEXTON_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self._log = log_file()
        self.process = subprocess.Popen(
            command, env=environ, cwd=ROOT, stdout=self._log, stderr=subprocess.STDOUT
        )
        self._where: str | None = None

    @property
    def output(self) -> str:
        self._log.seek(0)
        return self._log.read()

    async def where(self) -> str:
        if self._where is None:
            await until(lambda: _WHERE.search(self.output) is not None, self)
            found = _WHERE.search(self.output)
            assert found is not None
            self._where = found[1]
        return self._where

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            return await client.get(await self.where() + path)

    async def scrape(self) -> Scrape:
        answer = await self.get("/metrics")
        assert answer.status_code == 200
        return Scrape(answer.text)

    async def ready(self) -> tuple[bool, Any]:
        answer = await self.get("/readyz")
        body = answer.json()
        assert (answer.status_code == 200) == body["ready"] == (not body["reasons"])
        return body["ready"], body["reasons"]

    async def until_ready(self, wanted: bool = True) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            ready, reasons = await self.ready()
            if ready == wanted:
                return list(reasons)
            await asyncio.sleep(0.05)
        pytest.fail(f"never {wanted}: {self.output}")

    def lines(self) -> list[dict[str, Any]]:
        """Its log, if that is JSON."""
        return [json.loads(line) for line in self.output.splitlines()]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


async def until(true: Any, process: Observed) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline or process.process.poll() is not None:
            pytest.fail(f"not so in time: {process.output}")
        await asyncio.sleep(0.02)


SEXTON = [sys.executable, "-m", "sexton.cli.main"]


@contextlib.contextmanager
def observed(url: str, *words: str, **settings: object) -> Iterator[Observed]:
    """`sexton …`, until the test is over."""
    process = Observed([*SEXTON, *words], url, **settings)
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def observed_worker(url: str, **settings: object) -> Iterator[Observed]:
    with observed(url, "worker", "tests.observe.shop:app", **settings) as process:
        yield process
