"""A verdict for people, and for programs."""

from collections.abc import Iterator
from typing import Any

from sexton.torture.check.folder import Line
from sexton.torture.check.judge import Verdict
from sexton.torture.check.lives import NothingLost
from sexton.torture.check.timeline import clock


def as_lines(verdict: Verdict) -> Iterator[str]:
    """The table, the figures, and each violation with its timeline."""
    run = verdict.evidence.folder.run
    yield f"seed {run.get('seed')}, {run.get('seconds')} s, {_of_what(run)}"
    yield "   ".join(f"{many:,} {name}" for name, many in verdict.counts.items())
    if verdict.decisions:
        parts = " + ".join(f"{many:,} {name}" for name, many in verdict.decisions.items())
        yield f"{sum(verdict.decisions.values()):,} fires decided = {parts}"
    yield from _places(verdict)
    yield ""
    yield f"{'invariant':<24}{'checked':>12}{'violations':>12}"
    for each in verdict.invariants:
        note = "" if each.checked else "   nothing to check"
        yield f"{each.name:<24}{each.checked:>12,}{each.count:>12,}{note}"
    yield ""
    cases = f"{'cases':>8}{'left out':>10}{'never':>7}"
    yield f"{'seconds':<24}{cases}{'p50':>9}{'p90':>9}{'p99':>9}{'max':>9}"
    for figure in verdict.figures:
        line = figure.line
        found = "".join(_number(line[name]) for name in ("p50", "p90", "p99", "max"))
        cases = f"{line['count']:>8,}{line['left_out']:>10,}{line['never']:>7,}"
        yield f"{figure.name:<24}{cases}{found}"
    yield from (f"    {figure.name:<22}{figure.means}" for figure in verdict.figures)
    for why, many in verdict.unclear.items():
        yield f"{many} versions of schedules were not computed: {why}"
    if verdict.not_checked:
        yield ""
        yield "NOT A PROOF, whatever else it says:"
        yield from (f"    not checked: {why}" for why in verdict.not_checked)
    for violation, timeline in verdict.timelines:
        yield ""
        yield f"VIOLATED {violation.invariant} at {clock(violation.at)}: {violation.what}"
        yield from (f"    {line}" for line in timeline)
        yield f"    seed {run.get('seed')}; again: {verdict.evidence.folder.replay}"


def as_json(verdict: Verdict) -> dict[str, Any]:
    run = verdict.evidence.folder.run
    return {
        "seed": run.get("seed"),
        "seconds": run.get("seconds"),
        "commit": run.get("commit"),
        "version": run.get("version"),
        "began_at": run.get("began_at"),
        "replay": verdict.evidence.folder.replay,
        "clean": verdict.clean,
        "counts": verdict.counts,
        "decisions": verdict.decisions,
        "violations": verdict.violations,
        "invariants": [
            {
                "name": each.name,
                "demands": each.demand,
                "checked": each.checked,
                "violations": each.count,
            }
            for each in verdict.invariants
        ],
        "figures": [each.line for each in verdict.figures],
        "unclear": verdict.unclear,
        "not_checked": verdict.not_checked,
        "text": "\n".join(as_lines(verdict)),
        "found": [
            {
                "invariant": violation.invariant,
                "what": violation.what,
                "at": violation.at,
                "job": violation.job,
                "schedule": violation.schedule,
                "timeline": timeline,
            }
            for violation, timeline in verdict.timelines
        ],
    }


def _of_what(run: Line) -> str:
    """An installed package has no commit."""
    commit, version = run.get("commit"), run.get("version")
    return f"version {version}" if commit is None and version else f"commit {commit or '?'}"


def _places(verdict: Verdict) -> Iterator[str]:
    for each in verdict.invariants:
        if isinstance(each, NothingLost) and each.places:
            total = sum(each.places.values())
            parts = " + ".join(f"{many:,} {name}" for name, many in sorted(each.places.items()))
            yield f"{total:,} jobs created = {parts}"


def _number(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:>9.3f}"
