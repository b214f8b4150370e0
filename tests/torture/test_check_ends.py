"""What the checker demands of a run's end, of limits, of two clocks; and when it is no proof."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sexton.torture import report
from sexton.torture.check import Verdict, judge
from sexton.torture.check.handed_over import HOLDER
from sexton.torture.faults.log import FILE

from ..support.processes import until
from .by_hand import BEGINS, SECOND, Line, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def _violations(run: Run, name: str) -> list[str]:
    [found] = [each for each in judge(run.save()).invariants if each.name == name]
    return [each.what for each in found.violations]


def _write(run: Run, name: str, *lines: Line) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run.folder / f"{name}.jsonl").write_text(text)


# ── nobody is forgotten ─────────────────────────────────────────────────────


def test_a_job_that_nobody_ever_claims_is_found(run: Run) -> None:
    run.run |= {"ready_at": BEGINS + 4 * SECOND, "stopped_at": BEGINS + 100 * SECOND}
    run.job(90, 1)
    run.job(1, 2, after=1)
    run.job(1, 3, due=BEGINS + 90 * SECOND)
    assert not _violations(run, "nothing-starves"), "there was no time, or it was not its turn"
    run.job(80, 4)
    assert _violations(run, "nothing-starves") == ["job 4 could have been claimed, and never was"]


def _limited(run: Run) -> None:
    run.run |= {"ready_at": BEGINS + 4 * SECOND, "stopped_at": BEGINS + 100 * SECOND}
    declared = {"name": "t", "max_attempts": 1, "base": 1, "factor": 1, "cap": 1}
    run.change(0, "task", "I", None, now={**declared, "max_running": 1})
    run.dumps["tasks"] = [{**declared, "task": "t", "timeout": 10}]
    run.worker(0, 1)
    run.dumps["worker"] = [{"id": 1, "lease": BEGINS + 200 * SECOND, "gone": None}]
    run.job(1, 1, limited=True)
    run.job(1, 2, limited=True)


def test_a_job_whose_limit_is_full_may_wait(run: Run) -> None:
    _limited(run)
    run.claim(80, 1, 1, due=1)
    assert not _violations(run, "nothing-starves")


def test_a_limit_whose_place_was_leaked_is_found(run: Run) -> None:
    """It is held all the time, and longer than its task can run."""
    _limited(run)
    run.claim(50, 1, 1, due=1)
    [what] = _violations(run, "nothing-starves")
    assert what == "job 2 could have been claimed, and never was"


def test_what_the_rig_found_left_over_is_a_violation(run: Run) -> None:
    run.run |= {"behind": 0, "left": 0}
    assert not _violations(run, "nothing-starves")
    run.run |= {"behind": 2, "left": 3}
    found = _violations(run, "nothing-starves")
    assert found == ["2 schedules were behind at the end", "3 jobs were left at the end"]


# ── limits ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("outcome", "ran"), [(None, False), ("released", False), ("failed", True)])
def test_who_was_claimed_past_a_limit_and_did_not_run_is_forgiven(
    run: Run, outcome: str | None, ran: bool
) -> None:
    """It was made by somebody who did not know of the limit."""
    _limited(run)
    run.claim(5, 1, 1, due=1)
    run.job(6, 3)
    run.claim(7, 3, 2, due=6)
    was = {"fence": 2, "by": 1, "attempt": 1, "due": BEGINS + 6 * SECOND}
    attempt = 0 if outcome != "failed" else 1
    now = {**was, "by": None, "attempt": attempt, "after": None, "tenant": 1, "cancel": False}
    run.change(8, "job", "U", 3, was=was, now=now)
    if outcome is not None:
        settled = {"tenant": 1, "fence": 2, "attempt": 1, "outcome": outcome, "next": "waiting"}
        more = {"worker": 1, "error": "", "finished": BEGINS + 8 * SECOND, "gone": None}
        run.change(8, "attempt", "I", 3, now={**settled, **more})
        run.changes[-1]["tx"] = run.changes[-2]["tx"]
    assert bool(_violations(run, "limits-kept")) == ran


# ── two clocks ──────────────────────────────────────────────────────────────


def _measured(at: float, offset: float, round_trip: float = 0.002) -> Line:
    seconds = {"offset_us": offset, "round_trip_us": round_trip}
    return {
        "at": BEGINS + round(at * SECOND),
        **{name: round(each * SECOND) for name, each in seconds.items()},
    }


def _two_clocks(run: Run, ended: float, offset: float) -> list[str]:
    """A job succeeds at 2 s by the database's clock; its task ended at this time, by its host's."""
    run.dumps["tasks"] = [{"task": "t", "max_attempts": 1, "base": 1, "factor": 1, "cap": 1}]
    run.worker(0, 1)
    run.job(1, 1)
    run.claim(1, 1, 1, due=1)
    run.change(2, "job", "D", 1, was={"fence": 1, "by": 1, "attempt": 1})
    settled = {"tenant": 1, "fence": 1, "attempt": 1, "outcome": "succeeded", "next": "succeeded"}
    more = {"worker": 1, "error": None, "finished": BEGINS + 2 * SECOND, "gone": None}
    run.change(2, "attempt", "I", 1, now={**settled, **more})
    run.changes[-1]["tx"] = run.changes[-2]["tx"]
    known = {"job": 1, "attempt": 1, "fence": 1, "idempotency_key": "k", "fire_at": None}
    known |= {"task": "t", "payload": {}}
    seen = {"begin": 1.1 - offset, "end": ended - offset}
    lines = [
        {"at": BEGINS + round(at * SECOND), "event": event, "tenant": "default", **known}
        for event, at in seen.items()
    ]
    _write(run, "effects/worker-1", *lines)
    return _violations(run, "no-stale-write")


def test_a_host_whose_clock_is_ahead_is_not_taken_for_one_that_writes_late(run: Run) -> None:
    run.run["clock_offsets"] = [_measured(0, -3.0), _measured(4, -3.0)]
    assert not _two_clocks(run, 1.9, offset=-3.0)


def test_a_late_write_is_found_on_a_host_whose_clock_is_behind(run: Run) -> None:
    run.run["clock_offsets"] = [_measured(0, 3.0), _measured(4, 3.0)]
    assert _two_clocks(run, 2.1, offset=3.0)


@pytest.mark.parametrize(("apart", "found"), [(0.04, False), (0.2, True)])
def test_without_a_measurement_the_clocks_are_one(run: Run, apart: float, found: bool) -> None:
    assert bool(_two_clocks(run, 2 + apart, offset=0.0)) == found


@pytest.mark.parametrize(("ended", "found"), [(2.1, False), (2.4, True)])
def test_a_clock_that_drifts_leaves_as_much_doubt(run: Run, ended: float, found: bool) -> None:
    run.run["clock_offsets"] = [_measured(-2, 1.0), _measured(2, 1.2)]
    assert bool(_two_clocks(run, ended, offset=1.2)) == found


def test_what_is_less_than_the_way_there_and_back_is_no_difference(run: Run) -> None:
    run.run |= {"clock_offsets": [_measured(0, 0.001)], "stopped_at": BEGINS}
    assert judge(run.save()).evidence.folder.run["stopped_at"] == BEGINS


def test_faults_requests_and_the_run_itself_are_put_on_the_databases_clock(run: Run) -> None:
    run.run |= {"clock_offsets": [_measured(0, 1.0), _measured(10, 2.0)]}
    run.run |= {"stopped_at": BEGINS + 5 * SECOND, "calm_at": None}
    _write(run, "faults", {"at": BEGINS + 20 * SECOND, "event": "note", "what": "up"})
    asked = {"event": "ask", "n": 1, "verb": "pause", "tenant": "a", "at": BEGINS - SECOND}
    _write(run, "acks/operator-1", asked)
    run.save()
    folder = judge(run.folder).evidence.folder
    [fault], [ask] = folder.faults, folder.asks()
    moved = [folder.run["stopped_at"], fault["at"], ask.at]
    assert [(at - BEGINS) / SECOND for at in moved] == [6.5, 22.0, 0.0]


# ── never ───────────────────────────────────────────────────────────────────


def _figures(run: Run) -> dict[str, tuple[int, int, int]]:
    found = judge(run.save()).figures
    return {each.name: (len(each.seconds), each.left_out, each.never) for each in found}


def _node(run: Run, at: float, id: int, share: bool) -> None:
    began = BEGINS + round(at * SECOND)
    now = {"name": f"node-{id}", "pid": id, "started": began, "lease": began, "gone": None}
    run.change(at, "node", "I", id, now=now)
    if share:
        given = {"epoch": id, "term": 1, "partitions": [id]}
        run.change(at, "ownership", "I", id, was={"leader": 1, "term": 1}, now=given)


def test_a_node_that_is_never_taken_over_is_told_of(run: Run) -> None:
    """The second one had nothing that anybody could take; the third was heard of again."""
    run.run |= {"calm_at": BEGINS + 10 * SECOND, "stopped_at": BEGINS + 40 * SECOND}
    kills = []
    for id, share in ((1, True), (2, False), (3, True)):
        _node(run, 0, id, share)
        fault = {"event": "begin", "n": id, "fault": "kill", "target": f"node-{id}"}
        kills.append({**fault, "at": BEGINS + 5 * SECOND})
    _write(run, "faults", *kills)
    renewed = {1: 4, 2: 4, 3: 40}
    run.dumps["node"] = [{"id": id, "renewed": BEGINS + at * SECOND} for id, at in renewed.items()]
    assert _figures(run)["failover gap"] == (0, 2, 1)
    assert _figures(run)["silence"] == (0, 1, 1)


@pytest.mark.parametrize(("lost_at", "expected"), [(5, (0, 0, 1)), (39, (0, 1, 0))])
def test_an_orphan_that_nobody_claims_again_is_told_of(
    run: Run, lost_at: int, expected: tuple[int, int, int]
) -> None:
    _orphaned(run, lost_at, "waiting")
    assert _figures(run)["orphan rerun"] == expected


@pytest.mark.parametrize(
    ("down", "claimed", "expected"), [(3, 9, (1, 1, 0)), (7, 6, (1, 1, 0)), (13, 20, (2, 0, 0))]
)
def test_a_server_that_is_soon_gone_again_says_nothing_of_recovery_however_long_that_took(
    run: Run, down: int, claimed: int, expected: tuple[int, int, int]
) -> None:
    run.run |= {"calm_at": BEGINS + 10 * SECOND, "stopped_at": BEGINS + 40 * SECOND}
    run.worker(0, 1)
    run.job(1, 1)
    server = {"event": "note", "target": "postgres"}
    notes = [
        {**server, "what": what, "at": BEGINS + at * SECOND}
        for what, at in (("up", 2), ("down", down), ("up", down + 1))
    ]
    _write(run, "faults", *notes)
    run.claim(claimed, 1, 1, due=1)
    run.claim(30, 1, 2, due=1)
    assert _figures(run)["recovery: claim"] == expected


def test_a_job_that_died_of_it_and_was_redriven_later_is_no_orphan(run: Run) -> None:
    _orphaned(run, 5, "dead")
    run.claim(30, 1, 2, due=30)
    assert _figures(run)["orphan rerun"] == (0, 1, 0)


def _orphaned(run: Run, lost_at: int, next: str) -> None:
    """A job whose worker was lost then."""
    run.run |= {"calm_at": BEGINS + 10 * SECOND, "stopped_at": BEGINS + 40 * SECOND}
    run.worker(0, 1)
    run.job(1, 1)
    run.claim(1, 1, 1, due=1)
    at = BEGINS + lost_at * SECOND
    was = {"lease": at, "renewed": at, "gone": None}
    run.change(lost_at, "worker", "U", 1, was=was, now={"lease": at, "gone": at, "why": "lost"})
    stood = {"fence": 1, "by": 1, "attempt": 1, "due": BEGINS + SECOND}
    now = {**stood, "by": None, "after": None, "tenant": 1, "cancel": False}
    run.change(lost_at, "job", "U", 1, was=stood, now=now)
    settled = {"tenant": 1, "fence": 1, "attempt": 1, "outcome": "lost", "next": next}
    more = {"worker": 1, "error": "", "finished": at, "gone": True}
    run.change(lost_at, "attempt", "I", 1, now={**settled, **more})


def test_what_an_endpoint_accepted_and_let_go_is_no_orphan_of_a_lost_worker(run: Run) -> None:
    """Nobody renews who holds it: it is as if it had been heard of until it was lost."""
    run.run |= {"calm_at": BEGINS + 10 * SECOND, "stopped_at": BEGINS + 40 * SECOND}
    run.worker(0, 1)
    run.job(1, 1)
    run.claim(1, 1, 1, due=1)
    until = BEGINS + 5 * SECOND
    holder = {"name": HOLDER, "queues": [], "tenant": 1, "started": BEGINS, "gone": None}
    run.change(2, "worker", "I", 2, now={**holder, "lease": until})
    was = {"lease": until, "renewed": until, "gone": None}
    run.change(5, "worker", "U", 2, was=was, now={"lease": until, "gone": until, "why": "lost"})
    settled = {"tenant": 1, "fence": 1, "attempt": 1, "outcome": "lost", "next": "waiting"}
    more = {"worker": 2, "error": "", "finished": until, "gone": True}
    run.change(5, "attempt", "I", 1, now={**settled, **more})
    run.claim(5.1, 1, 2, due=5)
    assert _figures(run)["orphan rerun"] == (0, 1, 0)


def test_who_is_never_heard_of_again_after_a_dead_connection_is_told_of(run: Run) -> None:
    """Of a client the database tells nothing: that is left out."""
    run.run |= {"calm_at": BEGINS + 10 * SECOND, "stopped_at": BEGINS + 400 * SECOND}
    run.worker(0, 1)
    run.job(1, 1)
    run.claim(1, 1, 1, due=1)
    faults = [
        {"event": event, "n": n, "fault": "half_open", "target": target, "at": BEGINS + at * SECOND}
        for n, target in ((1, "w1"), (2, "client-sql"))
        for event, at in (("begin", 5), ("end", 6))
    ]
    up = {"event": "note", "what": "up", "target": "postgres", "at": BEGINS + 7 * SECOND}
    back = {"event": "note", "what": "came back", "target": "w1", "at": BEGINS + 8 * SECOND}
    backs = [back | {"detail": {"after": 2.5, "alone": alone}} for alone in (True, False)]
    _write(run, "faults", *faults, up, *backs)
    assert _figures(run)["start"] == (1, 1, 0)
    assert _figures(run)["half-open"] == (0, 1, 1)
    assert _figures(run)["recovery: claim"] == (0, 0, 1)
    run.job(150, 2)
    run.claim(200, 2, 2, due=150)
    assert _figures(run)["half-open"] == (1, 1, 0), "after minutes, and that is not left out"


# ── what is told ────────────────────────────────────────────────────────────


def _told(verdict: Verdict) -> str:
    return "\n".join(line for _, lines in verdict.timelines for line in lines)


def test_a_violation_of_leases_is_told_with_who_led_and_owned_what(run: Run) -> None:
    _node(run, 0, 1, True)
    _node(run, 2, 2, True)
    leader: Line = {"node": 1, "term": 1, "lease": None, "node_lease": None, "node_gone": None}
    run.change(3, "leader", "U", 2, was=leader, now={"node": 2, "term": 2, "lease": None})
    lease = BEGINS + 9 * SECOND
    was = {"lease": lease, "renewed": BEGINS, "gone": None}
    run.change(4, "node", "U", 1, was=was, now={"lease": lease, "gone": BEGINS, "why": "lost"})
    told = _told(judge(run.save()))
    assert "+ ownership 2 epoch=2 term=1 partitions=[2]" in told
    assert "~ leader 2 node=2 term=2" in told
    assert "~ node 1 lease" in told
    assert "why=lost" in told


def test_what_was_acknowledged_is_told_with_the_request_and_its_answer(run: Run) -> None:
    job = {"task": "t", "payload": {"id": "p-1", "tenant": "default"}}
    asked = {"event": "ask", "n": 1, "verb": "enqueue", "via": "sql", "tenant": "default"}
    made = {"payload_id": "p-1", "id": 77, "duplicate": False}
    _write(
        *(run, "acks/client-1"),
        {**asked, "body": {"jobs": [job]}, "at": BEGINS},
        {"event": "ack", "n": 1, "answer": {"jobs": [made]}, "at": BEGINS + SECOND},
    )
    told = _told(judge(run.save()))
    assert "? enqueue for default, client-1.jsonl 1:" in told
    assert '"payload_id": "p-1", "id": 77' in told


def _check(run: Run, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sexton.torture.check", str(run.save()), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_end_that_could_not_be_checked_is_said_aloud(run: Run) -> None:
    run.run |= {"ready_at": BEGINS + 90 * SECOND, "stopped_at": BEGINS + 100 * SECOND}
    done = _check(run, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode, found["clean"], found["violations"]) == (3, False, 0)
    [why] = found["not_checked"]
    assert why.startswith("what is left at the end: everybody was there for 10.0 s")
    assert f"not checked: {why}" in found["text"]


def test_a_run_that_was_cut_short_says_so_and_is_not_clean(run: Run) -> None:
    """Without what the database held, every request would look as if it had been forgotten."""
    run.run |= {"planned": 3, "began_at": BEGINS}
    ask = {"event": "ask", "n": 1, "verb": "pause", "tenant": "a", "at": BEGINS}
    _write(run, "acks/operator-1", ask, {"event": "ack", "n": 1, "answer": {}, "at": BEGINS})
    done = _check(run)
    assert done.returncode == 3, done.stderr
    assert "VIOLATED" not in done.stdout
    assert "not checked: anything: the run was cut short" in done.stdout
    assert "not checked: anything: dump/ is without attempt.jsonl, backfill.jsonl" in done.stdout


def test_a_checker_that_fails_has_found_nothing_and_proved_nothing(run: Run) -> None:
    run.change(0, "job", "I", 1, now={})
    done = _check(run, "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert "KeyError" in done.stderr


async def test_a_verdict_is_told_from_a_checker_that_failed(run: Run) -> None:
    """Neither is a broken promise; only one has something to report."""
    (run.folder / FILE).write_text("")
    run.change(0, "job", "I", 1, now={})
    with pytest.raises(report.NoVerdict, match="the checker ended with 3"):
        await report.judge(run.save())
    run.run |= {"planned": 3, "began_at": BEGINS}
    verdict = await report.judge(run.save())
    assert (verdict["clean"], verdict["violations"]) == (False, 0)
    assert verdict["not_checked"][0] == "anything: the run was cut short"


async def test_a_checker_ends_with_whoever_waits_for_it(run: Run) -> None:
    """It is seen to read by a pipe in the place of a file, and seen to have ended by the same."""
    changes = run.save() / "dump" / "change.jsonl"
    changes.unlink()
    os.mkfifo(changes)
    judging = asyncio.create_task(report.judge(run.folder))
    written: list[int] = []

    def is_read() -> bool:
        with suppress(OSError):
            written.append(os.open(changes, os.O_WRONLY | os.O_NONBLOCK))
        return bool(written)

    await until(is_read)
    try:
        judging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await judging
        with pytest.raises(BrokenPipeError):
            os.write(written[0], b"\n")
    finally:
        os.close(written[0])


def test_whoever_reads_only_the_beginning_of_a_verdict_sees_no_traceback(run: Run) -> None:
    command = [sys.executable, "-m", "sexton.torture.check", str(run.save())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as checking:
        assert checking.stdout is not None
        assert checking.stderr is not None
        checking.stdout.close()
        assert checking.stderr.read() == b""
    assert checking.returncode == 141
