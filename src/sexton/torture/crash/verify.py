"""The verdict on a point: every invariant, by plain SQL and by the log of effects."""

import functools
from importlib import resources

from sexton.torture.crash.stage import Stage

SETTLED = """
select at, job_id, fence, outcome, exists (
    select from crash.effect where effect.job_id = settled.job_id and effect.fence = settled.fence
) as carried
from crash.settled
"""


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
    rows = await stage.sql.fetch(SETTLED)
    outcome = {row["fence"]: row["outcome"] for row in rows}
    attempts: dict[int, dict[int, list[str]]] = {}  # by job and fence
    ended: dict[int, float] = {}
    found = []
    for line in stage.effects():
        job, fence, event = line["job"], line["fence"], line["event"]
        others = attempts.setdefault(job, {})
        if event == "begin":
            found += [
                f"job {job}: fence {fence} began while fence {other} had not ended"
                for other, seen in others.items()
                # Who was stopped after its claim may begin when its successor is at work.
                if seen[-1] == "begin" and outcome.get(min(other, fence)) != "lost"
            ]
        else:
            ended[fence] = line["at"]
        others.setdefault(fence, []).append(event)
    for row in rows:
        job, fence = row["job_id"], row["fence"]
        seen = attempts.get(job, {}).get(fence, [])
        if row["outcome"] == "failed" and seen != ["begin", "fail"]:
            found.append(f"job {job} failed, its task: {seen}")
        # A transaction may carry the settlement, before the end, and its answer may be lost.
        if row["outcome"] == "succeeded" and not row["carried"]:
            if seen != ["begin", "end"]:
                found.append(f"job {job} succeeded, its task: {seen}")
            elif row["at"].timestamp() < ended[fence]:
                found.append(f"job {job} had succeeded at fence {fence} before its task had ended")
    return [f"effects: {each}" for each in found]
