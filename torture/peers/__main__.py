"""`python -m torture.peers`: each system alone, one after the other, through the same faults."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from torture.peers import report
from torture.peers.run import NeverFired, Outcome, counted, run
from torture.peers.systems import BY_NAME, CACHE, NotAvailable, System
from torture.peers.timeline import Fault, plan


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture.peers", description=__doc__)
    names = ",".join(BY_NAME)
    parser.add_argument("--seconds", type=int, default=300, help="for each system (default 300)")
    parser.add_argument("--seed", type=int, default=7, help="of the faults (default 7)")
    parser.add_argument("--only", default=names, help=f"of {names}")
    parser.add_argument("--record", action="store_true", help="append to torture/peers/RESULTS.md")
    parser.add_argument("--again", action="store_true", help="only count the last run again")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in BY_NAME]
    if unknown:
        parser.error(f"unknown system {unknown[0]!r}: choose from {names}")
    return arguments


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def folder(system: System) -> Path:
    return CACHE / "runs" / system.name


async def all_of(systems: list[System], faults: tuple[Fault, ...], seconds: int) -> list[Outcome]:
    outcomes = []
    for system in systems:
        say(f"{system.name}: {system.settings}")
        try:
            outcome = await run(system, faults, seconds, folder(system))
        except (NotAvailable, NeverFired) as reason:
            say(f"{system.name}: cannot take part here: {reason}")
            continue
        outcomes.append(outcome)
    return outcomes


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    faults = plan(arguments.seed, arguments.seconds)
    for fault in faults:
        say(f"at {fault.at:6.1f} s  {fault.kind:10} {fault.target} for {fault.for_s:g} s")
    systems = [BY_NAME[name] for name in arguments.only.split(",")]
    try:
        if arguments.again:
            outcomes = [counted(system, folder(system)) for system in systems]
        else:
            outcomes = asyncio.run(all_of(systems, faults, arguments.seconds))
    except KeyboardInterrupt:
        say("stopped; nothing was left behind")
        return 130
    text = report.whole(outcomes, faults, arguments.seed, arguments.seconds)
    say(f"\n{text}")
    if arguments.record:
        report.record(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
