"""One system from an empty PostgreSQL through all faults to its counted fires."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.report import commit

from sexton.targets.process import cpus
from torture.peers import effects
from torture.peers.count import PROMPT, Fire, Happened, fires
from torture.peers.crew import ROOT, Crew
from torture.peers.postgres import Postgres
from torture.peers.systems import System, python, version
from torture.peers.timeline import Fault
from torture.peers.workload import described, schedules

STEP = 10  # a run begins at a whole multiple of so many seconds, so that all meet the same fires
FIRST = 120.0  # seconds within which it must be steady
STEADY = 30  # so many prompt runs in a row
# After the last counted fire: longer than any system waits before it takes over from the dead.
TAIL = 75.0

ABOUT, FAULTS = "run.json", "faults.json"


class NeverFired(Exception):
    """The system came up but ran nothing; the message is its last words."""


@dataclass(frozen=True)
class About:
    """Under which conditions a system was run, and how it and the machine bore it."""

    system: str
    settings: str
    version: str
    seed: int
    seconds: int
    workload: str
    commit: str
    machine: str
    begin: int
    gave_up: int  # processes that ended by themselves
    steady: bool  # it had caught up with its own start before the first fault
    load: list[float]  # the least and the most, of the whole machine, meanwhile

    @property
    def end(self) -> int:
        return self.begin + self.seconds


@dataclass(frozen=True)
class Outcome:
    """What became of one system."""

    about: About
    faults: list[Happened]
    fires: list[Fire]
    stray: int  # runs at instants when nothing was due


async def run(
    system: System,
    planned: Sequence[Fault],
    seed: int,
    seconds: int,
    folder: Path,
    tail: float = TAIL,
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
            steady = await _steady(log, folder)
            begin = (int(time.time()) // STEP + 1) * STEP
            happened, loads = [], []
            for fault in planned:
                await _until(begin + fault.at)
                loads.append(os.getloadavg()[0])
                happened.append(asdict(await _strike(fault, server, crew)))
            await _until(begin + seconds + tail)
            loads.append(os.getloadavg()[0])
    about = About(
        system=system.name,
        settings=system.settings,
        version=version(system, interpreter),
        seed=seed,
        seconds=seconds,
        workload=described(),
        commit=commit(),
        machine=f"{cpus()} cores ({platform.machine()}), PostgreSQL 18,"
        f" Python {platform.python_version()}",
        begin=begin,
        gave_up=crew.gave_up,
        steady=steady,
        load=[round(min(loads), 1), round(max(loads), 1)],
    )
    (folder / FAULTS).write_text(json.dumps(happened, indent=1))
    (folder / ABOUT).write_text(json.dumps(asdict(about), indent=1))
    return counted(system, folder)


def counted(system: System, folder: Path) -> Outcome:
    """What a run left in its folder, counted; also later, with second thoughts."""
    about = About(**json.loads((folder / ABOUT).read_text()))
    happened = [Happened(**fault) for fault in json.loads((folder / FAULTS).read_text())]
    runs = effects.read(folder / "effects")
    found, stray = fires(schedules(system.groups), runs, about.begin, about.end)
    return Outcome(about, happened, found, stray)


def _set_up(command: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise NeverFired(f"its setup failed: {done.stderr.strip()[-1000:]}")


async def _steady(log: Path, folder: Path) -> bool:
    """Wait until what it runs is prompt: before that it only catches up with its own start."""
    deadline = time.monotonic() + FIRST
    newest: list[effects.Run] = []
    while time.monotonic() < deadline:
        newest = sorted(effects.read(log), key=lambda run: run.began_at)[-STEADY:]
        lags = [run.began_at - (run.fire_at or run.taken_at or run.began_at) for run in newest]
        if len(lags) == STEADY and max(lags) < PROMPT:
            return True
        await asyncio.sleep(0.5)
    if not newest:
        raise NeverFired(_last_words(folder))
    return False


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
