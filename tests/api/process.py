"""`sexton api` as an operator starts it: a process of its own, to be signalled and killed."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from ..support.logs import log_file

PROGRAM = [sys.executable, "-m", "sexton.cli.main"]
PATIENCE = 60.0


def environ(database_url: str, **settings: object) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SEXTON_")}
    return {
        **kept,
        "SEXTON_DATABASE_URL": database_url,
        **{f"SEXTON_{name.upper()}": str(value) for name, value in settings.items()},
    }


def sexton(database_url: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [*PROGRAM, *words],
        env=environ(database_url),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


class ApiProcess:
    """A service that listens on any port that is free."""

    def __init__(self, database_url: str, *words: str, **settings: object) -> None:
        self.log = log_file()
        self.process = subprocess.Popen(
            [*PROGRAM, "api", "--port", "0", *words],
            env=environ(database_url, **settings),
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.url = ""

    def output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    async def started(self) -> "ApiProcess":
        """Until it answers."""
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self.process.poll() is None, self.output()
            if (found := re.search(r"listens at (http://\S+)", self.output())) is not None:
                self.url = found[1]
                with contextlib.suppress(httpx.TransportError):
                    async with self.client() as http:
                        if (await http.get("/healthz")).status_code == 200:
                            return self
            assert time.monotonic() < deadline, self.output()
            await asyncio.sleep(0.02)

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    def reap(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


@contextlib.contextmanager
def processes(database_url: str) -> Iterator[Callable[..., ApiProcess]]:
    """Starts services on one database; whatever is left is killed at the end."""
    all: list[ApiProcess] = []

    def start(*words: str, **settings: object) -> ApiProcess:
        all.append(ApiProcess(database_url, *words, **settings))
        return all[-1]

    try:
        yield start
    finally:
        for each in all:
            each.reap()


async def until(true: Callable[[], Awaitable[Any]], seconds: float = 30.0) -> float:
    """Ask until it is so; how long that took."""
    began = time.monotonic()
    while not await true():
        if time.monotonic() - began > seconds:
            pytest.fail(f"not so within {seconds:g} s")
        await asyncio.sleep(0.02)
    return time.monotonic() - began
