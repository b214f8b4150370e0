"""One seed told again, a hundred thousand of them, or the teeth."""

import argparse
import os
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
from sexton.torture.simulate.world import Cast, Mode

_MANY = 1000
_MOST_FAILURES = 3
_SIGPIPE_EXIT = 141
_CASTS = {each.name: each.cast for each in MUTANTS}
# What says something to each of them; whatever else is given would be ignored.
_OF_ONE = {"seed", "trace", "without", "mutant", "mode"}
_OF_MANY = {"seeds", "first", "mutant", "mode", "jobs", "json"}
_OF_TEETH = {"teeth", "seeds"}
_EXIT_CODES = "Exit codes: 0 fine · 1 a violation, or a mutant that was not caught · 2 wrong usage"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    with stage():
        if options.teeth:
            return _bite(options.seeds or SEEDS)
        if options.seed is not None:
            return _tell(options)
        return _play(options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__, epilog=_EXIT_CODES)
    parser.add_argument("--seed", type=int, help="play this one")
    parser.add_argument("--trace", action="store_true", help="tell its whole story")
    parser.add_argument(
        "--without", type=_blows, metavar="N,N", help="blows to leave out: 0,3; traps are -1,-2"
    )
    parser.add_argument(
        "--mutant", choices=[*_CASTS], metavar="NAME", help="with this mutant; --teeth names them"
    )
    parser.add_argument("--seeds", type=_count, help=f"play so many; without: {_MANY:,}")
    parser.add_argument("--first", type=int, help="from this one on")
    parser.add_argument("--mode", choices=["safety", "liveness", "both"], help="without: both")
    parser.add_argument("--jobs", type=_count, help="on so many cores")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--teeth", action="store_true", help="let every mutant be caught")
    options = parser.parse_args(arguments)
    if options.teeth:
        what, known = "with --teeth", _OF_TEETH
    elif options.seed is not None:
        what, known = "with --seed", _OF_ONE
    else:
        what, known = "without --seed", _OF_MANY
    said = {
        name for name, value in vars(options).items() if value is not None and value is not False
    }
    if idle := sorted(f"--{name}" for name in said - known):
        parser.error(f"what is not used {what}: {', '.join(idle)}")
    return options


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _blows(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",") if each]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 0,3") from None


def _modes(said: str | None) -> tuple[Mode, ...]:
    return tuple(mode for mode in BOTH if said in (mode, "both", None))


def _cast(mutant: str | None) -> Cast:
    return NO_MUTANT if mutant is None else _CASTS[mutant]


# ── one ─────────────────────────────────────────────────────────────────────


def _tell(options: argparse.Namespace) -> int:
    cast, without = _cast(options.mutant), options.without or ()
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
    many, modes, mutant = options.seeds or _MANY, _modes(options.mode), options.mutant
    first, jobs = options.first or 0, options.jobs or 1
    began = time.perf_counter()
    if jobs == 1:
        tally = sweep(first, many, modes, _cast(mutant), most=_MOST_FAILURES)
    else:
        tally = together(crowd(first, many, modes, jobs, mutant))
    if options.json:
        _say(to_json(tally))
        return int(bool(tally.failures))
    seconds = time.perf_counter() - began
    _say(f"{tally.seeds:,} seeds ({', '.join(modes)}), {tally.steps:,} steps in {seconds:.1f} s")
    _say("looked at: " + _each(tally.seen))
    _say("faults: " + _each(tally.hits))
    if "liveness" in modes:
        _say(f"slowest recovery: {tally.slowest:g} simulated seconds")
    _say(f"{len(tally.failures)} violations")
    for failure in tally.failures[:_MOST_FAILURES]:
        _explain(failure, mutant)
    return int(bool(tally.failures))


def _each(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {many:,}" for name, many in sorted(counted.items()))


def _explain(failure: Failure, mutant: str | None) -> None:
    """With as few blows as it takes, and how to see it again."""
    cast = _cast(mutant)
    smallest = shrink(failure, cast)
    told: list[str] = []
    play(smallest.seed, smallest.mode, cast, smallest.without, told)
    for line in told:
        _say(line)
    _say(f"again: {smallest.command}" + (f" --mutant {mutant}" if mutant else ""))


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


def _program() -> int:
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough; flushing at exit must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _SIGPIPE_EXIT
    return code


if __name__ == "__main__":
    sys.exit(_program())
