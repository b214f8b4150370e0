"""`python -m torture.teeth`: the engine with one thing undone at a time, until the rig notices."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from torture.teeth import report
from torture.teeth.mutants import ALL, BY_NAME
from torture.teeth.trials import Outcome, Trials


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture.teeth", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="may repeat")
    parser.add_argument("--list", action="store_true", help="name them, and do nothing")
    parser.add_argument("--no-control", action="store_true", help="believe that it would pass")
    parser.add_argument("--record", action="store_true", help="write torture/teeth/RESULTS.md")
    given = parser.parse_args()
    for name in given.only or ():
        if name not in BY_NAME:
            parser.error(f"there is no mutant {name!r}: see --list")
    return given


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def main() -> int:
    given = parsed()
    if given.list:
        sys.stdout.writelines(f"{each.name}: {each.does}\n" for each in ALL)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen = [BY_NAME[name] for name in given.only] if given.only else ALL
    trials = Trials(say, control=not given.no_control)
    outcomes: list[Outcome] = []
    told = 0  # of the controls
    try:
        for mutant in chosen:
            outcomes.append(trials.hold(mutant))
            say(outcomes[-1].line)
            if given.record:
                controls = [*trials.controls.values()]
                report.record(outcomes[-1:], controls[told:], [*BY_NAME])
                told = len(controls)
    except KeyboardInterrupt:
        say("stopped; nothing was left behind")
        return 130
    say(f"{report.summary(outcomes)}\n\n{report.table(outcomes)}")
    return 0 if all(each.by is not None for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
