"""A small place of work: a database, a node, a worker, a service, a sink; others come and go."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import asyncpg
import pytest

from sexton.torture.stand.ports import free_port
from sexton.torture.work import app as tasks
from sexton.torture.work.access import Tenant
from sexton.torture.work.clock import measured_us
from sexton.torture.work.journal import read_all
from sexton.torture.work.prepare import LOOPBACK, Prepared, fresh_secret_key, prepare

# What was committed long after it was due is found by a sweep, on a busy host after a minute.
PATIENCE = 100.0
LEASE = 2.0
Line = dict[str, Any]


def until(what: str, found: Callable[..., Any], *given: Any) -> Any:
    """Look until something outside this process is so; what was found then."""
    deadline = time.monotonic() + PATIENCE
    while not (result := found(*given)):
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {PATIENCE:g} s")
        time.sleep(0.1)
    return result


class Notes:
    """Files of lines that others go on writing: each line is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, tuple[int, list[Line]]] = {}

    def lines(self, name: str = "*") -> list[Line]:
        found = []
        for path in sorted(self._folder.glob(f"{name}-*.jsonl")):
            begins, lines = self._read.get(path, (0, []))
            with path.open("rb") as file:
                file.seek(begins)
                whole, newline, _ = file.read().rpartition(b"\n")
            lines += map(json.loads, whole.splitlines())
            self._read[path] = begins + len(whole) + len(newline), lines
            found += lines
        return found


class Workplace:
    """Processes on one database and one folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = {name: free_port() for name in ("sink", "rough", "api", "worker", "node")}
        self.secret_key = fresh_secret_key()
        self.prepared: Prepared
        (folder / "logs").mkdir(parents=True)
        self._effects, self._acks = Notes(folder / "effects"), Notes(folder / "acks")

    @property
    def sink(self) -> str:
        return f"http://127.0.0.1:{self.ports['sink']}"

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.ports['api']}"

    def tenant(self, name: str) -> Tenant:
        return self.prepared.access.tenants[name]

    # ── processes ───────────────────────────────────────────────────────────

    def start(self, name: str, module: str, *words: str, **env: str) -> subprocess.Popen[bytes]:
        kept = {
            each: value
            for each, value in os.environ.items()
            if not each.startswith(("SEXTON_", "TORTURE_"))
        }
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                env={
                    **kept,
                    "SEXTON_DATABASE_URL": self.url,
                    "SEXTON_LEASE": f"{LEASE:g}",
                    "SEXTON_NODE_LEASE": "1.5",
                    "SEXTON_POLL": "1",
                    "SEXTON_GRACE": "3",
                    "SEXTON_PATIENCE": "5",
                    "SEXTON_SECRET_KEY": self.secret_key,
                    "SEXTON_HTTP_ALLOW": LOOPBACK,
                    "TORTURE_FOLDER": str(self.folder),
                    "TORTURE_NAME": name,
                    "TORTURE_CLOCK_US": str(measured_us()),
                    **env,
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes[name] = process
        return process

    def start_worker(self) -> subprocess.Popen[bytes]:
        queues = [word for queue in tasks.QUEUES for word in ("--queue", queue)]
        return self.start(
            *("worker-1", "sexton.cli.main", "worker", "sexton.torture.work.app:app", *queues),
            SEXTON_OBSERVE=f"127.0.0.1:{self.ports['worker']}",
        )

    def start_all(self) -> None:
        ports = ("--port", str(self.ports["sink"]), "--rough-port", str(self.ports["rough"]))
        self.start("sink", "sexton.torture.work.sink", *ports, "--url", self.api)
        self.start("api-1", "sexton.cli.main", "api", "--port", str(self.ports["api"]))
        node = f"127.0.0.1:{self.ports['node']}"
        self.start("node-1", "sexton.cli.main", "scheduler", SEXTON_OBSERVE=node)
        self.start_worker()

    def wait_ready(self) -> None:
        for name in ("sink", "api", "node", "worker"):
            until(f"{name} is ready", self._ready, name)

    def _ready(self, name: str) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.ports[name]}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def client(self, name: str, role: str, *words: str) -> subprocess.Popen[bytes]:
        words = ("--role", role, "--seed", "7", "--url", self.api, *words)
        return self.start(name, "sexton.torture.work.clients", *words)

    def operator(self, name: str, via: str, *words: str) -> subprocess.Popen[bytes]:
        words = ("--via", via, "--seed", "7", "--url", self.api, *words)
        return self.start(name, "sexton.torture.work.operators", *words)

    def end(self, name: str) -> None:
        """As an operator would, and without an error."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
        assert code == 0, (self.folder / "logs" / f"{name}.log").read_text()

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    # ── what it left ────────────────────────────────────────────────────────

    def effects(self, event: str | None = None, **said: Any) -> list[Line]:
        """Lines of the effect log with these values, in the order of time."""
        lines = [
            line
            for line in self._effects.lines()
            if event in (None, line["event"])
            and all(line.get(name) == value for name, value in said.items())
        ]
        return sorted(lines, key=lambda line: line["at"])

    def of(self, id: str, least: int = 0) -> list[Line]:
        """Everything that was done for one payload; nothing if that is not so much yet."""
        lines = [line for line in self.effects() if line["payload"].get("id") == id]
        return lines if len(lines) >= least else []

    def acks(self, name: str) -> list[Line]:
        """The acknowledgement log of a client, over all its lives."""
        return self._acks.lines(name)

    def lines(self, name: str) -> list[Line]:
        return read_all(self.folder / "dump" / f"{name}.jsonl")

    def rows(self, statement: str, *values: Any) -> list[Any]:
        async def fetch() -> list[Any]:
            connection = await asyncpg.connect(self.url)
            try:
                found: list[Any] = await connection.fetch(statement, *values)
                return found
            finally:
                await connection.close()

        return asyncio.run(fetch())


def acknowledged(lines: list[Line]) -> list[tuple[Line, Line]]:
    """Each request with the answer that it got."""
    asks = {line["n"]: line for line in lines if line["event"] == "ask"}
    return [(asks[line["n"]], line["answer"]) for line in lines if line["event"] == "ack"]


def open_asks(lines: list[Line]) -> list[Line]:
    """Requests of which nothing was heard."""
    closed = {line["n"] for line in lines if line["event"] in ("ack", "error")}
    return [line for line in lines if line["event"] == "ask" and line["n"] not in closed]


@contextmanager
def workplace(url: str, folder: Path) -> Iterator[Workplace]:
    """Prepared and at work; whatever is left is killed at the end."""
    place = Workplace(url, folder)
    sinks = (place.sink, f"http://127.0.0.1:{place.ports['rough']}")
    try:
        place.start_all()
        place.prepared = asyncio.run(
            prepare(
                url,
                folder,
                seed=7,
                seconds=120,
                secret_key=place.secret_key,
                sink=sinks,
                fires_per_second=12,
                lease=LEASE,
                harsh=0,
            )
        )
        place.wait_ready()
        yield place
    finally:
        place.close()


def shown(lines: list[Line]) -> str:
    """For a message."""
    return "\n".join(map(json.dumps, lines))
