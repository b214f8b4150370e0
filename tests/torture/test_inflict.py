"""Faults that meet at one process do not undo each other, and never end the run."""

import asyncio
import json
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from sexton.torture import report
from sexton.torture.faults import inflict
from sexton.torture.faults.inflict import Inflictor
from sexton.torture.faults.log import FILE, FaultLog
from sexton.torture.faults.plan import Planned
from sexton.torture.stand import tree
from sexton.torture.stand.clocks import apart
from sexton.torture.stand.ports import free_port
from sexton.torture.stand.processes import Role
from sexton.torture.stand.way import address_of, through

from ..support.processes import until
from .test_stand import stand_on, teller

ONE = "someone"
Meanwhile = Callable[[Inflictor, Path], Awaitable[None]]
# Of the second SIGTERM it dies.
_PARTING = """
import signal, time

def leave(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

signal.signal(signal.SIGTERM, leave)
while True:
    time.sleep(600)
"""
# Answers HTTP as soon as there is a file.
_TARDY = """
import http.server, pathlib, sys, time
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)

class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def ended(folder: Path) -> dict[int, dict[str, Any]]:
    return {each["n"]: each["detail"] for each in lines(folder) if each["event"] == "end"}


async def test_two_cuts_at_a_message_of_one_process_are_both_done(
    tmp_path: Path, database_url: str
) -> None:
    """The first one's silence outlasts its share of the plan: it must not take back the second."""
    silent = {"how": "blackhole", "k": 1, "side": "up"}
    cut = {"how": "reset", "k": 1, "side": "up"}
    async with stand_on(database_url, tmp_path) as stand:
        port = await stand.proxies.open(ONE, address_of(database_url))
        url = through(database_url, port)
        log = FaultLog(tmp_path)
        first, second = await asyncpg.connect(url), await asyncpg.connect(url)
        plan = [
            Planned(1, 0.0, "message", ONE, 3.0, silent),
            Planned(2, 2.0, "message", ONE, 60.0, cut),
        ]
        inflicting = asyncio.create_task(
            Inflictor(stand, log, schema="sexton", grace=1.0).run(plan, time.monotonic())
        )
        await until(lambda: any(each["event"] == "begin" for each in lines(tmp_path)), 30)
        asking = asyncio.create_task(first.fetchval("select 1"))
        await until(lambda: 1 in ended(tmp_path), 30)
        assert not inflicting.done()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await second.fetchval("select 2")
        await asyncio.wait_for(inflicting, 30)
        assert ended(tmp_path) == {1: {}, 2: {}}
        first.terminate()
        await asyncio.gather(asking, return_exceptions=True)
        log.close()


async def test_a_short_stop_does_not_end_a_long_one(tmp_path: Path, database_url: str) -> None:
    async with stand_on(database_url, tmp_path) as stand:
        [process] = await stand.add(teller(tmp_path))
        await stand.start()
        log = FaultLog(tmp_path)
        plan = [Planned(1, 0.0, "stop", "teller", 4.0), Planned(2, 0.2, "stop", "teller", 0.2)]
        inflicting = asyncio.create_task(
            Inflictor(stand, log, schema="sexton", grace=1.0).run(plan, time.monotonic())
        )
        await until(lambda: 2 in ended(tmp_path), 30)
        pid = process.pid
        assert pid is not None
        assert tree.is_stopped(pid) or 1 in ended(tmp_path)
        await inflicting
        assert not tree.is_stopped(pid)
        log.close()


async def test_a_run_that_is_called_off_starts_nobody_again(
    tmp_path: Path, database_url: str
) -> None:
    async with stand_on(database_url, tmp_path) as stand:
        [process] = await stand.add(teller(tmp_path))
        await stand.start()
        log = FaultLog(tmp_path)
        plan = [Planned(1, 0.0, "kill", "teller", 600.0)]
        inflicting = asyncio.create_task(
            Inflictor(stand, log, schema="sexton", grace=1.0).run(plan, time.monotonic())
        )
        await until(lambda: not process.alive, 30)
        inflicting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await inflicting
        assert not process.alive
        log.close()


async def _rolled(
    tmp_path: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    *more: Planned,
    end_within: float = 0.5,
) -> Any:
    """What was noted of a node that does not hear a SIGTERM."""
    monkeypatch.setattr(inflict, "END_WITHIN", end_within)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    (tmp_path / "deaf.py").write_text(deaf)
    async with stand_on(url, tmp_path) as stand:
        env = {"PYTHONPATH": str(tmp_path)}
        [process] = await stand.add(Role("node-1", "node", "deaf", env=env, proxied=False))
        await stand.start()
        pid = process.pid or 0
        await until(lambda: _ignores(pid, signal.SIGTERM), 30)
        log = FaultLog(tmp_path)
        plan = [*more, Planned(9, 0.3, "rolling", "nodes")]
        await Inflictor(stand, log, schema="sexton", grace=0.5).run(plan, time.monotonic())
        log.close()
        await process.kill9()  # nor does it hear the SIGTERM at the end
    return [each["what"] for each in lines(tmp_path) if each["event"] == "note"]


async def _after_an_outage(folder: Path, url: str, meanwhile: Meanwhile) -> list[dict[str, Any]]:
    """What was written down of a node that was away, and is ready only if it may be."""
    (folder / "tardy.py").write_text(_TARDY)
    may_be = folder / "may_be_ready"
    may_be.touch()
    async with stand_on(url, folder) as stand:
        env, port = {"PYTHONPATH": str(folder)}, free_port()
        role = Role("node-1", "node", "tardy", (str(port), str(may_be)), env, port, "/", False)
        [process] = await stand.add(role)
        await stand.start()
        before = process.pid
        may_be.unlink()
        log = FaultLog(folder)
        inflictor = Inflictor(stand, log, schema="sexton", grace=0.5)
        outage = [Planned(1, 0.0, "outage", "nodes", 0.1)]
        inflicting = asyncio.create_task(inflictor.run(outage, time.monotonic()))
        await until(lambda: process.pid not in (None, before), 30)
        assert 1 not in ended(folder)
        await meanwhile(inflictor, may_be)
        await asyncio.wait_for(inflicting, 60)
        log.close()
    return lines(folder)


