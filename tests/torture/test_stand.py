"""The stand: processes that are really stopped, really killed, really wrong about the time."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

from sexton.errors import ConfigurationError
from sexton.store.connection import Address
from sexton.store.migrations import migrate
from sexton.torture.stand import Role, Stand, StandError, roles, skewed, tree
from sexton.torture.stand.clocks import Clock
from sexton.torture.stand.scratch import scratch
from sexton.torture.stand.way import address_of, through

from ..support.processes import ROOT, until

TASKS = "tests.support.tasks:app"
QUICK = {
    "PYTHONPATH": str(ROOT),
    "SEXTON_LEASE": "3",
    "SEXTON_NODE_LEASE": "1.5",
    "SEXTON_POLL": "2",
    "SEXTON_PATIENCE": "2",
    "SEXTON_GRACE": "3",
}
HOUR = 3600.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a run; in memory if there is room."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 2**30
    folder = Path(tempfile.mkdtemp(prefix="sextest-", dir=memory if roomy else None))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def stand_on(url: str | None, folder: Path) -> Stand:
    env = {**QUICK, "EFFECTS": str(folder / "effects")}
    return Stand(folder, url=url, env=env, scratch=folder)


def teller(folder: Path) -> Role:
    return Role("teller", "client", "tests.torture.teller", (str(folder),), proxied=False)


class Told:
    """What one of the tellers says, from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def now(self) -> dict[str, Any]:
        """Something that it says after this was asked."""
        asked = time.monotonic()
        await until(lambda: bool(said := self._read()) and said["monotonic"] > asked, 30)
        return self._read()

    def _read(self) -> dict[str, Any]:
        with suppress(FileNotFoundError):
            told: dict[str, Any] = json.loads(self._path.read_text())
            return told
        return {}


async def test_a_clock_jumps_for_every_wall_clock_and_for_no_monotonic_one(
    database_url: str, folder: Path
) -> None:
    async with stand_on(database_url, folder) as stand:
        [process] = await stand.add(teller(folder))
        await stand.start()
        told = Told(folder / "above")
        walls = (
            *("time", "time_ns", "realtime", "localtime"),
            *("now", "naive", "utcnow", "today"),
        )
        for offset in (0.0, 30 * HOUR, -7 * HOUR, 0.0):
            process.clock(offset)
            said = await told.now()
            for wall in walls:
                assert abs(said[wall] - time.time() - offset) < 60, (wall, offset)
            assert said["date"] == date.fromtimestamp(said["time"]).isoformat()  # noqa: DTZ012
            assert 0 <= time.monotonic() - said["monotonic"] < 60
            assert said["same_class"], "datetime is what it was"
        # As a host's clock, it does not mind that a process is started anew.
        process.clock(2 * HOUR)
        await process.kill9()
        await process.start()
        said = await told.now()
        assert abs(said["time"] - time.time() - 2 * HOUR) < 5


async def test_sigstop_reaches_the_whole_tree_and_sigcont_too(
    database_url: str, folder: Path
) -> None:
    async with stand_on(database_url, folder) as stand:
        [process] = await stand.add(teller(folder))
        await stand.start()
        above, below = Told(folder / "above"), Told(folder / "below")
        family = {(await above.now())["pid"], (await below.now())["pid"]}
        assert set(await process.stop_signal()) == family
        assert all(tree.is_stopped(pid) for pid in family)
        assert process.alive
        await process.cont()
        assert {(await above.now())["pid"], (await below.now())["pid"]} == family
        # One that stands still can be killed, with all that stand still below it.
        await process.stop_signal()
        await process.kill9()
        await until(lambda: not any(alive(pid) for pid in family), 10)


