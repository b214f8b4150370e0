"""`python -m torture.peers`: each system alone, one after the other, through the same faults."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from torture.peers import keep, report
from torture.peers.counts import CannotPool, Counts, fit
from torture.peers.run import NeverFired, run
from torture.peers.systems import BY_NAME, NotAvailable, System
from torture.peers.timeline import plan


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture.peers", description=__doc__)
    names = ",".join(BY_NAME)
    parser.add_argument("--seconds", type=int, default=300, help="for each system (default 300)")
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=_seeds, dest="seeds", help="of the faults (default 7)")
    seeds.add_argument("--seeds", type=_seeds, help="several, counted together: 7,8,9")
    parser.set_defaults(seeds=[7])
    parser.add_argument("--only", default=names, help=f"of {names}")
    parser.add_argument(
        "--record", action="store_true", help="keep in torture/peers: results/ and RESULTS.md"
    )
    parser.add_argument(
        "--again", action="store_true", help="run nothing: count again what was kept of these seeds"
    )
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.only.split(",") if name not in BY_NAME]
    if unknown:
        parser.error(f"unknown system {unknown[0]!r}: choose from {names}")
    return arguments


def _seeds(text: str) -> list[int]:
    """One seed counted twice would look like twice the evidence."""
    return [*dict.fromkeys(int(seed) for seed in text.split(","))]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def through(systems: Sequence[System], seed: int, seconds: int) -> list[Counts]:
    """Everybody through the faults of one seed."""
    faults = plan(seed, seconds)
    say(f"seed {seed}")
    for fault in faults:
        say(f"at {fault.at:6.1f} s  {fault.kind:10} {fault.target} for {fault.for_s:g} s")
    found = []
    for system in systems:
        say(f"{system.name}: {system.settings}")
        folder = keep.folder(system, seed, seconds)
        try:
            found.append(Counts.of(await run(system, faults, seed, seconds, folder)))
        except (NotAvailable, NeverFired) as reason:
            say(f"{system.name}: cannot take part here: {reason}")
    return found


def again(systems: Sequence[System], seed: int, seconds: int) -> list[Counts]:
    found = []
    for system in systems:
        try:
            found.append(keep.again(system, seed, seconds))
        except keep.NotKept as reason:
            say(f"{system.name}: {reason}")
    return found


def main(words: Sequence[str] | None = None) -> int:
    arguments = parsed(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    systems = [BY_NAME[name] for name in arguments.only.split(",")]
    found: list[Counts] = []
    done: list[str] = []
    for seed in arguments.seeds:
        try:
            if arguments.again:
                of_seed = again(systems, seed, arguments.seconds)
            else:
                of_seed = asyncio.run(through(systems, seed, arguments.seconds))
        except KeyboardInterrupt:
            kept = f"; --again --seeds {','.join(done)} counts what is done" if done else ""
            say(f"stopped; nothing was left running{kept}")
            return 130
        if arguments.record:
            for counts in of_seed:
                keep.record(counts)
        found += of_seed
        done.append(str(seed))
    return told(found, recording=arguments.record)


def told(found: Sequence[Counts], *, recording: bool) -> int:
    """Everything that was found, added up; or why it cannot be."""
    if not found:
        say("nothing was counted")
        return 1
    try:
        text = report.whole(fit(found))
    except CannotPool as reason:
        say(f"cannot be added up: {reason}")
        return 1
    say(f"\n{text}")
    if recording:
        report.record(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
