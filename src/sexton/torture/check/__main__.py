"""`python -m sexton.torture.check FOLDER [--json]`; its exit code is 1 if anything is violated."""

import argparse
import json
import sys
from pathlib import Path

from sexton.torture.check.judge import judge
from sexton.torture.check.report import as_json, as_lines


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sexton.torture.check", description="Did the promise hold in this run?"
    )
    parser.add_argument("folder", type=Path, help="the run's folder")
    parser.add_argument("--json", action="store_true", help="for programs")
    given = parser.parse_args()
    if not (given.folder / "run.json").exists():
        parser.error(f"{given.folder} is not the folder of a run: it has no run.json")
    verdict = judge(given.folder)
    if given.json:
        json.dump(as_json(verdict), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_lines(verdict))
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