async def test_real_processes_come_fall_and_go_and_none_is_left(
    database_url: str, folder: Path
) -> None:
    async with stand_on(database_url, folder) as stand:
        await stand.add(roles.node(1), roles.worker(1, TASKS))
        await stand.start()
        node, worker = stand.processes.values()
        pids = {each.pid for each in stand.processes.values() if each.pid}
        hogs = stand.burn(60, 2)
        async with stand.connection() as connection:
            assert await connection.fetchval("select pid from sexton.node") == node.pid
            assert await connection.fetchval("select name from sexton.worker") == worker.name
        for each in stand.processes.values():
            assert (await stand.proxies.tally(each.name)).connections, "everybody has a proxy"

        async with stand.kept():
            # Killed by the rig: it stays down until the rig starts it.
            await node.kill9()
            # Killed by somebody else: it is started again.
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            await until(lambda: len(stand.events.of("started")) == 3, 30)
            assert not node.alive
            await node.start()
            await asyncio.gather(node.wait_ready(), worker.wait_ready())
        with pytest.raises(StandError, match="running already"):
            await node.start()
        assert [event.target for event in stand.events.of("fell")] == ["worker-1"]
        pids |= {each.pid for each in stand.processes.values() if each.pid}
        pids |= {each.pid for each in hogs}
        pids.add(stand.proxies.pid)
    assert not stand.events.of("killed"), [each.tail() for each in stand.processes.values()]
    assert not stand.events.of("swept")
    assert {event.target: event.detail["code"] for event in stand.events.of("ended")} == {
        "node-1": 0,
        "worker-1": 0,
    }
    assert not any(alive(pid) for pid in pids)
    for name in ("node-1", "worker-1"):
        assert (folder / "logs" / f"{name}.log").read_text()


async def test_who_fell_just_before_it_was_to_be_ended_has_fallen_all_the_same(
    database_url: str, folder: Path
) -> None:
    async with stand_on(database_url, folder) as stand:
        [process] = await stand.add(teller(folder))
        await stand.start()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        await until(lambda: not process.alive, 10)
        await process.kill9()
        end = await process.term(10)
        assert (end.code, end.asked) == (-signal.SIGKILL, 0)
        assert [event.detail["code"] for event in stand.events.of("fell")] == [-signal.SIGKILL]
        await process.start()
        await process.kill9()
        assert len(stand.events.of("fell")) == 1, "the second time it was the rig"


async def test_a_service_is_led_to_the_primary_that_a_promotion_makes(folder: Path) -> None:
    async with stand_on(None, folder) as stand:
        assert stand.pair is not None
        await migrate(Address(stand.url), "sexton")
        [api] = await stand.add(roles.api(1))
        await stand.start()
        url, old = f"{api.url}/v1/cluster", stand.pair.address
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            assert (await client.get(url)).status_code == 200
            await stand.pair.promote()
            assert stand.pair.address != old
            deadline = time.monotonic() + 30
            while (answer := await client.get(url)).status_code != 200:
                assert time.monotonic() < deadline, (answer.text, api.tail())
    assert {event.what for event in stand.events} >= {"promoting", "promoted", "sync lost"}


async def test_nothing_outlives_a_rig_that_is_killed(folder: Path) -> None:
    rig = subprocess.Popen(
        [sys.executable, "-m", "tests.torture.rig", str(folder)],
        cwd=ROOT,
        env={**os.environ, **QUICK},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert rig.stdout is not None
    with rig, rig.stdout:
        line = await asyncio.to_thread(rig.stdout.readline)
        family = json.loads(line)
        # Two postmasters with their processes, proxies, node, worker, service, hog.
        assert len(family) > 15
        assert all(alive(pid) for pid in family)
        rig.kill()
    await until(lambda: not any(alive(pid) for pid in family), 20)
    [left] = folder.glob("sexton-torture-*")
    with scratch(folder) as fresh:
        assert [*folder.glob("sexton-torture-*")] == [fresh], "the next rig clears its data away"
        with scratch(folder) as beside:
            assert fresh.exists(), "but not that of a rig that lives"
    assert not left.exists()
    assert not beside.exists()


def test_an_operators_url_leads_through_a_proxy_or_is_refused() -> None:
    url = "postgresql://me:secret@db.example:6543/scratch?application_name=x"
    assert address_of(url) == ("db.example", 6543)
    assert through(url, 777) == (
        "postgresql://me:secret@127.0.0.1:777/scratch?application_name=x&sslmode=disable"
    )
    assert address_of("postgresql://postgres@/scratch?host=/run/pg") == ("/run/pg", 5432)
    for refused in ("postgresql://a,b/scratch", "postgresql://a/scratch?sslmode=verify-full"):
        with pytest.raises(ConfigurationError):
            address_of(refused)


def alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_with_a_wrong_clock_writes_its_log_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "speaks.py").write_text(
        "import logging\n"
        "logging.basicConfig(format='%(asctime)s %(message)s')\n"
        "logging.warning('hello')\n"
    )
    clock = Clock(tmp_path / "clock")
    clock.set(-7200.0)
    ran = subprocess.run(
        [sys.executable, skewed.__file__, str(clock.path), "speaks"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    clock.close()
    assert ran.stderr.endswith(" hello\n")
    assert "Logging error" not in ran.stderr
