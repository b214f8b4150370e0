"""What came of a run: the judgement, the faults, and who fell without being pushed."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from sexton.torture.faults.log import FILE

# How a process may end by itself: killed by a task of its own; and refused by an absent server
# while it was starting, for its supervisor to try again.
_KILLED, _UNAVAILABLE = -9, 3
# What no process of the cluster may do, whatever befalls it.
FINDINGS = ("fell", "did_not_end", "did_not_come_back")


class NoVerdict(Exception):
    """The checker failed, which says nothing about what it was to check."""


async def judge(folder: Path) -> dict[str, Any]:
    """The checker's verdict, from a process that has none of the engine; and what happened."""
    verdict = json.loads(await _check(folder))
    verdict["events"] = events(folder)
    (folder / "report.json").write_text(json.dumps(verdict, indent=2) + "\n")
    return dict(verdict)


async def _check(folder: Path) -> bytes:
    checking = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sexton.torture.check", str(folder), "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await checking.communicate()
    if checking.returncode not in (0, 1):
        raise NoVerdict(f"the checker ended with {checking.returncode}; {folder} is kept")
    return said


def events(folder: Path) -> dict[str, Any]:
    """How many faults of each kind, those that could not be done, and who fell."""
    kinds: Counter[str] = Counter()
    failed: list[dict[str, Any]] = []
    found: dict[str, list[dict[str, Any]]] = {each: [] for each in FINDINGS}
    for line in (folder / FILE).read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "begin":
            kinds[event["fault"]] += 1
        elif event["event"] == "end" and "failed" in event["detail"]:
            failed.append({"n": event["n"], "fault": event["fault"], **event["detail"]})
        elif event.get("what") == "fell" and event["detail"]["code"] not in (_KILLED, _UNAVAILABLE):
            found["fell"].append(_told(event))
        elif event.get("what") in ("did not end", "did not come back"):
            found[event["what"].replace(" ", "_")].append(_told(event))
    return {
        "faults": sum(kinds.values()),
        "by_kind": dict(kinds.most_common()),
        "failed": failed,
        **found,
    }


def _told(event: dict[str, Any]) -> dict[str, Any]:
    return {"at": event["at"], "who": event["target"], **event["detail"]}
