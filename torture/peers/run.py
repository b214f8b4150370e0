"""One system from an empty PostgreSQL through all faults to its counted fires."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torture.peers import effects
from torture.peers.count import PROMPT, Fire, Happened, fires
from torture.peers.crew import ROOT, Crew
from torture.peers.postgres import Postgres
from torture.peers.systems import System, python, version
from torture.peers.timeline import Fault
from torture.peers.workload import schedules

STEP = 10  # a run begins at a whole multiple of so many seconds, so that all meet the same fires
FIRST = 120.0  # seconds within which it must be steady
STEADY = 30  # so many prompt runs in a row
# After the last counted fire: longer than any system waits before it takes over from the dead.
TAIL = 75.0


class NeverSteady(Exception):
    """The system came up but never ran promptly; the message is its last words."""


@dataclass(frozen=True)
class Outcome:
    """What became of one system."""

    system: System
    version: str
    fires: list[Fire]
    stray: int  # runs at instants when nothing was due
    faults: list[Happened]
    end: int
    gave_up: int  # processes that ended by themselves


async def run(
    system: System, planned: Sequence[Fault], seconds: int, folder: Path, tail: float = TAIL
) -> Outcome:
    """Setup, some calm, every fault in its turn, and time to catch up."""
    interpreter = python(system)
    shutil.rmtree(folder, ignore_errors=True)
    log = folder / "effects"
    log.mkdir(parents=True)
    command = [interpreter, "-m", "torture.peers.adapters", system.adapter]
    async with Postgres() as server:
        environment = {
            **os.environ,
            **system.environment,
            "PEERS_URL": server.url,
            "PEERS_EFFECTS": str(log),
            "PEERS_GROUPS": ",".join(system.groups),
        }
        _set_up([*command, "setup"], environment)
        async with Crew([*command, "run"], environment, system.processes, folder) as crew:
            await _steady(log, folder)
            begin = (int(time.time()) // STEP + 1) * STEP
            end = begin + seconds
            happened = []
            for fault in planned:
                await _until(begin + fault.at)
                happened.append(await _strike(fault, server, crew))
            await _until(end + tail)
    found, stray = fires(schedules(system.groups), effects.read(log), begin, end)
    return Outcome(system, version(system, interpreter), found, stray, happened, end, crew.gave_up)


def _set_up(command: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise NeverSteady(f"its setup failed: {done.stderr.strip()[-1000:]}")


async def _steady(log: Path, folder: Path) -> None:
    """Wait until what it runs is prompt: before that it only catches up with its own start."""
    deadline = time.monotonic() + FIRST
    while time.monotonic() < deadline:
        newest = sorted(effects.read(log), key=lambda run: run.began_at)[-STEADY:]
        lags = [run.began_at - (run.fire_at or run.taken_at or run.began_at) for run in newest]
        if len(lags) == STEADY and max(lags) < PROMPT:
            return
        await asyncio.sleep(0.5)
    raise NeverSteady(_last_words(folder) or "it never became prompt")


def _last_words(folder: Path) -> str:
    return "\n".join(path.read_text()[-500:] for path in sorted(folder.glob("*.log")))


async def _until(instant: float) -> None:
    await asyncio.sleep(max(0.0, instant - time.time()))


async def _strike(fault: Fault, server: Postgres, crew: Crew) -> Happened:
    """Do it, and wait until it is over."""
    began_at = time.time()
    member = crew.members[fault.target % len(crew.members)]
    if fault.kind == "kill":
        member.kill()
        return Happened(fault.kind, began_at, began_at)
    if fault.kind == "stop":
        await member.freeze(fault.for_s)
        return Happened(fault.kind, began_at, began_at)
    await server.down(fault.kind)
    await asyncio.sleep(fault.for_s)
    await server.start()
    return Happened(fault.kind, began_at, time.time())
