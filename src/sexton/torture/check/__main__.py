"""`python -m sexton.torture.check FOLDER [--json]`

Its exit code is 0 if everything was checked and nothing is violated, otherwise 1; and 2 if it could
not judge.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path

from sexton.torture.check.judge import judge
from sexton.torture.check.report import as_json, as_lines

_FELL = 2


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sexton.torture.check", description="Did the promise hold in this run?"
    )
    parser.add_argument("folder", type=Path, help="the run's folder")
    parser.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args()
    if not (given.folder / "run.json").exists():
        parser.error(f"{given.folder} is not the folder of a run: it has no run.json")
    try:
        return _judge(given.folder, given.json)
    except Exception:  # Python's own exit code would say that something is violated
        traceback.print_exc()
        return _FELL


def _judge(folder: Path, for_programs: bool) -> int:
    verdict = judge(folder)
    if for_programs:
        json.dump(as_json(verdict), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_lines(verdict))
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main())
