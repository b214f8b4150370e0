"""The verdict on a point: every invariant, by plain SQL and by the log of effects."""

import functools
from importlib import resources

from sexton.torture.crash.stage import Stage


@functools.cache
def invariants() -> dict[str, str]:
    """Statements by their names; each gives a row for every violation."""
    folder = resources.files("sexton.torture.crash").joinpath("invariants")
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(files, key=lambda file: file.name)
    }


async def violations(stage: Stage) -> list[str]:
    """What is wrong now; it should be quiet."""
    found = []
    for name, statement in invariants().items():
        found += [f"{name}: {row[0]}" for row in await stage.sql.fetch(statement)]
    return found + await _effects(stage)


async def _effects(stage: Stage) -> list[str]:
    """The log agrees with the history, and no two attempts overlap unless a lease had run out."""
    rows = await stage.sql.fetch("select job_id, fence, outcome, next from crash.settled")
    outcome = {row["fence"]: row["outcome"] for row in rows}
    events: dict[int, dict[int, list[str]]] = {}
    found = []
    for line in stage.effects():
        attempts = events.setdefault(line["job"], {})
        if line["event"] == "begin":
            for fence, seen in attempts.items():
                if seen[-1] == "begin" and outcome.get(fence) != "lost":
                    found.append(
                        f"effects: job {line['job']}: fence {line['fence']} began while fence "
                        f"{fence} ({outcome.get(fence)}) had not ended"
                    )
        attempts.setdefault(line["fence"], []).append(line["event"])
    for job, attempts in events.items():
        for fence, seen in attempts.items():
            if seen not in (["begin"], ["begin", "end"], ["begin", "fail"]):
                found.append(f"effects: job {job}, fence {fence}: {seen}")
    for row in rows:
        seen = events.get(row["job_id"], {}).get(row["fence"], [])
        if (
            (row["next"] == "succeeded" and seen[-1:] != ["end"])
            # A transaction may have carried the settlement, and its answer may have been lost.
            and not (seen and await _wrote(stage, row["job_id"], row["fence"]))
        ):
            found.append(f"effects: job {row['job_id']} succeeded, its task: {seen}")
        if row["outcome"] == "failed" and seen != ["begin", "fail"]:
            found.append(f"effects: job {row['job_id']} failed, its task: {seen}")
    return found


async def _wrote(stage: Stage, job: int, fence: int) -> bool:
    return await stage.so(
        "select exists (select from crash.effect where job_id = $1 and fence = $2)", job, fence
    )
