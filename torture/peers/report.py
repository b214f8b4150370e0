"""The tables, in Markdown, and the record of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from bench.report import table

from torture.peers import confidence
from torture.peers.count import Gap, Tally
from torture.peers.counts import CALM, Counts
from torture.peers.pool import Pooled, by_system
from torture.peers.systems import SEXTON
from torture.peers.timeline import ABOUT, KINDS

RECORD = Path(__file__).parent / "RESULTS.md"
TITLES = {
    "ten and minute": "Schedules of every ten seconds and of every minute",
    "second": "Schedules of every second",
}
COMMON = ("ten and minute",)  # what everybody has
Many = Callable[[Tally], int]
FIGURES: dict[str, Many] = {
    "missed": attrgetter("missed"),
    "of them cut off": attrgetter("cut_off"),
    "run twice": attrgetter("twice"),
    "one job run again": attrgetter("rerun"),
}
HARM: dict[str, Many] = {
    "missed": attrgetter("missed"),
    "run twice": attrgetter("twice"),
    "either": attrgetter("harmed"),
    "one job run again": attrgetter("rerun"),
}


def whole(all_counts: Sequence[Counts]) -> str:
    """Everything there is to say about some runs, which may be of several seeds."""
    systems = by_system(all_counts)
    parts = [_circumstances(all_counts)]
    for name, title in TITLES.items():
        rows = [_row(Pooled.of(runs, [name])) for runs in systems if name in runs[0].parts]
        if rows:
            parts += [f"### {title}", table(_head(), rows)]
    parts += ["### Faults to which any fell", _faults(systems)]
    parts += ["### Seed by seed", _seeds(systems)]
    parts += ["### By the fault before", _kinds([Pooled.of(runs) for runs in systems])]
    common = [Pooled.of(runs, COMMON) for runs in systems]
    parts += ["### Seconds until every fire was prompt again", _gaps(common)]
    parts += ["\n".join(f"- {_note(runs, len(_distinct_seeds(all_counts)))}" for runs in systems)]
    return "\n\n".join(parts)


def _head() -> list[str]:
    return ["per 100,000 due (number) [95 %]", "due", *FIGURES, "late p50, s", "p99, s", "most, s"]


def _row(pooled: Pooled) -> list[str]:
    return [
        pooled.system,
        f"{pooled.tally().due:,}",
        *(_figure(pooled, many) for many in FIGURES.values()),
        *(f"{pooled.late(share):g}" for share in (0.5, 0.99, 1.0)),
    ]


def _figure(pooled: Pooled, many: Many) -> str:
    """A zero has no interval of its own: how much it says is how many faults there were."""
    found = _per_100k(pooled.tally(), many)
    bounds = pooled.rate(many) if many(pooled.tally()) else None
    if bounds is None:
        return found
    low, high = (bound * 100_000 for bound in bounds)
    return f"{found} [{low:,.0f}–{high:,.0f}]"


def _per_100k(tally: Tally, many: Many) -> str:
    rate = many(tally) / tally.due * 100_000 if tally.due else 0.0
    return f"{rate:,.0f} ({many(tally):,})"


def _faults(systems: Sequence[list[Counts]]) -> str:
    """The unit that is nearly independent, with its interval, and each beside Sexton."""
    ours = next((runs for runs in systems if runs[0].about.system == SEXTON.name), None)
    rows = []
    for runs in systems:
        pooled = Pooled.of(runs)
        row = [pooled.system, *(_share(*pooled.bad(many)) for many in HARM.values())]
        if ours is None or ours is runs:
            row.append("–")
        else:
            here, there = pooled.against(Pooled.of(ours, runs[0].parts))
            row.append(f"{here} · {there} (p {_probability(confidence.sign(here, there))})")
        rows.append(row)
    return table(["faults [95 %]", *HARM, f"either: only here · only {SEXTON.name}"], rows)


def _share(bad: int, of: int) -> str:
    low, high = (bound * 100 for bound in confidence.share(bad, of))
    return f"{bad} of {of} [{low:.0f}–{high:.0f} %]"


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def _seeds(systems: Sequence[list[Counts]]) -> str:
    seeds = sorted({counts.about.seed for runs in systems for counts in runs})
    rows = []
    for runs in systems:
        pooled, row = Pooled.of(runs), [runs[0].about.system]
        for seed in seeds:
            tally = pooled.tally(seed=seed)
            numbers = (tally.missed, tally.twice, tally.rerun)
            row.append(" · ".join(f"{number:,}" for number in numbers) if tally.due else "–")
        rows.append(row)
    return table(["missed · run twice · run again", *map(str, seeds)], rows)


def _kinds(systems: Iterable[Pooled]) -> str:
    """For each kind how many, and to how many of its faults they fell."""
    kinds = [CALM, *KINDS]
    rows = []
    for pooled in systems:
        for what in ("missed", "run twice", "one job run again"):
            many = HARM[what]
            if many(pooled.tally()) == 0:
                continue
            row = [f"{pooled.system}: {what}"]
            for kind in kinds:
                tally = pooled.tally(kind=kind)
                bad, of = pooled.bad(many, kind)
                faults = f", {bad} of {of}" if kind != CALM else ""
                row.append(f"{_per_100k(tally, many)}{faults}" if tally.due else "–")
            rows.append(row)
    head = ["per 100,000 due (number), faults", *kinds]
    return table(head, rows) if rows else "Nothing to blame."


def _gaps(common: Iterable[Pooled]) -> str:
    rows = []
    for pooled in common:
        found = [each.gap for each in pooled.aftermaths.values() if each.gap is not None]
        rows.append([pooled.system, *(_gap([g for g in found if g.kind == k]) for k in KINDS)])
    return table(["median · most", *KINDS], rows)


def _gap(found: Sequence[Gap]) -> str:
    if not found:
        return "–"
    ranked = sorted(found, key=lambda gap: gap.seconds)
    chosen = (ranked[len(ranked) // 2], ranked[-1])
    return " · ".join(f"{'≥ ' if gap.open else ''}{gap.seconds:.1f}" for gap in chosen)


def _note(runs: Sequence[Counts], seeds: int) -> str:
    abouts = [counts.about for counts in runs]
    stray = sum(counts.stray for counts in runs)
    more = f"; {stray} runs when nothing was due" if stray else ""
    hurried = [str(about.seed) for about in abouts if not about.steady]
    if hurried:
        more += f"; it was not prompt even before the first fault (seed {', '.join(hurried)})"
    if len(runs) < seeds:
        more += f"; only seed {', '.join(str(about.seed) for about in abouts)}"
    low, high = min(about.load[0] for about in abouts), max(about.load[1] for about in abouts)
    return (
        f"{abouts[0].system}: {abouts[0].settings}; processes ended by themselves"
        f" {sum(about.gave_up for about in abouts)} times{more}; load {low:.0f} to {high:.0f}."
    )


def _circumstances(all_counts: Sequence[Counts]) -> str:
    plans = {counts.about.seed: counts.kinds[1:] for counts in all_counts}
    faults = Counter(kind for plan in plans.values() for kind in plan)
    kinds = ", ".join(f"{ABOUT[kind]} ×{faults[kind]}" for kind in KINDS)
    seeds = _distinct_seeds(all_counts)
    abouts = [counts.about for counts in all_counts]
    told = (
        dict.fromkeys(about.workload for about in abouts),
        dict.fromkeys(f"commit {about.commit}" for about in abouts),
        dict.fromkeys(about.machine for about in abouts),
        dict.fromkeys(about.version for about in abouts),
    )
    return (
        f"{abouts[0].seconds} s each, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))},"
        f" {faults.total()} faults ({kinds}); {'; '.join(', '.join(each) for each in told)}"
    )


def _distinct_seeds(all_counts: Iterable[Counts]) -> list[int]:
    return sorted({counts.about.seed for counts in all_counts})


def record(text: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not RECORD.exists():
        RECORD.write_text(
            "# Side by side under faults\n\nAppended by `python -m torture.peers --record`. What"
            " the columns mean, and what each system was asked for, is in [README.md](README.md).\n"
        )
    with RECORD.open("a") as file:
        file.write(f"\n## {now}\n\n{text}\n")
