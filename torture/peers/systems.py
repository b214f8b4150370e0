"""Who takes part: how each is started, how its fires are known, and its settings in words."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import peers
from bench.contenders import BY_NAME as CONTENDERS

from torture.peers.timeline import PROCESSES

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
RECIPE = HERE / "apscheduler4.txt"
APSCHEDULER4 = CACHE / "apscheduler4"

NotAvailable = peers.NotAvailable


@dataclass(frozen=True)
class System:
    """One row of the tables. `environment` adds to what its processes see."""

    name: str
    adapter: str  # a module of torture.peers.adapters
    package: str
    settings: str
    runtime: str = "bench"  # whose Python: ours, bench's for the peers, or one of its own
    processes: int = PROCESSES
    groups: tuple[str, ...] = ("second", "ten", "minute")
    environment: Mapping[str, str] = field(default_factory=dict)


SEXTON = System(
    name="sexton",
    adapter="sexton_app",
    package="sexton",
    runtime="ours",
    settings="3 processes, each a node and a worker; misfire=all, overlap=allow; lease 30 s, node"
    " lease 3 s (defaults)",
)
SYSTEMS = (
    SEXTON,
    System(
        name="procrastinate",
        adapter="procrastinate_app",
        package="procrastinate",
        settings="3 workers, each defers periodic tasks; its recipe for stalled jobs every 10 s;"
        " heartbeat 10 s, stalled after 30 s (defaults)",
    ),
    System(
        name="pgqueuer",
        adapter="pgqueuer_app",
        package="pgqueuer",
        groups=("ten", "minute"),
        settings="3 workers, shutdown_on_listener_failure; a schedule is taken over 30 s after its"
        " last heartbeat (fixed); no schedules of every second",
    ),
    System(
        name="apscheduler",
        adapter="apscheduler3_app",
        package="apscheduler",
        processes=1,
        settings="1 process, as its manual demands; SQLAlchemy store, coalesce off, no misfire"
        " limit, pool_pre_ping",
    ),
    System(
        name="apscheduler-shared",
        adapter="apscheduler3_app",
        package="apscheduler",
        settings="the same in 3 processes with one store, which its manual forbids and people do",
    ),
    System(
        name="apscheduler4",
        adapter="apscheduler4_app",
        package="apscheduler",
        runtime="own",
        settings="an alpha, not for production by its own word; 3 schedulers with workers, asyncpg"
        " broker, coalesce=all, lease 30 s (default), pool_pre_ping",
    ),
)
BY_NAME = {system.name: system for system in SYSTEMS}


def python(system: System) -> str:
    """The interpreter that has this system; made on first use, or the reason why it cannot be."""
    if system.runtime == "ours":
        return sys.executable
    if system.runtime == "own":
        APSCHEDULER4.mkdir(parents=True, exist_ok=True)
        peers.made(APSCHEDULER4 / "stamp", RECIPE, _make_apscheduler4)
        return str(APSCHEDULER4 / "bin" / "python")
    peers.ensure(CONTENDERS[system.package])
    return str(peers.PYTHON / "bin" / "python")


def _make_apscheduler4() -> None:
    venv.create(APSCHEDULER4, with_pip=True, clear=True)
    pip = (APSCHEDULER4 / "bin" / "python", "-m", "pip", "install", "--quiet")
    peers.run(*pip, "-r", RECIPE, cwd=HERE)


def version(system: System, interpreter: str) -> str:
    code = f"from importlib.metadata import version; print(version({system.package!r}))"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True)
    return f"{system.package} {done.stdout.strip()}"
