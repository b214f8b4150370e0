"""`python -m sexton.torture.check FOLDER [--json]`

Whoever reads only its exit code learns what the report says: see --help.
"""

import argparse
import json
import os
import sys
import traceback
from pathlib import Path

from sexton.torture.check.judge import Verdict, judge
from sexton.torture.check.report import as_json, as_lines

_CLEAN, _VIOLATED, _NO_VERDICT, _SIGPIPE_EXIT = 0, 1, 3, 141
_EXIT_CODES = (
    "Exit codes: 0 everything was checked and nothing is violated · 1 a promise was broken · "
    "2 wrong usage · 3 no verdict: nothing that was checked is violated, but something was not, "
    "as of a run that was cut short; or the checker failed"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sexton.torture.check",
        description="Did the promise hold in this run?",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("folder", type=Path, help="the run's folder")
    parser.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args()
    if not (given.folder / "run.json").exists():
        parser.error(f"{given.folder} is not the folder of a run: it has no run.json")
    try:
        verdict = judge(given.folder)
        text = (
            json.dumps(as_json(verdict), indent=1) if given.json else "\n".join(as_lines(verdict))
        )
        return _tell(text, verdict)
    except Exception:  # Python's own exit code would say that something is violated
        traceback.print_exc()
        return _NO_VERDICT


def _tell(text: str, verdict: Verdict) -> int:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has seen enough; flushing at exit must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _SIGPIPE_EXIT
    if verdict.violations:
        return _VIOLATED
    return _CLEAN if verdict.clean else _NO_VERDICT


if __name__ == "__main__":
    sys.exit(main())
