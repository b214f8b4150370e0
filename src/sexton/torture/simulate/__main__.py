"""One seed told again, a hundred thousand of them, or the teeth."""

import argparse
import sys
import time
from collections.abc import Sequence

from sexton.torture.simulate.crowd import BOTH, crowd, to_json, together
from sexton.torture.simulate.play import (
    COMMAND,
    NO_MUTANT,
    Failure,
    play,
    shrink,
    stage,
    sweep,
)
from sexton.torture.simulate.teeth import MUTANTS, SEEDS, bites
from sexton.torture.simulate.world import Mode

_MOST_FAILURES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with stage():
        if options.teeth:
            return _bite(options.seeds or SEEDS)
        if options.seed is not None:
            return _tell(options)
        return _play(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--trace", action="store_true", help="tell its whole story")
    parser.add_argument("--without", default="", help="blows to leave out: 0,3; traps are -1,-2")
    parser.add_argument(
        "--mutant", choices=[each.name for each in MUTANTS], help="with this mutant"
    )
    parser.add_argument("--seeds", type=int, help="play so many")
    parser.add_argument("--first", type=int, default=0, help="from this one on")
    parser.add_argument("--mode", choices=["safety", "liveness", "both"], default="both")
    parser.add_argument("--jobs", type=int, default=1, help="on so many cores")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--teeth", action="store_true", help="let every mutant be caught")
    return parser


def _modes(said: str) -> tuple[Mode, ...]:
    return tuple(mode for mode in BOTH if said in (mode, "both"))


# ── one ─────────────────────────────────────────────────────────────────────


def _tell(options: argparse.Namespace) -> int:
    cast = next((each.cast for each in MUTANTS if each.name == options.mutant), NO_MUTANT)
    without = [int(n) for n in options.without.split(",") if n]
    failed = False
    for mode in _modes(options.mode):
        told: list[str] | None = [] if options.trace else None
        played = play(options.seed, mode, cast, without, told)
        for line in told or ():
            _say(line)
        failed |= isinstance(played, Failure)
        if isinstance(played, Failure):
            _say(f"seed {options.seed}, {mode}: {played.what}")
        else:
            well = "" if played.well_after is None else f", well after {played.well_after:g} s"
            _say(f"seed {options.seed}, {mode}: {played.steps} steps{well}; nothing was violated")
    return int(failed)


# ── many ────────────────────────────────────────────────────────────────────


def _play(options: argparse.Namespace) -> int:
    many, modes = options.seeds or 1000, _modes(options.mode)
    began = time.perf_counter()
    if options.jobs == 1:
        tally = sweep(options.first, many, modes, most=_MOST_FAILURES)
    else:
        tally = together(crowd(options.first, many, modes, options.jobs))
    if options.json:
        _say(to_json(tally))
        return int(bool(tally.failures))
    seconds = time.perf_counter() - began
    _say(f"{tally.seeds:,} seeds ({', '.join(modes)}), {tally.steps:,} steps in {seconds:.1f} s")
    _say("looked at: " + _counts(tally.seen))
    _say("faults: " + _counts(tally.hits))
    if "liveness" in modes:
        _say(f"slowest recovery: {tally.slowest:g} simulated seconds")
    _say(f"{len(tally.failures)} violations")
    for failure in tally.failures[:_MOST_FAILURES]:
        _explain(failure)
    return int(bool(tally.failures))


def _counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {many:,}" for name, many in sorted(counted.items()))


def _explain(failure: Failure) -> None:
    """With as few blows as it takes, and how to see it again."""
    smallest = shrink(failure)
    told: list[str] = []
    play(smallest.seed, smallest.mode, NO_MUTANT, smallest.without, told)
    for line in told:
        _say(line)
    _say(f"again: {smallest.command}")


# ── teeth ───────────────────────────────────────────────────────────────────


def _bite(seeds: int) -> int:
    missed = 0
    for each in bites(seeds):
        missed += each.failure is None
        how = "NOT CAUGHT" if each.failure is None else each.failure.invariant
        _say(f"{each.mutant.name:<22} {each.seeds:>5} seeds {each.seconds:>6.2f} s  {how}")
    _say(f"{len(MUTANTS) - missed} of {len(MUTANTS)} mutants caught within {seeds:,} seeds each")
    return int(missed > 0)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
