"""`python -m bench`: round robin over the contenders, scenario by scenario, then the tables."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import signal
import sys
from contextlib import nullcontext

from bench import peers, report
from bench.arena import Arena
from bench.contenders import BY_NAME, CONTENDERS, Contender
from bench.driver import ContenderFailed, Process
from bench.results import Results
from bench.scenarios import SCENARIOS, Scenario, Sizes
from bench.scenarios.base import QUICK
from bench.server import Server, ServerFailed


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Sexton, its peers and a hand-written floor, in one run.",
    )
    names, scenarios = ",".join(BY_NAME), ",".join(SCENARIOS)
    parser.add_argument("--only", default=names, help=f"contenders, of {names}")
    parser.add_argument("--scenarios", default=scenarios, help=f"of {scenarios}")
    parser.add_argument("--quick", action="store_true", help="small sizes and 1 round: for a look")
    parser.add_argument("--rounds", type=int, help="rounds of each scenario (default 5, quick 1)")
    parser.add_argument("--seconds", type=float, help="how long `held` holds (300, quick 60)")
    parser.add_argument(
        "--huge", action="store_true", help="`scale` also with 10 million schedules (10 minutes)"
    )
    parser.add_argument("--record", action="store_true", help="append to bench/RESULTS.md")
    return parser.parse_args()


def chosen(given: str, known: dict[str, object], what: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            sys.exit(f"unknown {what} {name!r}: choose from {', '.join(known)}")
    return names


async def gathered(
    arena: Arena, names: list[str], scenarios: list[str], results: Results
) -> list[Contender]:
    """The contenders that can take part here; the others are noted with the reason."""
    ready: list[Contender] = []
    for contender in CONTENDERS:
        wanted = any(SCENARIOS[scenario].takes(contender) for scenario in scenarios)
        if contender.name not in names or not wanted:
            continue
        try:
            peers.ensure(contender)
            await arena.prepare(contender)
        except (peers.NotAvailable, ContenderFailed) as reason:
            results.notes.append(f"{contender.name}: not available here: {reason}")
            print(results.notes[-1], flush=True)
            continue
        results.versions[contender.name] = peers.version(contender)
        ready.append(contender)
        print(f"{contender.name} {results.versions[contender.name]}: {contender.settings}")
    return ready


async def one(
    arena: Arena, scenario: Scenario, contender: Contender, sizes: Sizes
) -> dict[str, float] | str:
    """Its figures, or why there are none: one contender's trouble must not end the run."""
    try:
        return await scenario.run(arena, contender, sizes)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def measured(
    arena: Arena, scenario: Scenario, ready: list[Contender], sizes: Sizes, rounds: int
) -> Results:
    results = Results()
    taking = [contender for contender in ready if scenario.takes(contender)]
    for number in range(1 if scenario.once else min(rounds, scenario.rounds)):
        for contender in taking:
            if contender.once and number > 0:
                continue
            told = await one(arena, scenario, contender, sizes)
            if isinstance(told, str):
                results.notes.append(f"{contender.name}: {scenario.name} failed: {told}")
                print(results.notes[-1], flush=True)
                continue
            results.add(contender.name, number, told)
            figures = "  ".join(
                f"{column.title}: {told[column.key]:{column.form}}"
                for column in scenario.columns
                if column.key in told
            )
            print(
                f"{scenario.name:8} round {number + 1}  {contender.name:14} {figures}", flush=True
            )
    return results


async def whole_run(arguments: argparse.Namespace, url: str, server: Server | None) -> str:
    names = chosen(arguments.only, dict(BY_NAME), "contender")
    scenarios = chosen(arguments.scenarios, dict(SCENARIOS), "scenario")
    sizes = QUICK if arguments.quick else Sizes()
    if arguments.seconds:
        sizes = dataclasses.replace(sizes, held_seconds=arguments.seconds)
    if arguments.huge:
        sizes = dataclasses.replace(sizes, populations=(*sizes.populations, 10_000_000))
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    results = Results()
    try:
        async with Arena.opened(url, server) as arena:
            ready = await gathered(arena, names, scenarios, results)
            for name in scenarios:
                part = await measured(arena, SCENARIOS[name], ready, sizes, rounds)
                results.figures.update(part.figures)
                results.notes += part.notes
            about = report.circumstances(results, await arena.version(), rounds, arguments.quick)
    finally:
        await Process.end_all()
    return report.whole(results, scenarios, [contender.name for contender in ready], about)


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = os.environ.get("BENCH_DATABASE_URL")
    try:
        with nullcontext() if given else Server() as server:
            url = given or (server.url if server else "")
            text = asyncio.run(whole_run(arguments, url, server))
    except ServerFailed as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing was left behind", file=sys.stderr)
        return 130
    print(f"\n{text}")
    if arguments.record:
        report.record(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
