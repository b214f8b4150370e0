"""`python -m sexton.torture.crash`: every message of every step cut in every way.

Exit code 1: a point failed, a message that its step always has was not reached, one that it mostly
has was reached in no way, or none of a step passed.
"""

import argparse
import asyncio
import json
import sys
import time

from sexton.torture.crash.point import WAYS
from sexton.torture.crash.steps import STEPS
from sexton.torture.crash.sweep import LANES, Choice, as_json, report, sweep


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m sexton.torture.crash", description=__doc__)
    parser.add_argument(
        "--step", action="append", choices=list(STEPS), help="only this; may repeat"
    )
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this; may repeat")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="each K-th message only")
    parser.add_argument("--seed", type=int, default=0, help="where --every begins")
    parser.add_argument("--at", metavar="PLACE", help="only this message: 'claim/Bind 2/Sync'")
    parser.add_argument("--pooler", action="store_true", help="speak as to a transaction pooler")
    parser.add_argument("--lanes", type=int, default=LANES, help="points tried at once")
    parser.add_argument("--first", action="store_true", help="end at the first failure")
    parser.add_argument("--quiet", action="store_true", help="the table only")
    parser.add_argument("--json", action="store_true", help="for programs, and nothing else")
    given = parser.parse_args()
    choice = Choice(
        given.step or tuple(STEPS),
        given.way or tuple(WAYS),
        given.every,
        given.seed,
        given.at,
        given.pooler,
    )
    began = time.monotonic()
    tell = _nothing if given.quiet or given.json else _say
    found = asyncio.run(sweep(choice, lanes=given.lanes, tell=tell, first=given.first))
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
