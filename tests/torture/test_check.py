"""The checker itself: its arithmetic against other arithmetic, its reading, and what it prints."""

import ast
import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sexton.domain.when import Definition, Timetable
from sexton.domain.when.jitter import jittered
from sexton.torture import check
from sexton.torture.check import judge
from sexton.torture.check.folder import Folder
from sexton.torture.check.rates import KOLMOGOROV, away_from_uniform
from sexton.torture.check.said import Unclear, described, length, said
from sexton.torture.check.when import Rule
from sexton.torture.work.population import Shape, population

from .by_hand import BEGINS, SECOND, Line, Run


def micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def instant(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


# ── what it is made of ──────────────────────────────────────────────────────


def test_the_checker_shares_no_code_with_the_engine() -> None:
    for path in Path(check.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path.name} imports by a relative name"
                names = [node.module or ""]
            for name in names:
                own = name == "sexton.torture.check" or name.startswith("sexton.torture.check.")
                assert own or name.partition(".")[0] in sys.stdlib_module_names, (path, name)


# ── when ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
def test_it_computes_the_same_fires_as_the_engine_from_either_description(seed: int) -> None:
    shape = Shape(BEGINS, 900.0, fires_per_second=12.0)
    seen = 0
    for planned in population(seed, shape):
        if "exclude" in planned.options or "only" in planned.options:
            continue  # calendars are in the database
        line = planned.line(77, 1, planned.task)
        ours = described(line, {}).between(BEGINS, BEGINS + 600 * SECOND)
        told = said(planned.told, BEGINS, planned.tenant, {})
        assert told.between(BEGINS, BEGINS + 600 * SECOND) == ours
        assert all(told.has(at) for at in ours)
        theirs = _engine(planned.told, BEGINS, BEGINS + 600 * SECOND)
        assert ours == [scheduled for scheduled, _ in theirs]
        assert [told.fires_at(77, at) for at in ours] == [fire for _, fire in theirs]
        seen += len(ours)
    assert seen > 3000


def _engine(told: Line, after: int, until: int) -> list[tuple[int, int]]:
    given = {
        name: value
        for name, value in told.items()
        if name not in ("overlap", "misfire", "max_queued", "max_running", "grace", "max_fires")
    }
    table = Timetable.compile(Definition.of(**given))
    anchor = instant(after)
    found, at = [], table.after(instant(after), anchor)
    while at is not None and micros(at) <= until:
        found.append((micros(at), micros(table.fire_at(at, anchor, 77))))
        at = table.after(at, anchor)
    return found


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("* * * * *", "UTC"),
        ("*/15 * * * *", "Asia/Kathmandu"),
        ("*/20 10-40/10 * * * *", "Europe/Paris"),
        ("5,35 * 6-17 * * *", "America/St_Johns"),
        ("0 * * * MON-FRI", "Pacific/Auckland"),
        ("*/30 * * 13 * FRI", "Europe/Paris"),
        ("* 3/7 * */2 JAN,SEP-DEC *", "Australia/Lord_Howe"),
    ],
)
def test_cron_is_read_as_the_engine_reads_it(expression: str, zone: str) -> None:
    told = {"cron": expression, "timezone": zone}
    rule = said(told, BEGINS, "", {})
    until = BEGINS + 3 * 86_400 * SECOND
    assert rule.between(BEGINS, until) == [at for at, _ in _engine(told, BEGINS, until)]


def test_what_is_too_involved_is_not_guessed() -> None:
    for told in (
        {"cron": "30 2 * * *", "timezone": "Europe/Paris"},
        {"cron": "0 0 L * *"},
        {"cron": "H * * * *"},
        {"rrule": "FREQ=DAILY"},
        {"every": 60, "exclude": ["holidays"]},
    ):
        with pytest.raises(Unclear):
            said(told, BEGINS, "", {})


def test_jitter_is_that_of_the_documents() -> None:
    rule = said({"every": 5, "anchor": instant(BEGINS).isoformat(), "jitter": 9}, 0, "", {})
    at = BEGINS + 5 * SECOND
    theirs = jittered(3, instant(at), instant(at + 5 * SECOND), 9.0, "random")
    assert rule.fires_at(3, at) == micros(theirs)