async def test_an_outage_is_over_when_those_who_were_away_are_ready_again(
    tmp_path: Path, database_url: str
) -> None:
    async def allow(_: Inflictor, may_be: Path) -> None:
        may_be.touch()

    *_, back, end = await _after_an_outage(tmp_path, database_url, allow)
    assert (back["what"], back["target"]) == ("came back", "node-1")
    assert (end["event"], end["n"]) == ("end", 1)


async def test_who_does_not_come_back_after_an_outage_is_told(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflict, "BACK_WITHIN", 0.3)

    async def forbid(_: Inflictor, may_be: Path) -> None:
        assert not may_be.exists()

    noted = await _after_an_outage(tmp_path, database_url, forbid)
    assert ("did not come back", "node-1") in [(e.get("what"), e["target"]) for e in noted]


async def test_who_does_not_come_back_is_told_however_often_the_host_is_in_trouble(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflict, "BACK_WITHIN", 1.0)
    often = [Planned(n, 0.4 * n, "hog", "host", 0.2, {"processes": 0}) for n in range(2, 40)]

    async def hog(inflictor: Inflictor, _: Path) -> None:
        hogging = asyncio.create_task(inflictor.run(often, time.monotonic()))
        await until(lambda: 1 in ended(tmp_path), 30)
        hogging.cancel()
        await asyncio.gather(hogging, return_exceptions=True)
        assert 39 not in ended(tmp_path)

    noted = await _after_an_outage(tmp_path, database_url, hog)
    assert "did not come back" in [each.get("what") for each in noted]


async def test_an_outage_is_not_prolonged_by_who_is_killed_again(
    tmp_path: Path, database_url: str
) -> None:
    async def kill(inflictor: Inflictor, _: Path) -> None:
        await inflictor.run([Planned(2, 0.0, "kill", "node-1")], time.monotonic())

    noted = await _after_an_outage(tmp_path, database_url, kill)
    assert {each["n"] for each in noted if each["event"] == "end"} == {1, 2}
    told = {each.get("what") for each in noted}
    assert told & {"came back", "hit again", "did not come back"} == {"hit again"}


def _ignores(pid: int, number: int) -> bool:
    return _among("SigIgn", pid, number)


def _catches(pid: int, number: int) -> bool:
    return _among("SigCgt", pid, number)


def _among(which: str, pid: int, number: int) -> bool:
    [signals] = re.findall(rf"{which}:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(signals, 16) >> (number - 1) & 1)


async def test_who_is_asked_again_while_it_leaves_has_not_fallen(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deploys meet at a node that listens to nobody any more: seed 146."""
    monkeypatch.setattr(report, "STARTS_WITHIN", 0.0)
    (tmp_path / "parting.py").write_text(_PARTING)
    async with stand_on(database_url, tmp_path) as stand:
        env = {"PYTHONPATH": str(tmp_path)}
        [process] = await stand.add(Role("node-1", "node", "parting", env=env, proxied=False))
        await stand.start()
        pid = process.pid or 0
        await until(lambda: _catches(pid, signal.SIGTERM), 30)
        log = FaultLog(tmp_path)
        inflictor = Inflictor(stand, log, schema="sexton", grace=60.0)
        first = asyncio.create_task(
            inflictor.run([Planned(1, 0.0, "rolling", "nodes")], time.monotonic())
        )
        await until(lambda: not _catches(pid, signal.SIGTERM), 30)
        await inflictor.run([Planned(2, 0.0, "rolling", "nodes")], time.monotonic())
        await first
        log.close()
    ends = [each["detail"] for each in lines(tmp_path) if each.get("what") == "ended"]
    assert [(each["code"], each["asked"]) for each in ends] == [(-signal.SIGTERM, 2)] * 2
    assert report.events(tmp_path)["fell"] == []


async def test_who_does_not_end_in_a_rolling_deploy_is_told(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "did not end" in await _rolled(tmp_path, database_url, monkeypatch)
    assert "StandError" in ended(tmp_path)[9]["failed"]


async def test_who_was_stopped_meanwhile_is_not_blamed_for_not_ending(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Planned(1, 0.6, "stop", "node-1", 4.0)
    noted = await _rolled(tmp_path, database_url, monkeypatch, stopped, end_within=3.0)
    assert "did not end" not in noted


async def test_who_was_woken_by_the_deploy_itself_is_blamed_for_not_ending(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Planned(1, 0.0, "stop", "node-1", 2.0)
    assert "did not end" in await _rolled(tmp_path, database_url, monkeypatch, stopped)


async def test_who_has_ended_already_is_not_asked_to(tmp_path: Path, database_url: str) -> None:
    async with stand_on(database_url, tmp_path) as stand:
        [process] = await stand.add(teller(tmp_path))
        await stand.start()
        first, second = await process.term(30.0), await process.term(30.0)
    assert (first.asked, second.asked) == (1, 0)


async def test_how_far_two_clocks_are_apart_is_known_to_within_an_answer(
    database_url: str,
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        measured = await apart(connection)
    finally:
        await connection.close()
    assert abs(measured["offset_us"]) <= measured["round_trip_us"], "it is the same host"
