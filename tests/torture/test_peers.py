"""The side by side: its counting, its timeline, and Sexton's own row."""

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from torture.peers import effects
from torture.peers.count import CALM, Fire, Happened, Tally, by_kind, fires, gaps
from torture.peers.effects import Effects, Run
from torture.peers.run import run
from torture.peers.systems import SEXTON
from torture.peers.timeline import KINDS, Fault, plan
from torture.peers.workload import SIZES, Schedule, schedules

TEN = Schedule("ten", "ten", 10, 3)
BEGIN, END = 1_000_000_000, 1_000_000_060
DUE = [*TEN.due(BEGIN, END)]
QUICK = {
    "SEXTON_LEASE": "2",
    "SEXTON_NODE_LEASE": "1.5",
    "SEXTON_POLL": "1",
    "SEXTON_PATIENCE": "2",
}


def ran(due: int, *, lag: float = 0.1, job: str | None = None, ends: bool = True) -> Run:
    began = due + lag
    return Run(TEN.name, began, fire_at=due, job=job, ended_at=began + 0.3 if ends else None)


def counted(runs: list[Run]) -> tuple[list[Fire], int]:
    return fires([TEN], runs, BEGIN, END)


def test_a_schedule_is_due_at_its_offset_and_nowhere_else() -> None:
    assert [BEGIN + 3 + 10 * n for n in range(6)] == DUE
    assert TEN.due_at(BEGIN + 12.9) == BEGIN + 3
    assert TEN.due_at(BEGIN + 13) == BEGIN + 13
    assert TEN.seconds_first == "3,13,23,33,43,53 * * * * *"
    assert TEN.seconds_last == "* * * * * 3,13,23,33,43,53"


def test_every_group_is_as_large_as_it_says_and_ten_seconds_are_shared_evenly() -> None:
    made = schedules(tuple(SIZES))
    assert Counter(each.group for each in made) == {name: size for name, (size, _) in SIZES.items()}
    assert set(Counter(each.offset for each in made if each.group == "ten").values()) == {10}


def test_a_fire_without_an_effect_is_missed_whether_it_began_or_not() -> None:
    found, stray = counted([ran(due) for due in DUE[2:]] + [ran(DUE[0], ends=False)])
    assert Tally.of(found) == Tally(due=6, missed=2, cut_off=1)
    assert stray == 0


def test_two_jobs_of_one_fire_are_a_double_and_two_attempts_at_one_job_are_not() -> None:
    runs = [ran(due, job=str(due)) for due in DUE]
    runs += [ran(DUE[0], lag=1.0, job="another"), ran(DUE[1], lag=40.0, job=str(DUE[1]))]
    found, _ = counted(runs)
    assert Tally.of(found) == Tally(due=6, twice=1, rerun=1)


def test_a_second_run_is_a_double_where_a_system_has_no_jobs() -> None:
    found, _ = counted([*map(ran, DUE), ran(DUE[3], lag=0.2)])
    assert Tally.of(found) == Tally(due=6, twice=1)


def test_an_attempt_that_was_cut_off_and_repeated_is_neither_missed_nor_doubled() -> None:
    found, _ = counted([ran(due, job="a", ends=False) for due in DUE] + [ran(d) for d in DUE])
    assert Tally.of(found) == Tally(due=6)


def test_a_run_when_nothing_was_due_is_stray_and_one_outside_the_stretch_is_nothing() -> None:
    found, stray = counted([*map(ran, DUE), ran(BEGIN + 4), ran(BEGIN - 7), ran(END + 3)])
    assert Tally.of(found) == Tally(due=6)
    assert stray == 1


def taken(instant: float) -> Run:
    return Run(TEN.name, instant + 0.01, taken_at=instant, ended_at=instant + 0.3)


def test_without_an_identity_a_run_is_for_the_due_instant_before_it_was_taken() -> None:
    found, _ = counted([taken(due + 1.5) for due in DUE])
    assert Tally.of(found) == Tally(due=6)
    found, _ = counted([taken(due + 1.5) for due in DUE[1:]])
    assert [fire.due for fire in found if fire.missed] == DUE[:1]


