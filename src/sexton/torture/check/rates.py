"""Catching up at its rate, and retries with full jitter."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from math import sqrt

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change
from sexton.torture.check.invariant import Invariant

# Twice the usual, and never less than this many fires a second, unless somebody said otherwise.
LEAST_RATE, TIMES_USUAL = 50.0, 2.0
BURST = 0.1
# Looked at in windows so long. When one begins a statement may be on its way with a burst of its
# own, another follows from what was saved up, and what a lost answer told is not deducted.
WINDOW, BURSTS = 2 * SECOND, 6
MARGIN = 1.1
# How long after it was measured a rate may still be in use.
KNOWN_FOR = 60 * SECOND

# Chance alone exceeds this once in 2·10¹⁰ runs: 2·exp(−2·3.5²).
KOLMOGOROV = 3.5
FEWEST = 30
_TOLD_WHEN = "HTTP 429"


class CatchUpRate(Invariant):
    """Misfires are caught up within the governor's rate for the whole cluster."""

    name = "catch-up-rate"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._made: list[tuple[int, int]] = []  # at, schedule
        self._rates: list[tuple[int, float]] = [(0, LEAST_RATE)]

    def on_installation(self, change: Change) -> None:
        usual, asked = change.now["usual"], change.now["asked"]
        self._rates.append((change.at, asked or max(LEAST_RATE, TIMES_USUAL * usual)))

    def on_fire(self, change: Change) -> None:
        now = change.now
        if change.op != "D" and now["kind"] == "catch_up" and now["decision"] == "fired":
            self._made.append((change.at, change.id))

    def finish(self) -> None:
        self._made.sort()
        self._rates.sort()
        times = [at for at, _ in self._made]
        known = [at for at, _ in self._rates]
        skip_to = 0
        for nth, (at, schedule) in enumerate(self._made):
            self.checked += 1
            first = max(bisect_left(known, at - KNOWN_FOR) - 1, 0)
            rates = self._rates[first : bisect_right(known, at + WINDOW)]
            rate = max(each for _, each in rates)
            most = rate * WINDOW / SECOND * MARGIN + BURSTS * max(1.0, rate * BURST)
            many = bisect_left(times, at + WINDOW) - nth
            if many > most and nth >= skip_to:
                skip_to = nth + many
                what = f"{many} misfires were released in {WINDOW / SECOND:g} s"
                self.violated(f"{what}, at a rate of {rate:.0f} a second", at, schedule=schedule)


class FullJitter(Invariant):
    """Retry delays follow full jitter: uniform from 0 to base × factor^(n−1), at most the cap."""

    name = "full-jitter"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._shares: dict[str, list[float]] = defaultdict(list)
        self._first: dict[str, tuple[int, int]] = {}

    def on_attempt(self, change: Change) -> None:
        job, now = self.world.jobs.get(change.id), change.now
        if job is None or change.op != "I" or now["next"] != "waiting":
            return
        budget = self.evidence.budget(job.task)
        if budget is None or job.released is None or job.released[0] != change.tx:
            return
        delay = (job.released[2]["due"] - now["finished"]) / SECOND
        tries = now["attempt"] - job.before
        longest = budget.longest_delay(tries)
        if now["outcome"] == "released" or (now["outcome"] == "lost" and tries == 1):
            longest = 0.0  # at once
        elif now["outcome"] not in ("failed", "lost") or (now["error"] or "").startswith(
            "HTTP 429"
        ):
            return  # it was said for how long
        self.checked += 1
        if not 0 <= delay <= longest + 2 / SECOND:
            what = f"attempt {tries} of job {job.id} was {now['outcome']}, the next came after"
            self.violated(f"{what} {delay:.6f} s, not within {longest:g} s", change.at, job=job.id)
        # Where an age limits the delay, only the shorter ones are seen.
        elif longest and (job.expires is None or job.expires - now["finished"] > longest * SECOND):
            for group in ("all", now["outcome"]):
                self._shares[group].append(delay / longest)
                self._first.setdefault(group, (change.at, job.id))

    def finish(self) -> None:
        for group, shares in self._shares.items():
            if len(shares) < FEWEST:
                continue
            self.checked += 1
            distance = away_from_uniform(shares)
            if distance * sqrt(len(shares)) > KOLMOGOROV:
                at, job = self._first[group]
                what = f"the delays of {len(shares)} retries ({group}) are not uniform: they are"
                self.violated(f"{what} {distance:.3f} away from it", at, job=job)


def away_from_uniform(shares: list[float]) -> float:
    """The largest difference between their distribution and the uniform one."""
    many = len(shares)
    return max(
        max((nth + 1) / many - share, share - nth / many)
        for nth, share in enumerate(sorted(shares))
    )