def test_calendars_keep_fires_out_and_in() -> None:
    calendars = {("a", "out"): [[BEGINS + 2 * SECOND, BEGINS + 4 * SECOND]]}
    told = {"every": 1, "anchor": instant(BEGINS).isoformat()}
    out = said({**told, "exclude": "out"}, 0, "a", calendars)
    within = said({**told, "only": ["out"]}, 0, "a", calendars)
    seconds = [(at - BEGINS) // SECOND for at in out.between(BEGINS, BEGINS + 6 * SECOND)]
    assert seconds == [1, 4, 5, 6]
    assert [(at - BEGINS) // SECOND for at in within.between(BEGINS, BEGINS + 6 * SECOND)] == [2, 3]


@pytest.mark.parametrize(
    ("text", "seconds"), [(90, 90), ("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("2", 2)]
)
def test_lengths_of_time(text: Any, seconds: float) -> None:
    assert length(text) == seconds


def test_bounds_are_of_what_is_scheduled() -> None:
    rule = Rule(
        said({"every": 1, "anchor": instant(BEGINS).isoformat()}, 0, "", {}).clauses,
        starts=BEGINS + 3 * SECOND,
        ends=BEGINS + 5 * SECOND,
    )
    assert rule.between(BEGINS, BEGINS + 9 * SECOND) == [BEGINS + 3 * SECOND, BEGINS + 4 * SECOND]


# ── distributions ───────────────────────────────────────────────────────────


def test_full_jitter_is_never_mistaken_and_no_jitter_always_seen() -> None:
    for seed in range(300):
        drawn = random.Random(seed)
        shares = [drawn.random() for _ in range(30 + 10 * seed)]
        assert away_from_uniform(shares) * len(shares) ** 0.5 < KOLMOGOROV
        half = [0.5 + share / 2 for share in shares[:60]]
        assert len(half) < 60 or away_from_uniform(half) * len(half) ** 0.5 > KOLMOGOROV
    assert away_from_uniform([1.0] * 30) * 30**0.5 > KOLMOGOROV


# ── a run by hand ───────────────────────────────────────────────────────────


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def _violations(run: Run, name: str) -> list[str]:
    verdict = judge(run.save())
    [invariant] = [each for each in verdict.invariants if each.name == name]
    return [each.what for each in invariant.violations]


def test_an_urgent_job_may_overtake_but_not_for_ever(run: Run) -> None:
    """Five steps of priority are five minutes, and a sweep may take one."""
    run.run["calm_at"] = BEGINS + 999 * SECOND  # this is not about the end
    run.job(0, 1)
    run.job(300, 2, priority=5)
    run.claim(301, 2, 1, due=300)
    run.job(370, 3, priority=5)
    assert not _violations(run, "nothing-starves")
    run.claim(371, 3, 2, due=370)
    [what] = _violations(run, "nothing-starves")
    assert "job 3 was claimed before job 1" in what


def test_of_those_that_are_claimed_together_nobody_is_first(run: Run) -> None:
    """A batch is one statement, which writes its rows in an order of its own."""
    run.job(0, 1, priority=-3)
    run.job(30, 2, priority=-4)
    run.claim(100, 2, 1, due=30)
    run.claim(100.02, 1, 2, due=0)
    [what] = _violations(run, "nothing-starves")
    assert "job 2 was claimed before job 1" in what
    run.changes[-1]["tx"] = run.changes[-2]["tx"]
    assert not _violations(run, "nothing-starves")


@pytest.mark.parametrize(
    ("until", "outage", "many"),
    [(25, None, 1), (14, None, 0), (25, (9, 20), 0), (45, (9, 20), 1), (45, (9, 36), 0)],
)
def test_partitions_are_nobodys_only_as_long_as_there_is_a_reason(
    run: Run, until: float, outage: tuple[float, float] | None, many: int
) -> None:
    _share(run, 0, 1, [*range(256)])
    _share(run, 10, 2, [*range(200)])
    _share(run, until, 3, [*range(256)])
    _share(run, 60, 4, [*range(256)])
    if outage is not None:
        lines = [
            {"at": BEGINS + round(at * SECOND), "event": event, "n": 1, **_OUTAGE}
            for at, event in zip(outage, ("begin", "end"), strict=True)
        ]
        text = "".join(json.dumps(each) + "\n" for each in lines)
        (run.folder / "faults.jsonl").write_text(text)
    found = _violations(run, "one-owner")
    lasted = f"partition 200 and 55 others were nobody's for {until - 10:.1f} s"
    assert [each.startswith(lasted) for each in found] == [True] * many


def _share(run: Run, at: float, epoch: int, partitions: list[int]) -> None:
    now = {"epoch": epoch, "term": 1, "partitions": partitions}
    run.change(at, "ownership", "U", 1, was={"leader": 1, "term": 1}, now=now)


_OUTAGE = {"fault": "outage", "target": "nodes", "for_s": 31, "detail": {}}


@pytest.mark.parametrize(
    ("gone", "why", "told"),
    [
        (3, "lost", "which is gone"),
        (99, "left", "which has left"),
        (None, None, "whose lease is over"),
    ],
)
def test_a_job_of_a_worker_that_is_no_more_is_not_left_behind(
    run: Run, gone: int | None, why: str | None, told: str
) -> None:
    """Lost while there was time to reap; left with its job; silent, and never declared lost."""
    run.run |= {"ready_at": BEGINS + 4 * SECOND, "stopped_at": BEGINS + 100 * SECOND}
    run.worker(0, 1)
    run.job(1, 1)
    run.claim(2, 1, 1, due=1)
    lease = BEGINS + 110 * SECOND
    assert not _violations(run, "nothing-starves"), "it lives, and so does its job"
    if gone is None:
        lease = BEGINS + 50 * SECOND
    else:
        was = {"lease": lease, "renewed": BEGINS, "gone": None}
        over = BEGINS + gone * SECOND
        run.change(gone, "worker", "U", 1, was=was, now={"lease": lease, "gone": over, "why": why})
    run.dumps["worker"] = [{"id": 1, "lease": lease, "gone": gone}]
    [what] = _violations(run, "nothing-starves")
    assert what == f"job 1 is still held by worker w1, {told}"


def test_misfires_beyond_the_rate_are_seen(run: Run) -> None:
    def fires(many: int, from_: float, over: float) -> None:
        for nth in range(many):
            now = {
                **{"fire_at": BEGINS - SECOND, "scheduled": BEGINS - SECOND, "decided": BEGINS},
                **{"job": None, "term": 1, "node": None, "decision": "fired", "kind": "catch_up"},
            }
            run.change(from_ + over * nth / many, "fire", "I", nth, now=now)

    fires(500, 0, 10)
    assert not _violations(run, "catch-up-rate")
    fires(200, 20, 1)
    assert len(_violations(run, "catch-up-rate")) == 1


def test_how_long_things_took_is_told_as_distributions(run: Run) -> None:
    def fire(at: float, node: int) -> None:
        now = {
            **{"fire_at": BEGINS + round((at - 0.01) * SECOND), "scheduled": BEGINS, "job": None},
            **{"decided": BEGINS, "term": 1, "node": node, "decision": "fired", "kind": "due"},
        }
        was = {"owner": node, "term": 1, "leader": 1, "leader_term": 1}
        run.change(at, "fire", "I", 1, was=was, now=now)

    for node in (1, 2):
        now = {
            "name": f"node-{node}",
            "pid": node,
            "started": BEGINS,
            "lease": BEGINS,
            "gone": None,
        }
        run.change(0, "node", "I", node, now=now)
    fire(1, 1)
    fire(1, 2)
    gone = BEGINS + round(6.5 * SECOND)
    was = {"lease": BEGINS + 6 * SECOND, "renewed": BEGINS + round(4.5 * SECOND), "gone": None}
    run.change(6.5, "node", "U", 1, was=was, now={"lease": BEGINS, "gone": gone, "why": "lost"})
    run.change(6.5, "ownership", "D", 1, was={"leader": 2, "term": 1})
    fire(7, 2)
    fire(12.2, 2)
    faults: list[Line] = [
        {"at": 5, "event": "begin", "n": 1, "fault": "kill", "target": "node-1"},
        {"at": 9, "event": "begin", "n": 2, "fault": "half_open", "target": "node-2"},
        {"at": 11, "event": "note", "what": "up", "target": "postgres"},
    ]
    (run.folder / "faults.jsonl").write_text(
        "".join(json.dumps({**each, "at": BEGINS + each["at"] * SECOND}) + "\n" for each in faults)
    )
    found = {each.name: each.seconds for each in judge(run.save()).figures}
    assert found["failover gap"] == [1.5]
    assert found["silence"] == [2.0]
    assert found["half-open"] == pytest.approx([3.2])
    assert found["recovery: fire"] == pytest.approx([1.2])
    assert found["fire lag"] == pytest.approx([0.01] * 4)


def test_who_was_silent_already_when_it_was_killed_says_nothing_of_failovers(run: Run) -> None:
    """PostgreSQL was away since its last word: nobody could have taken over sooner."""
    now = {"name": "node-1", "pid": 1, "started": BEGINS, "lease": BEGINS, "gone": None}
    run.change(0, "node", "I", 1, now=now)
    was = {"lease": BEGINS + 6 * SECOND, "renewed": BEGINS + 4 * SECOND, "gone": None}
    gone = {"lease": BEGINS, "gone": BEGINS + 20 * SECOND, "why": "lost"}
    run.change(20, "node", "U", 1, was=was, now=gone)
    run.change(20, "ownership", "D", 1, was={"leader": 2, "term": 1})
    faults: list[Line] = [
        {"at": 5, "event": "begin", "n": 1, "fault": "restart", "target": "postgres"},
        {"at": 8, "event": "end", "n": 1, "fault": "restart", "target": "postgres"},
        {"at": 9, "event": "begin", "n": 2, "fault": "kill", "target": "node-1"},
        {"at": 9, "event": "end", "n": 2, "fault": "kill", "target": "node-1"},
    ]
    (run.folder / "faults.jsonl").write_text(
        "".join(json.dumps({**each, "at": BEGINS + each["at"] * SECOND}) + "\n" for each in faults)
    )
    [gap] = [each for each in judge(run.save()).figures if each.name == "failover gap"]
    assert (gap.seconds, gap.left_out) == ([], 1)


# ── reading and telling ─────────────────────────────────────────────────────


def test_a_line_that_was_cut_short_was_never_written(run: Run) -> None:
    run.save()
    (run.folder / "effects" / "worker-1.jsonl").write_text('{"job": 1}\n{"job": 2')
    assert [each["job"] for each in Folder(run.folder).effects()] == [1]


def test_asks_and_answers_are_put_together(run: Run) -> None:
    run.save()
    lines = [
        {"at": 1, "event": "ask", "n": 1, "verb": "pause", "tenant": "a", "body": {}},
        {"at": 2, "event": "error", "n": 1, "error": "gone", "unsure": True},
        {"at": 3, "event": "ask", "n": 2, "verb": "pause", "tenant": "a", "again": 1},
        {"at": 4, "event": "ack", "n": 2, "answer": {"version": 2}},
        {"at": 5, "event": "ask", "n": 3, "verb": "resume", "tenant": "a"},
        {"at": 6, "event": "error", "n": 3, "error": "no", "unsure": False},
        {"at": 7, "event": "ask", "n": 4, "verb": "resume", "tenant": "a"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run.folder / "acks" / "operator-1.jsonl").write_text(text)
    unsure, done, refused, silent = Folder(run.folder).asks()
    assert (unsure.answer, unsure.refused, unsure.began) == (None, False, 1)
    assert (done.answer, done.began, done.answered_at) == ({"version": 2}, 1, 4)
    assert (refused.answer, refused.refused) == (None, True)
    assert (silent.answer, silent.refused, silent.answered_at) == (None, False, None)


def test_a_violation_is_told_with_its_timeline_the_seed_and_how_to_see_it_again(run: Run) -> None:
    run.job(0, 1, due=BEGINS + 5 * SECOND, payload="p-1")
    run.claim(2, 1, 7, due=5)
    job = {"task": "t", "payload": {"id": "p-1", "tenant": "default"}, "delay": 5}
    ask = {"event": "ask", "n": 1, "verb": "enqueue", "at": BEGINS, "body": {"jobs": [job]}}
    (run.folder / "acks" / "client-1.jsonl").write_text(json.dumps(ask) + "\n")
    fault = {"event": "begin", "n": 1, "fault": "kill", "target": "node-1", "at": BEGINS + SECOND}
    (run.folder / "faults.jsonl").write_text(json.dumps(fault) + "\n")
    run.dumps["job"] = [{"id": 1}]
    command = [sys.executable, "-m", "sexton.torture.check", str(run.save())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "none-early" in done.stdout
    assert "VIOLATED none-early" in done.stdout
    assert "3000000 µs before it was due" in done.stdout
    assert "! kill node-1 begin" in done.stdout
    assert "~ job 1 fence=7" in done.stdout
    assert "sexton torture --seed 42 --seconds 9" in done.stdout
    as_json = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    found = json.loads(as_json.stdout)
    assert (found["violations"], found["found"][0]["invariant"]) == (1, "none-early")


def test_a_clean_run_says_so_and_an_invariant_without_work_admits_it(run: Run) -> None:
    command = [sys.executable, "-m", "sexton.torture.check", str(run.save())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "nothing to check" in done.stdout
    assert "commit ?" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    run.run["version"] = "1.2.3"
    run.save()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "seed 42, 9 s, version 1.2.3" in done.stdout, "an installed package has no commit"