def test_without_an_identity_a_late_run_beside_a_prompt_one_is_not_called_a_double() -> None:
    late, prompt = taken(DUE[1] + 0.1), taken(DUE[1] + 1.5)
    found, _ = counted([late, prompt, *(taken(due + 1.5) for due in DUE[2:])])
    assert Tally.of(found) == Tally(due=6)


def test_without_an_identity_a_third_run_in_one_stretch_is_a_double() -> None:
    runs = [taken(due + 1.5) for due in DUE]
    found, _ = counted([*runs, taken(DUE[2] + 2), taken(DUE[2] + 3)])
    assert Tally.of(found) == Tally(due=6, twice=1)


def test_a_fire_falls_to_the_fault_before_it_and_a_double_to_that_before_its_second_run() -> None:
    kill = Happened("kill", DUE[1] + 0.2, DUE[1] + 0.2)
    stop = Happened("stop", DUE[4] + 5, DUE[4] + 5)
    runs = [ran(due) for due in DUE if due != DUE[1]] + [ran(DUE[2], lag=40)]
    found, _ = counted(runs)
    tallies = by_kind(found, [kill, stop])
    assert tallies == {
        CALM: Tally(due=1),
        "kill": Tally(due=3, missed=1),
        "stop": Tally(due=2, twice=1),
    }


def test_the_gap_lasts_from_the_end_of_a_fault_to_the_last_fire_that_was_not_prompt() -> None:
    fast = Happened("fast", DUE[0] + 1, DUE[0] + 4)
    kill = Happened("kill", DUE[4] + 1, DUE[4] + 1)
    found, _ = counted([ran(due, lag=20 if due == DUE[2] else 0.5) for due in DUE])
    first, second = gaps(found, [fast, kill], END)
    assert (first.kind, first.seconds, first.open) == ("fast", DUE[2] - fast.over_at, False)
    assert (second.kind, second.seconds, second.open) == ("kill", 0.0, False)


def test_what_a_killed_process_had_begun_is_in_the_log(tmp_path: Path) -> None:
    log = Effects(tmp_path)
    log.end(log.begin("ten", fire_at=DUE[0], job=7))
    log.begin("ten", taken_at=1.5)
    done, cut = effects.read(tmp_path)
    assert (done.fire_at, done.job, done.ended_at is not None) == (DUE[0], "7", True)
    assert (cut.fire_at, cut.taken_at, cut.ended_at) == (None, 1.5, None)


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_is_the_same_for_a_seed_and_leaves_time_between_faults(seed: int) -> None:
    planned = plan(seed, 300)
    assert planned == plan(seed, 300)
    assert Counter(fault.kind for fault in planned) == dict.fromkeys(KINDS, 3)
    for fault, following in itertools.pairwise([*planned, Fault("kill", 300.0)]):
        assert following.at - (fault.at + fault.for_s) > 8


def test_the_freezes_of_a_long_run_outlast_every_lease() -> None:
    stops = [fault.for_s for fault in plan(7, 300) if fault.kind == "stop"]
    assert sorted(stops) == [2.0, 12.0, 40.0]


async def test_sexton_misses_and_doubles_nothing_through_a_kill_a_freeze_and_a_crash(
    tmp_path: Path,
) -> None:
    system = replace(SEXTON, environment=QUICK)
    planned = (Fault("kill", 3, 0), Fault("stop", 6, 1, 1.0), Fault("immediate", 10, for_s=0.5))
    outcome = await run(system, planned, 15, tmp_path / "run", tail=8)
    tally = Tally.of(outcome.fires)
    assert tally.due >= 15 * 20
    assert (tally.missed, tally.twice, outcome.stray) == (0, 0, 0)
    assert [fault.kind for fault in outcome.faults] == ["kill", "stop", "immediate"]
