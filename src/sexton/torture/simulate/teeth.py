"""Teeth: every mutant must be caught by the watch, within so many seeds.

A check that cannot fail is worthless. A mutant changes one guard or rule, and nothing of the watch.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from sexton.torture.simulate import mutant_actors as actors
from sexton.torture.simulate import mutant_tables as tables
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.node import Node
from sexton.torture.simulate.play import Failure, sweep
from sexton.torture.simulate.worker import Worker
from sexton.torture.simulate.world import Cast, Mode

# Within so many seeds each must be caught.
SEEDS = 4000

_TABLES: tuple[type[Database], ...] = (
    tables.SettlesWithoutFence,
    tables.SucceedsWithoutFence,
    tables.SettlesTwice,
    tables.RenewsTheLost,
    tables.ReapsTheLiving,
    tables.ReapsAfterRestart,
    tables.OrphansTheRunning,
    tables.ClaimsTheClaimed,
    tables.ClaimsForTheLost,
    tables.RepeatsFences,
    tables.CancelsTheRunning,
    tables.LetsGoAnytime,
    tables.ElectsAnytime,
    tables.ElectsTheSilent,
    tables.RepeatsTerms,
    tables.LeadsForever,
    tables.AssignsWithoutTerm,
    tables.LosesTheLiving,
    tables.RepeatsEpochs,
    tables.LeasesByNodeClocks,
    tables.FiresWithoutEpoch,
    tables.FiresWithoutGuard,
    tables.CatchesUpWithoutTerm,
    tables.FiresByNodeClocks,
    tables.FiresWhatItRead,
    tables.EditsWithoutStamp,
)
_NODES: tuple[type[Node], ...] = (actors.NodeTrustsAnswers, actors.NodeTrustsForever)
_WORKERS: tuple[type[Worker], ...] = (
    actors.WorkerTrustsAnswers,
    actors.WorkerGoesOn,
    actors.StraysAtOnce,
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """Who plays, and in which mode it must show."""

    name: str
    what: str
    mode: Mode
    cast: Cast


@dataclass(frozen=True, slots=True)
class Bite:
    """How a mutant was caught; or not, after so many seeds."""

    mutant: Mutant
    seeds: int
    seconds: float
    failure: Failure | None


def _mutant(changed: type, mode: Mode, cast: Cast) -> Mutant:
    return Mutant(changed.__name__, (changed.__doc__ or "").strip(), mode, cast)


MUTANTS: tuple[Mutant, ...] = (
    *(_mutant(each, "safety", Cast(database=each)) for each in _TABLES),
    _mutant(
        tables.TwoTransactions,
        "safety",
        Cast(database=tables.TwoTransactions, node=actors.FiresInTwo),
    ),
    *(_mutant(each, "safety", Cast(node=each)) for each in _NODES),
    *(_mutant(each, "safety", Cast(worker=each)) for each in _WORKERS),
    _mutant(tables.NeverReaps, "liveness", Cast(database=tables.NeverReaps)),
    _mutant(tables.NeverJudges, "liveness", Cast(database=tables.NeverJudges)),
    _mutant(actors.NeverCatchesUp, "liveness", Cast(node=actors.NeverCatchesUp)),
    _mutant(actors.ForgetsOutcomes, "liveness", Cast(worker=actors.ForgetsOutcomes)),
    _mutant(actors.ForgetsStrays, "liveness", Cast(worker=actors.ForgetsStrays)),
)


def bite(mutant: Mutant, seeds: int = SEEDS) -> Bite:
    """Seed after seed, until one of them shows it."""
    began = time.perf_counter()
    tally = sweep(0, seeds, (mutant.mode,), mutant.cast)
    failure = tally.failures[0] if tally.failures else None
    return Bite(mutant, tally.seeds, time.perf_counter() - began, failure)


def bites(seeds: int = SEEDS) -> Iterator[Bite]:
    for mutant in MUTANTS:
        yield bite(mutant, seeds)
