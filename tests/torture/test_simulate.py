"""The simulated protocol: nothing is ever violated, all recovers, every mutant is caught."""

import inspect
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from sexton.store.connection import Address
from sexton.torture.simulate.database import Database
from sexton.torture.simulate.play import Failure, play, shrink, stage, sweep
from sexton.torture.simulate.teeth import MUTANTS, SEEDS, Mutant, bite

from .questions import ONLY_LOOKS, QUESTIONS
from .twin import Twin

SQL = Path(inspect.getfile(Database)).parents[2] / "sql"
STATES = 12


@pytest.fixture(scope="module", autouse=True)
def _stage() -> Iterator[None]:
    with stage():
        yield


# ── seeds ───────────────────────────────────────────────────────────────────


def test_nothing_is_violated_however_many_faults_there_are() -> None:
    tally = sweep(0, 1200, ("safety",))
    assert not tally.failures, tally.failures[0].command
    looked_at = {
        *("acts", "assignments", "changes", "claims", "effects", "elections", "fires", "jobs"),
        *("leaders", "leases", "lost workers", "settlements"),
    }
    assert looked_at == set(tally.seen), "an invariant that looked at nothing has proved nothing"
    assert min(tally.seen.values()) > 100


def test_all_is_well_soon_after_the_faults_are_over() -> None:
    tally = sweep(0, 600, ("liveness",))
    assert not tally.failures, tally.failures[0].command
    assert tally.slowest > 5.0, "nobody had to wait for a lease"


def test_a_seed_tells_the_same_story_every_time() -> None:
    for mode in ("safety", "liveness"):
        first: list[str] = []
        again: list[str] = []
        play(11, mode, told=first)
        play(11, mode, told=again)
        assert first == again
        assert len(first) > 50


def test_another_process_tells_the_same_story(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sexton.torture.simulate", "--seed", "5", "--trace"]
    stories = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert stories[0] == stories[1]
    assert stories[0].count(b"\n") > 100


def test_seeds_on_two_cores_are_the_same_seeds() -> None:
    command = [sys.executable, "-m", "sexton.torture.simulate", "--seeds", "200", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    alone = sweep(0, 200, ("safety", "liveness"))
    assert f"200 seeds (safety, liveness), {alone.steps:,} steps" in done.stdout
    assert "0 violations" in done.stdout


def _said(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sexton.torture.simulate", *words]
    return subprocess.run(command, capture_output=True, check=False, text=True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--seeds -5", "--seeds: '-5'"),
        ("--seeds 0", "--seeds: '0'"),
        ("--seeds 10 --jobs 0", "--jobs: '0'"),
        ("--seed 3 --without x", "--without: 'x'"),
        ("--seeds 9 --without 0 --trace", "not used without --seed: --trace, --without"),
        ("--seed 0 --first 0 --seeds 9", "not used with --seed: --first, --seeds"),
        ("--teeth --mutant ReapsTheLiving", "not used with --teeth: --mutant"),
    ],
)
def test_nothing_is_played_for_an_option_that_would_be_ignored(words: str, why: str) -> None:
    done = _said(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_who_has_seen_enough_of_a_story_ends_it_quietly() -> None:
    command = [sys.executable, "-m", "sexton.torture.simulate", "--seed", "3", "--trace"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as telling:
        assert telling.stdout is not None
        assert telling.stderr is not None
        telling.stdout.close()
        assert telling.stderr.read() == b""
    assert telling.returncode == 141


# ── teeth ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    failure = bite(mutant).failure
    assert failure is not None, f"{mutant.what} Nobody noticed in {SEEDS} seeds."
    healthy = play(failure.seed, failure.mode)
    assert not isinstance(healthy, Failure), "it was not the mutant"


def test_a_failing_seed_is_shrunk_to_the_blows_that_it_takes() -> None:
    mutant = next(each for each in MUTANTS if each.name == "ReapsTheLiving")
    failure = bite(mutant).failure
    assert failure is not None
    smallest = shrink(failure, mutant.cast)
    again = play(smallest.seed, smallest.mode, mutant.cast, smallest.without)
    assert isinstance(again, Failure)
    assert again.what == smallest.what
    assert again.invariant == failure.invariant
    assert f"--seed {failure.seed} --mode safety" in smallest.command


def test_a_story_without_its_traps_can_be_told_again_by_its_command() -> None:
    """Traps have numbers below 0, which a command line takes for options."""
    smallest = Failure(3, "safety", "invariant", "what", [-1, 0])
    done = _said(*smallest.command.split()[3:])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_mutant_among_many_seeds_is_seen_and_told_how_to_be_seen_again(jobs: str) -> None:
    done = _said("--seeds", "12", "--jobs", jobs, "--mutant", "ReapsTheLiving")
    assert done.returncode == 1, done.stderr
    told = done.stdout.splitlines()
    broken = next(line for line in told if line.startswith("VIOLATED"))
    again = next(line for line in told if line.startswith("again: "))
    _, _, words = again.partition("simulate ")
    seen = _said(*words.split())
    assert (seen.returncode, seen.stderr) == (1, "")
    assert broken in seen.stdout


# ── the model is what PostgreSQL does ───────────────────────────────────────


def test_every_modelled_statement_names_its_sql() -> None:
    named = 0
    for _, method in inspect.getmembers(Database, inspect.isfunction):
        said = (method.__doc__ or "").split(":")[0].split(",")[0]
        if said.endswith(".sql"):
            assert (SQL / said).exists(), said
            named += 1
    assert named >= 24


async def test_the_model_answers_and_does_what_postgresql_does(address: Address) -> None:
    changed = set()
    async with Twin.born(address) as twin:
        for asked, n in product(QUESTIONS, range(STATES)):
            dice = random.Random(f"{asked.__name__} {n}")
            await twin.scatter(dice)
            before = twin.modelled()
            real, modelled = await asked(twin, dice)
            assert real == modelled, f"{asked.__name__}, state {n}"
            after = twin.modelled()
            assert await twin.read() == after, f"{asked.__name__}, state {n}"
            if before != after:
                changed.add(asked)
    assert set(QUESTIONS) - changed == set(ONLY_LOOKS), "who changes nothing is compared in vain"
