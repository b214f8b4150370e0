"""Seeds: one played, one told, one shrunk, many in a row."""

import gc
import logging
import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sexton.torture.simulate.watch import Violation
from sexton.torture.simulate.world import Cast, Mode, Played, World

COMMAND = "python -m sexton.torture.simulate"
_COLLECT_EVERY = 1000
NO_MUTANT = Cast()


@dataclass(slots=True)
class Failure:
    """A seed that broke an invariant, and which of its blows it does not need for that."""

    seed: int
    mode: Mode
    invariant: str
    what: str
    without: list[int] = field(default_factory=list)

    @property
    def command(self) -> str:
        """Which tells the story again."""
        dropped = f" --without={','.join(map(str, self.without))}" if self.without else ""
        return f"{COMMAND} --seed {self.seed} --mode {self.mode}{dropped} --trace"


@dataclass(slots=True)
class Tally:
    """What many seeds came to."""

    seeds: int = 0
    steps: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0  # recovery, in simulated seconds
    failures: list[Failure] = field(default_factory=list)

    def add(self, played: Played) -> None:
        self.seeds += 1
        self.steps += played.steps
        self.seen.update(played.seen)
        self.hits.update(played.hits)
        self.slowest = max(self.slowest, played.well_after or 0.0)


@contextmanager
def stage() -> Iterator[None]:
    """The engine's own code draws from the common source and speaks of lost nodes: both are ours
    for the time being."""
    state, disabled = random.getstate(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        logging.disable(disabled)
        random.setstate(state)


def play(
    seed: int,
    mode: Mode,
    cast: Cast = NO_MUTANT,
    without: Collection[int] = (),
    told: list[str] | None = None,
) -> Played | Failure:
    """One seed; the same every time."""
    try:
        return World(seed, mode, cast, without=without, told=told).play()
    except Violation as violation:
        if told is not None:
            told.append(f"VIOLATED  {violation}")
        return Failure(seed, mode, violation.invariant, str(violation), [*without])


def sweep(
    first: int, many: int, modes: Sequence[Mode], cast: Cast = NO_MUTANT, most: int = 1
) -> Tally:
    """So many seeds from the first on, the modes in turn, until so many of them have failed."""
    tally = Tally()
    for seed in range(first, first + many):
        played = play(seed, modes[seed % len(modes)], cast)
        if isinstance(played, Failure):
            tally.seeds += 1
            tally.failures.append(played)
            if len(tally.failures) >= most:
                break
        else:
            tally.add(played)
        if seed % _COLLECT_EVERY == 0:
            gc.collect()
    return tally


def shrink(failure: Failure, cast: Cast = NO_MUTANT) -> Failure:
    """With as few blows as still break the same invariant; dropped one after the other."""
    world = World(failure.seed, failure.mode, cast)
    world.kernel.end()
    smallest = failure
    for n in range(-len(world.traps), len(world.blows)):
        fewer = play(failure.seed, failure.mode, cast, [*smallest.without, n])
        if isinstance(fewer, Failure) and fewer.invariant == failure.invariant:
            smallest = fewer
    return smallest
