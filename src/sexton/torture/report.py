"""What came of a run: the judgement, the faults, and who fell without being pushed."""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from sexton.torture.faults.log import FILE

# A process that finds no server is refused while it starts, for its supervisor to try again. Who
# has been there for longer waits for the server to come back.
STARTS_WITHIN = 60.0
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
        start_new_session=True,  # an interrupt from the terminal is ours to pass on
    )
    try:
        said, _ = await checking.communicate()
    finally:
        if checking.returncode is None:
            checking.kill()
            await checking.wait()
    if checking.returncode not in (0, 1, 3) or not said:
        raise NoVerdict(f"the checker ended with {checking.returncode}; {folder} is kept")
    return said


def events(folder: Path) -> dict[str, Any]:
    """How many faults of each kind, those that came to nothing, and who fell."""
    kinds: Counter[str] = Counter()
    failed: list[dict[str, Any]] = []
    waiting: set[int] = set()  # for a message, at which to cut
    started: dict[str, int] = {}
    found: dict[str, list[dict[str, Any]]] = {each: [] for each in FINDINGS}
    for line in (folder / FILE).read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "begin":
            kinds[event["fault"]] += 1
            if event["fault"] == "message":
                waiting.add(event["n"])
        elif event["event"] == "end" and "failed" in event["detail"]:
            failed.append({"n": event["n"], "fault": event["fault"], **event["detail"]})
            waiting.discard(event["n"])
        elif event.get("what") == "tripped":
            waiting.discard(event["detail"]["n"])
        elif event.get("what") == "started":
            started[event["target"]] = event["at"]
        elif event.get("what") == "fell":
            if not _may_fall(event, event["at"] - started.get(event["target"], 0)):
                found["fell"].append(_told(event))
        elif event.get("what") == "ended":
            if not _may_end(event["detail"]):
                found["fell"].append(_told(event))
        elif event.get("what") in ("did not end", "did not come back"):
            found[event["what"].replace(" ", "_")].append(_told(event))
    kinds.subtract(each["fault"] for each in failed)
    kinds.subtract({"message": len(waiting)} if waiting else {})
    return {
        "faults": kinds.total(),
        "by_kind": {kind: many for kind, many in kinds.most_common() if many},
        "failed": failed,
        "came_to_nothing": len(waiting),
        **found,
    }


def _may_fall(event: dict[str, Any], age: int) -> bool:
    """A worker whose task killed it, and whoever finds no server when it starts."""
    match event["detail"]["code"]:
        case -9:
            return str(event["target"]).startswith("worker")
        case 3:
            return age < STARTS_WITHIN * 1e6
        case _:
            return False


def _may_end(end: dict[str, Any]) -> bool:
    """Of SIGTERM: in order; or by the signal itself, if it was only starting, or was asked again
    while it left; or it had ended before, of which there is a note if it fell."""
    if end["asked"] == 0:
        return True
    starting = end["age"] < STARTS_WITHIN and not end.get("ready")
    match end["code"]:
        case 0 | -9:
            return True
        case -15:
            return bool(starting or end["asked"] > 1)
        case 3:
            return bool(starting)
        case _:
            return False


def _told(event: dict[str, Any]) -> dict[str, Any]:
    return {"at": event["at"], "who": event["target"], **event["detail"]}
