"""Catching up at its rate, the past at its own, and retries with full jitter."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from math import sqrt

from sexton.torture.check.backfills import Pace
from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import SECOND, Change, Line
from sexton.torture.check.invariant import Invariant
from sexton.torture.check.policy import DUE_WITHIN
from sexton.torture.check.turns import Turns

# Twice the usual, and never less than this many fires a second, unless somebody said otherwise.
LEAST_RATE, TIMES_USUAL = 50.0, 2.0
BURST = 0.1
# Looked at in windows so long. When one begins a statement may be on its way with a burst of its
# own, another follows from what was saved up, and what a lost answer told is not deducted. Each
# leader has its own.
WINDOWS, BURSTS = (2 * SECOND, 10 * SECOND, 60 * SECOND), 6
# What is usual is measured over so long, from what nodes report: it cannot be much more than was
# fired in the busiest time of such a length.
MEASURED_OVER, REPORTED = 10 * SECOND, 1.5
# How long after it was measured a rate may still be in use.
KNOWN_FOR = 60 * SECOND

# Chance alone exceeds this once in 2·10¹⁰ runs: 2·exp(−2·3.5²).
KOLMOGOROV = 3.5
FEWEST = 30
# Which says for how long; whoever is asked by the rig's endpoints waits for a second.
_TOLD_WHEN, RETRY_AFTER = "HTTP 429", 1.0
_ROUNDED = 2 / SECOND


class CatchUpRate(Invariant):
    """Misfires are caught up at the cluster's rate, tenants in turn; a backfill at its own."""

    name = "catch-up-rate"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._made: list[tuple[int, int, int]] = []  # at, schedule, term
        self._fired: list[int] = []  # when, of those at their time
        self._usual: list[tuple[int, float, float | None]] = []  # since when, and if told otherwise
        self._pace = Pace()
        self._turns = Turns()

    def on_backfill(self, change: Change) -> None:
        self._pace.go_on(change)

    def on_due(self, change: Change) -> None:
        if (what := self._turns.move(change)) is not None:
            self.violated(what, change.at, schedule=change.id)

    def on_installation(self, change: Change) -> None:
        self._usual.append((change.at, change.now["usual"], change.now["asked"]))

    def on_fire(self, change: Change) -> None:
        now = change.now
        if change.op == "D" or now["decision"] != "fired":
            return
        if now["kind"] == "catch_up":
            self._turns.caught_up(change)
        # Whatever it is called, what is late goes by the rate.
        if now["kind"] == "catch_up" or (
            now["kind"] == "due" and change.at > now["fire_at"] + DUE_WITHIN
        ):
            self._made.append((change.at, change.id, now["term"] or 0))
        elif now["kind"] == "due":
            self._fired.append(change.at)
        elif now["kind"] == "backfill":
            self.checked += 1
            self._pace.fired(change)

    def finish(self) -> None:
        self._made.sort()
        self.checked += len(self._made)
        rates = self._rates()
        for window in WINDOWS:
            self._look_at(window, rates)
        for what, at, schedule in self._pace.too_fast():
            self.violated(what, at, schedule=schedule)
        for what in self._turns.left(self.evidence.stopped):
            self.violated(what, self.evidence.stopped)

    def _rates(self) -> list[tuple[int, float]]:
        """From when on which one may be in use."""
        self._fired.sort()
        found, first, busiest, nth = [(0, LEAST_RATE)], 0, 0, 0
        for at, usual, asked in sorted(self._usual):
            while nth < len(self._fired) and self._fired[nth] <= at:
                while self._fired[first] <= self._fired[nth] - MEASURED_OVER:
                    first += 1
                nth += 1
                busiest = max(busiest, nth - first)
            seen = REPORTED * busiest * SECOND / MEASURED_OVER
            found.append((at, asked or max(LEAST_RATE, TIMES_USUAL * min(usual, seen))))
        return found

    def _look_at(self, window: int, rates: list[tuple[int, float]]) -> None:
        times, known = [each[0] for each in self._made], [at for at, _ in rates]
        skip_to = 0
        for nth, (at, schedule, _) in enumerate(self._made):
            first = max(bisect_left(known, at - KNOWN_FOR) - 1, 0)
            rate = max(each for _, each in rates[first : bisect_right(known, at + window)])
            end = bisect_left(times, at + window)
            if nth < skip_to or end - nth <= rate * window / SECOND:
                continue
            bursts = BURSTS + len({each[2] for each in self._made[nth:end]}) - 1
            if end - nth > rate * window / SECOND + bursts * max(1.0, rate * BURST):
                skip_to = end
                what = f"{end - nth} misfires were released in {window / SECOND:g} s"
                self.violated(f"{what}, at a rate of {rate:.0f} a second", at, schedule=schedule)


class FullJitter(Invariant):
    """Retry delays follow full jitter: uniform from 0 to base × factor^(n−1), at most the cap.

    But for those that were told for how long: by an endpoint, or by the task itself.
    """

    name = "full-jitter"

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self._shares: dict[str, list[float]] = defaultdict(list)
        self._first: dict[str, tuple[int, int]] = {}
        self._rests: dict[int, tuple[int, float]] = {}  # when, and how long, by fence

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
        elif now["outcome"] == "snoozed":
            self._rests[now["fence"]] = (change.at, delay)
            return
        elif now["outcome"] not in ("failed", "lost"):
            return
        self.checked += 1
        if (now["error"] or "").startswith(_TOLD_WHEN):
            if abs(delay - RETRY_AFTER) > _ROUNDED:
                what = f"job {job.id} was told to wait for {RETRY_AFTER:g} s, and waits for"
                self.violated(f"{what} {delay:.6f} s", change.at, job=job.id)
        elif not 0 <= delay <= longest + _ROUNDED:
            what = f"attempt {tries} of job {job.id} was {now['outcome']}, the next came after"
            self.violated(f"{what} {delay:.6f} s, not within {longest:g} s", change.at, job=job.id)
        # Where an age limits the delay, only the shorter ones are seen.
        elif longest and (job.expires is None or job.expires - now["finished"] > longest * SECOND):
            for group in ("all", now["outcome"]):
                self._shares[group].append(delay / longest)
                self._first.setdefault(group, (change.at, job.id))

    def on_effect(self, line: Line) -> None:
        """A task that puts itself off says for how long."""
        rest = line["payload"].get("rest")
        if rest is None or line["event"] != "fail" or line["fence"] not in self._rests:
            return
        self.checked += 1
        at, delay = self._rests.pop(line["fence"])
        if abs(delay - rest) > _ROUNDED:
            what = f"job {line['job']} put itself off for {rest:g} s, and waits for {delay:.6f} s"
            self.violated(what, at, job=line["job"])

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
