"""Many seeds on several cores: children that play a stretch each, and tell it in JSON."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict

from sexton.torture.simulate.play import Failure, Tally
from sexton.torture.simulate.world import Mode

# Enough that starting a child does not count, and few enough that no core is idle at the end.
_STRETCH = 5000
BOTH: tuple[Mode, ...] = ("safety", "liveness")


def crowd(
    first: int, many: int, modes: Sequence[Mode], jobs: int, mutant: str | None = None
) -> Iterator[Tally]:
    """What each stretch came to, as they come."""
    size = max(1, min(_STRETCH, -(-many // jobs)))
    starts = range(first, first + many, size)
    with ThreadPoolExecutor(jobs) as pool:
        playing = [
            pool.submit(_child, start, min(size, first + many - start), modes, mutant)
            for start in starts
        ]
        for each in as_completed(playing):
            yield each.result()


def _child(first: int, many: int, modes: Sequence[Mode], mutant: str | None) -> Tally:
    mode = modes[0] if len(modes) == 1 else "both"
    command = [
        *(sys.executable, "-m", "sexton.torture.simulate", "--json", "--mode", mode),
        *("--first", str(first), "--seeds", str(many), "--jobs", "1"),
        *(("--mutant", mutant) if mutant else ()),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the seeds from {first} on ended with {done.returncode}")
    return from_json(done.stdout)


def to_json(tally: Tally) -> str:
    return json.dumps(
        {
            "seeds": tally.seeds,
            "steps": tally.steps,
            "seen": tally.seen,
            "hits": tally.hits,
            "slowest": tally.slowest,
            "failures": [asdict(each) for each in tally.failures],
        }
    )


def from_json(text: str) -> Tally:
    said = json.loads(text)
    return Tally(
        said["seeds"],
        said["steps"],
        Counter(said["seen"]),
        Counter(said["hits"]),
        said["slowest"],
        [Failure(**each) for each in said["failures"]],
    )


def together(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for each in tallies:
        total.seeds += each.seeds
        total.steps += each.steps
        total.seen.update(each.seen)
        total.hits.update(each.hits)
        total.slowest = max(total.slowest, each.slowest)
        total.failures += each.failures
    return total
