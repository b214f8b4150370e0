"""The side by side: its counting, its timeline, and Sexton's own row."""

import itertools
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from torture.peers import __main__ as command
from torture.peers import confidence, effects, keep, report
from torture.peers.count import Fire, Happened, Tally, fallen, fires, gaps
from torture.peers.counts import CannotPool, Counts, fit
from torture.peers.effects import Effects, Run
from torture.peers.pool import Pooled
from torture.peers.run import About, Outcome, run
from torture.peers.systems import BY_NAME, SEXTON, System
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
    assert fallen(found, [kill, stop]) == [
        Tally(due=1),
        Tally(due=3, missed=1),
        Tally(due=2, twice=1),
    ]


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


PEER = BY_NAME["procrastinate"]
STRUCK = [Happened("kill", BEGIN + 10, BEGIN + 10), Happened("fast", BEGIN + 30, BEGIN + 31)]


def about(system: System, seed: int) -> About:
    return About(
        system=system.name,
        settings=system.settings,
        version=f"{system.package} 1",
        seed=seed,
        seconds=END - BEGIN,
        workload="ten",
        commit="abc",
        machine="2 cores",
        begin=BEGIN,
        gave_up=0,
        steady=True,
        load=[0.0, 1.5],
    )


def of_run(
    system: System, seed: int, runs: Sequence[Run], faults: Sequence[Happened] = STRUCK
) -> Counts:
    found, stray = counted([*runs])
    return Counts.of(Outcome(about(system, seed), [*faults], found, stray))


def all_once() -> list[Run]:
    return [ran(due, job=str(due)) for due in DUE]


def with_a_double() -> list[Run]:
    return [*all_once(), ran(DUE[1], lag=2.0, job="another")]


def test_fifteen_faults_without_harm_do_not_exclude_that_one_in_five_harms() -> None:
    low, high = confidence.share(0, 15)
    assert (low, round(high, 3)) == (0.0, 0.218)
    assert [round(bound, 4) for bound in confidence.share(3, 10)] == [0.0667, 0.6525]
    assert [round(bound, 3) for bound in confidence.share(15, 15)] == [0.782, 1.0]


def test_a_hundred_fires_lost_to_one_fault_prove_less_than_ten_lost_to_each_of_ten() -> None:
    at_once = confidence.rate([[(100, 1000), *[(0, 1000)] * 9]])
    each_time = confidence.rate([[(10, 1000)] * 10])
    assert at_once[0] == 0.0
    assert at_once[1] > 0.02
    assert each_time == (0.01, 0.01)


def test_five_faults_that_harm_only_one_of_two_may_be_chance_and_six_hardly() -> None:
    assert confidence.sign(5, 0) == confidence.sign(0, 5) == 0.0625
    assert confidence.sign(6, 0) == 0.03125
    assert confidence.sign(0, 0) == confidence.sign(3, 3) == 1.0


def test_seeds_are_added_up_fire_by_fire_and_fault_by_fault() -> None:
    runs = [of_run(PEER, 1, with_a_double()), of_run(PEER, 2, all_once()[1:])]
    ours = [of_run(SEXTON, seed, all_once()) for seed in (1, 2)]
    pooled = Pooled.of(fit(runs))
    assert pooled.tally() == Tally(due=12, missed=1, twice=1)
    assert pooled.tally(seed=2) == Tally(due=6, missed=1)
    assert pooled.bad(lambda tally: tally.harmed) == (1, 4), "the calm is not a fault"
    assert pooled.bad(lambda tally: tally.twice, "kill") == (1, 2)
    assert pooled.against(Pooled.of(ours)) == (1, 0)
    assert Pooled.of(ours).against(pooled) == (0, 1)
    assert pooled.rate(lambda tally: tally.twice) is None, "two faults of a kind are too few"
    more = Pooled.of([of_run(PEER, seed, with_a_double()) for seed in range(6)])
    assert more.rate(lambda tally: tally.twice) == (6 / 36, 6 / 36)


def test_the_tables_can_be_made_again_from_what_was_kept(tmp_path: Path) -> None:
    found = [
        of_run(system, seed, runs)
        for seed in (1, 2)
        for system, runs in ((SEXTON, all_once()), (PEER, with_a_double()))
    ]
    for number, counts in enumerate(found):
        counts.keep(tmp_path / f"{number}.json")
    again = [Counts.read(tmp_path / f"{number}.json") for number in range(len(found))]
    text = report.whole(found)
    assert report.whole(again) == text
    assert "seeds 1, 2, 4 faults" in text
    assert "| one job run again |" in text
    assert "| 0 of 4 [0–60 %] |" in text
    assert "| 2 of 4 [7–93 %] |" in text


def test_runs_of_another_workload_or_with_other_faults_are_not_added_up() -> None:
    one, two = of_run(SEXTON, 1, all_once()), of_run(PEER, 1, all_once())
    assert fit([one, two]) == [one, two]
    with pytest.raises(CannotPool, match="procrastinate with seed 1 had twenty for 60 s"):
        fit([one, replace(two, about=replace(two.about, workload="twenty"))])
    with pytest.raises(CannotPool, match="procrastinate had other faults with seed 1"):
        fit([one, of_run(PEER, 1, all_once(), STRUCK[::-1])])


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The command with folders of its own, and the signal that it takes over given back."""
    monkeypatch.setattr(keep, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(keep, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(report, "RECORD", tmp_path / "RESULTS.md")
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def test_a_run_that_is_interrupted_keeps_the_seeds_that_are_done(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def through(systems: Sequence[System], seed: int, seconds: int) -> list[Counts]:
        if seed == 3:
            raise KeyboardInterrupt
        return [of_run(system, seed, all_once()) for system in systems]

    monkeypatch.setattr(command, "through", through)
    words = ["--only", SEXTON.name, "--seconds", str(END - BEGIN)]
    assert command.main([*words, "--seeds", "1,2,3", "--record"]) == 130
    assert "--again --seeds 1,2" in capsys.readouterr().out
    assert not (kept / "RESULTS.md").exists()
    assert command.main([*words, "--seeds", "1,2,3", "--again", "--record"]) == 0
    assert "sexton: no run with seed 3 and 60 s was kept" in capsys.readouterr().out
    assert "seeds 1, 2, 4 faults" in (kept / "RESULTS.md").read_text()


def test_a_seed_that_is_named_twice_is_counted_once() -> None:
    assert command.parsed(["--seeds", "7,8,7"]).seeds == [7, 8]
    assert command.parsed(["--seed", "3"]).seeds == [3]
    assert command.parsed([]).seeds == [7]


async def test_sexton_misses_and_doubles_nothing_through_a_kill_a_freeze_and_a_crash(
    tmp_path: Path,
) -> None:
    system = replace(SEXTON, environment=QUICK)
    planned = (Fault("kill", 3, 0), Fault("stop", 6, 1, 1.0), Fault("immediate", 10, for_s=0.5))
    outcome = await run(system, planned, 7, 15, tmp_path / "run", tail=8)
    tally = Tally.of(outcome.fires)
    assert tally.due >= 15 * 20
    assert (tally.missed, tally.twice, outcome.stray) == (0, 0, 0)
    assert [fault.kind for fault in outcome.faults] == ["kill", "stop", "immediate"]
