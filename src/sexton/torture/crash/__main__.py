"""`python -m sexton.torture.crash`: every message of every step cut in every way.

Exit code 1: a point failed, a message that its step always has was not reached, one that it mostly
has was reached in no way, or none of a step passed.
"""

import argparse
import asyncio
import json
import signal
import sys
import time

from sexton.torture.crash.point import WAYS
from sexton.torture.crash.steps import STEPS
from sexton.torture.crash.sweep import LANES, Choice, as_json, places, report, sweep


def main() -> int:
    given = _parsed()
    choice = Choice(
        given.step or tuple(STEPS),
        given.way or tuple(WAYS),
        given.every,
        given.seed,
        given.at,
        given.pooler,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _list(choice) if given.list else _sweep(choice, given)
    except KeyboardInterrupt:
        sys.stderr.write("stopped; nothing was left behind\n")
        return 130


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sexton.torture.crash", description=__doc__)
    parser.add_argument(
        "--step", action="append", choices=list(STEPS), help="only this; may repeat"
    )
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this; may repeat")
    parser.add_argument("--every", type=_count, default=1, metavar="K", help="each K-th message")
    parser.add_argument("--seed", type=int, default=0, help="where --every begins")
    parser.add_argument("--at", metavar="PLACE", help="only this message: 'claim/Bind 2/Sync'")
    parser.add_argument("--list", action="store_true", help="the places of each step, and no more")
    parser.add_argument("--pooler", action="store_true", help="speak as to a transaction pooler")
    parser.add_argument("--lanes", type=_count, default=LANES, help="points tried at once")
    parser.add_argument("--first", action="store_true", help="end at the first failure")
    parser.add_argument("--quiet", action="store_true", help="the table only")
    parser.add_argument("--json", action="store_true", help="for programs, and nothing else")
    return parser.parse_args()


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _list(choice: Choice) -> int:
    for step, found in asyncio.run(places(choice)).items():
        _say(f"{step}:")
        for place in found:
            _say(f"  {place}")
    return 0


def _sweep(choice: Choice, given: argparse.Namespace) -> int:
    began = time.monotonic()
    tell = _nothing if given.quiet or given.json else _say
    found = asyncio.run(sweep(choice, lanes=given.lanes, tell=tell, first=given.first))
    if choice.at is not None and found.unknown(choice.at):
        sys.stderr.write(f"no message at {choice.at!r} was seen: see --list\n")
        return 2
    if given.json:
        _say(json.dumps(as_json(found)))
        return 0 if found.well else 1
    for verdict in found.failed:
        _say(report(verdict, brief=not given.quiet))
    _say(f"{found.table()}\n{time.monotonic() - began:.0f} s")
    return 0 if found.well else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _nothing(_: str) -> None: ...


if __name__ == "__main__":
    sys.exit(main())
