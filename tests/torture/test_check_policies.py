"""Policies of schedules: histories by hand, on both sides of each of the checker's bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from sexton.torture.check.evidence import Evidence
from sexton.torture.check.folder import Folder

from .by_hand import BEGINS, SECOND, Line
from .story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "run")


# ── overlap, as a reason ────────────────────────────────────────────────────


def _overlap_after_an_end(story: Story, before: float) -> None:
    story.begin(overlap="skip")
    story.fire(10, job=1)
    story.end(20 - before, 1, fence=7)
    story.fire(20, decision="overlap")


def test_an_overlap_with_a_job_that_was_over_is_seen(story: Story) -> None:
    _overlap_after_an_end(story, 2.5)
    [what] = story.found("reasons-hold")
    assert "its jobs were over" in what


def test_a_commit_is_seen_a_little_after_it_was_written(story: Story) -> None:
    _overlap_after_an_end(story, 1.5)
    assert not story.found("reasons-hold")


@pytest.mark.parametrize(
    ("began", "ended", "many"),
    [
        (10, 11, 1),  # over before the job was
        (13, 14, 1),  # over for long
        (16, 19, 1),  # not yet
        (13, 19, 0),
    ],
)
def test_as_long_as_postgresql_is_in_trouble_a_commit_may_take_longer(
    story: Story, began: float, ended: float, many: int
) -> None:
    _overlap_after_an_end(story, 8)
    story.fault(began, ended, "postgres")
    assert len(story.found("reasons-hold")) == many


def test_a_task_that_commits_its_own_end_is_over_when_it_says_so(story: Story) -> None:
    _overlap_after_an_end(story, 5)
    story.effect(19, 1, fence=7)
    assert story.found("reasons-hold")
    story.effect(21, 1, fence=7)
    assert not story.found("reasons-hold")


# ── what is due ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("after", "many"), [(11.5, 0), (15.5, 1)])
def test_a_fire_is_not_due_because_it_is_called_so(story: Story, after: float, many: int) -> None:
    story.begin(overlap="allow")
    story.fire(10, 10 + after, job=1)
    assert len(story.found("reasons-hold")) == many


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"misfire": "skip"}, "misfire=skip"),
        ({"misfire": "all", "grace": 20}, "after its grace"),
        ({"misfire": "latest"}, "not the latest"),
        ({"misfire": "all"}, None),
    ],
)
def test_what_is_late_goes_by_its_policy(story: Story, said: Line, what: str | None) -> None:
    story.begin(overlap="allow", **said)
    story.fire(10, 47, job=1, kind="catch_up")
    found = story.found("reasons-hold")
    assert [what in each for each in found] == [True] if what else not found


# ── what is passed over ─────────────────────────────────────────────────────


def _caught_up(story: Story, gap: tuple[float, float], fires: int | None, fire: float) -> list[str]:
    story.begin(overlap="allow")
    story.fire(fire, 52, job=1, kind="catch_up")
    story.gap(*gap, 52, "coalesced", fires=fires)
    story.changes[-1]["tx"] = story.changes[-2]["tx"]
    return story.found("reasons-hold")


@pytest.mark.parametrize(
    ("gap", "fires", "fire", "what"),
    [
        ((10, 40), 4, 50, None),
        ((10, 40), None, 50, None),
        ((10, 40), 5, 50, "is of 4 fires, not of 5"),
        ((10, 60), 6, 50, "ends after it was decided"),
        ((0, 40), 5, 50, "reaches beyond its version"),
        ((15, 40), None, 50, "not from one instant"),
        ((10, 45), None, 50, "not from one instant"),
        ((10, 30), 3, 50, "not into the fire after it"),
        ((10, 50), 5, 50, "not into the fire after it"),
    ],
)
def test_a_gap_is_of_what_was_there(
    story: Story, gap: tuple[float, float], fires: int | None, fire: float, what: str | None
) -> None:
    found = _caught_up(story, gap, fires, fire)
    assert [what in each for each in found] == [True] if what else not found


def test_fires_are_not_coalesced_into_nothing(story: Story) -> None:
    story.begin(overlap="allow")
    story.move(52, 60, late=True)
    story.gap(10, 40, 52, "coalesced", fires=4)
    story.together(2)
    [what] = story.found("reasons-hold")
    assert "not into the fire after it" in what


def test_a_backfill_may_have_made_what_others_are_coalesced_into(story: Story) -> None:
    story.begin(overlap="allow")
    story.fire(50, 51, job=1, kind="backfill")
    story.move(52, 60, late=True)
    story.gap(10, 40, 52, "coalesced", fires=4)
    story.together(2)
    assert not story.found("reasons-hold")


# ── one after the other ─────────────────────────────────────────────────────


@pytest.mark.parametrize("overlap", ["queue_one", "queue_all", "replace"])
def test_a_job_that_runs_beside_another_of_its_line_is_seen(story: Story, overlap: str) -> None:
    story.begin(overlap=overlap)
    story.fire(10, job=1)
    story.claim(10.1, 1, 1, due=10)
    story.fire(20, job=2)  # and was not told to wait
    story.ask_to_end(20.1, 1)
    assert not story.found("overlap-policy")
    story.claim(20.2, 2, 2, due=20)
    [what] = story.found("overlap-policy")
    assert "job 2 was claimed while job 1" in what


def test_who_was_redriven_or_backfilled_is_waited_for_by_nobody(story: Story) -> None:
    story.begin(overlap="queue_all")
    story.fire(10, job=1)
    story.end(11, 1)
    story.job(12, 1, schedule=1, fire_at=story.at(10))
    story.fire(10.5, 13, job=2, kind="backfill")
    story.fire(20, job=3)
    story.claim(20.1, 3, 1, due=20)
    assert not story.found("overlap-policy")


def test_jobs_of_a_version_that_does_not_look_are_forgotten_but_for_the_last(story: Story) -> None:
    story.begin(overlap="allow")
    story.fire(10, job=1)
    story.fire(20, job=2)
    story.begin(25, overlap="queue_one")
    story.end(29, 2)
    story.fire(30, job=3)
    story.claim(30.1, 3, 1, due=30)
    assert not story.found("overlap-policy"), "nobody knows of job 1 any more"
    story.changes = [each for each in story.changes if each["op"] != "D"]
    [what] = story.found("overlap-policy")
    assert "job 3 was claimed while job 2" in what


# ── replacing ───────────────────────────────────────────────────────────────


def _node(story: Story, id: int) -> None:
    node = {"name": f"node-{id}", "pid": id, "started": BEGINS, "lease": BEGINS, "gone": None}
    story.change(0, "node", "I", id, now=node)


def _replaced(story: Story) -> None:
    """By a fire of node 1, at 20 s; node 2 leads, and worker 1 runs the job."""
    _leads(story, 2)
    _node(story, 1)
    story.worker(0, 1)
    story.changes[-1]["now"]["name"] = "worker-1"
    story.run["stopped_at"] = story.at(100)
    story.begin(overlap="replace")
    story.fire(10, job=1)
    story.claim(10.1, 1, 1, due=10)
    story.fire(20, job=2, after=1)


def test_who_is_replaced_and_never_asked_to_end_is_seen(story: Story) -> None:
    _replaced(story)
    [what] = story.found("overlap-policy")
    assert "job 1 was replaced" in what


@pytest.mark.parametrize(("after", "many"), [(1, 0), (6, 1)])
def test_who_is_replaced_is_asked_soon(story: Story, after: float, many: int) -> None:
    _replaced(story)
    story.ask_to_end(20 + after, 1)
    assert len(story.found("overlap-policy")) == many


@pytest.mark.parametrize(("after", "many"), [(4, 0), (6, 1)])
def test_if_the_node_died_that_fired_the_leader_asks_instead(
    story: Story, after: float, many: int
) -> None:
    _replaced(story)
    story.fault(20, 21, "node-1", "kill")
    story.ask_to_end(20 + after, 1)
    assert len(story.found("overlap-policy")) == many


@pytest.mark.parametrize(("after", "many"), [(14, 0), (16, 1)])
@pytest.mark.parametrize("whom", ["node-2", "worker-1", "workers", "api-1", "apis"])
def test_if_the_leader_is_gone_or_somebody_may_have_it_locked_it_takes_longer(
    story: Story, whom: str, after: float, many: int
) -> None:
    _replaced(story)
    story.fault(18, 19, whom, "stop")
    story.ask_to_end(20 + after, 1)
    assert len(story.found("overlap-policy")) == many


@pytest.mark.parametrize(
    ("whom", "began"), [("worker-2", 18), ("http-api-1", 18), ("worker-1", 2), ("api-1", 26)]
)
def test_what_befell_another_or_at_another_time_keeps_nobody_from_being_asked(
    story: Story, whom: str, began: float
) -> None:
    _replaced(story)
    story.fault(began, began + 1, whom, "stop")
    story.ask_to_end(26, 1)
    assert len(story.found("overlap-policy")) == 1


@pytest.mark.parametrize(("after", "many"), [(50, 0), (70, 1)])
def test_if_the_leader_died_as_well_whoever_leads_next_asks(
    story: Story, after: float, many: int
) -> None:
    _replaced(story)
    story.fault(20, 21, "node-1", "kill")
    story.fault(20, 21, "node-2", "kill")
    story.ask_to_end(20 + after, 1)
    assert len(story.found("overlap-policy")) == many


def _leads(story: Story, node: int) -> None:
    _node(story, node)
    was = {"node": None, "term": 0, "lease": None, "node_lease": None, "node_gone": None}
    story.change(0, "leader", "U", node, was=was, now={"node": node, "term": 1, "lease": BEGINS})


# ── reasons to be late ──────────────────────────────────────────────────────


def _late(story: Story, at: float = 31, owned_until: float | None = None) -> None:
    """What is due at 20 s is taken for late at 31 s; node 1 owns it, node 2 leads."""
    _leads(story, 2)
    _node(story, 1)
    share = {"epoch": 1, "term": 1, "partitions": [*range(256)]}
    story.change(0, "ownership", "U", 1, was={"leader": 2, "term": 1}, now=share)
    story.begin()
    if owned_until is not None:
        story.change(owned_until, "ownership", "D", 1, was={"leader": 2, "term": 1}, now=share)
    _stands(story, at, was=(20, False), now=(20, True))


def _stands(
    story: Story, at: float, was: tuple[float, bool], now: tuple[float | None, bool]
) -> None:
    """When it is next, and whether it is late."""
    rest = {"stamp": 1, "scheduled": None, "left": None, "last": None, "tenant": 1}
    before = {"next": story.at(was[0]), "stamp": 1, "late": was[1]}
    next = None if now[0] is None else story.at(now[0])
    story.change(at, "due", "U", 1, was=before, now={**rest, "next": next, "late": now[1]})


def test_what_is_late_for_no_reason_is_seen(story: Story) -> None:
    _late(story)
    [what] = story.found("reasons-hold")
    assert "nothing had happened to whoever was to do it" in what


@pytest.mark.parametrize("whom", ["node-1", "node-2", "postgres", "nodes", "host", "everyone"])
def test_what_befell_its_owner_the_leader_or_all_is_a_reason_to_be_late(
    story: Story, whom: str
) -> None:
    _late(story)
    story.fault(19, 22, whom, "stop")
    assert not story.found("reasons-hold")


@pytest.mark.parametrize(
    ("whom", "began"), [("node-3", 19), ("worker-1", 19), ("node-1", 11), ("postgres", 11)]
)
def test_what_befell_another_or_before_is_no_reason_to_be_late(
    story: Story, whom: str, began: float
) -> None:
    _late(story)
    story.fault(began, began + 3, whom, "stop")
    assert len(story.found("reasons-hold")) == 1


@pytest.mark.parametrize(
    ("back", "asked", "excused"),
    [
        ({}, 44, True),
        ({"node-1": 30, "node-2": 33}, 32, True),
        ({"node-1": 30, "node-2": 33, "worker-1": 44}, 34, False),
        ({"node-1": 30, "api-1": 44}, 34, False),
        ({"node-1": 30, "node-2": 80}, 69, True),
        ({"node-1": 30, "node-2": 80}, 71, False),
        ({"node-1": 20.1, "node-2": 44}, 43, True),
        ({"node-1": 300}, 69, True),
        ({"node-1": 300}, 71, False),
    ],
)
def test_an_outage_excuses_everybody_until_the_nodes_are_back_and_not_for_ever(
    story: Story, back: dict[str, float], asked: float, excused: bool
) -> None:
    """It was to last from 20 to 25 s, and those who start anew are ready when they say so; who said
    something before had been away in another."""
    _outage(story, back)
    evidence = Evidence(Folder(story.save()))
    assert evidence.all_in_trouble(story.at(asked), story.at(asked)) is excused


def test_who_is_not_back_after_an_outage_is_excused_alone(story: Story) -> None:
    _outage(story, {"node-1": 30, "api-1": 44})
    evidence = Evidence(Folder(story.save()))
    at = story.at(40)
    assert evidence.apis_in_trouble(at, at)
    assert not evidence.apis_in_trouble(story.at(45), story.at(45))


def _outage(story: Story, back: dict[str, float]) -> None:
    line = {"n": 1, "fault": "outage", "target": "everyone", "for_s": 5}
    over = max(back.values(), default=44)
    notes = [
        {"at": story.at(at), "event": "note", "what": "came back", "target": name, "detail": {}}
        for name, at in back.items()
    ]
    begin = {"at": story.at(20), "event": "begin", **line, "detail": {}}
    end = {"at": story.at(over), "event": "end", **line, "detail": {}}
    faults = story.folder / "faults.jsonl"
    faults.write_text("".join(json.dumps(each) + "\n" for each in (begin, *notes, end)))


def test_what_befell_it_at_first_is_no_reason_for_a_minute(story: Story) -> None:
    _late(story, at=80)
    story.fault(19, 22, "postgres", "restart")
    [what] = story.found("reasons-hold")
    assert "60.0 s late, and for 53.0 s nothing" in what


def test_a_minute_without_a_standby_is_a_reason_to_be_late(story: Story) -> None:
    _late(story, at=80)
    story.fault(19, 22, "postgres", "promote")
    story.note(22, "sync lost", "postgres")
    story.note(78, "in sync", "postgres")
    assert not story.found("reasons-hold")


def test_that_nobody_has_its_partition_is_no_reason_to_be_late(story: Story) -> None:
    _late(story, at=40, owned_until=20)
    story.fault(19, 45, "node-1", "stop")
    [what] = story.found("reasons-hold")
    assert "for 15.0 s nothing had happened" in what


def test_what_befalls_a_node_when_it_is_no_longer_in_charge_counts_for_nothing(
    story: Story,
) -> None:
    _late(story, at=40, owned_until=20)
    story.fault(35, 36, "node-1", "stop")
    [what] = story.found("reasons-hold")
    assert "for 20.0 s nothing had happened" in what


def test_a_silence_that_a_pause_puts_an_end_to_is_seen(story: Story) -> None:
    story.begin()
    _stands(story, 60, was=(20, False), now=(None, False))
    [what] = story.found("reasons-hold")
    assert "it was moved on 40.0 s late" in what


def test_before_everybody_was_started_nobody_is_late(story: Story) -> None:
    story.run["began_at"] = story.at(56)
    story.begin()
    _stands(story, 60, was=(20, False), now=(30, False))
    assert not story.found("reasons-hold")


@pytest.mark.parametrize(("others", "found"), [(0, 1), (200, 1), (600, 0)])
def test_what_is_late_waits_for_others_to_be_caught_up_with_and_no_longer(
    story: Story, others: int, found: int
) -> None:
    """At fifty a second, and five more."""
    _late(story)
    story.fault(19, 31, "nodes", "outage")
    for nth in range(others):
        _stands(story, 35, was=(20, True), now=(20 + nth / 1000 + 0.001, True))
        story.changes[-1]["id"] = 2 + nth
    _stands(story, 50, was=(20, True), now=(60, False))
    said = story.found("reasons-hold")
    assert len(said) == found
    assert all("it was late for 19.0 s" in what for what in said)


def test_a_schedule_that_is_quarantined_for_no_reason_is_seen(story: Story) -> None:
    story.begin()
    story.begin(5, state="quarantined")
    [what] = story.found("reasons-hold")
    assert "quarantined for no reason" in what


@pytest.mark.parametrize(("many", "found"), [(11, 1), (10, 0)])
def test_overlaps_with_jobs_that_have_just_ended_are_few(
    story: Story, many: int, found: int
) -> None:
    story.begin()
    for nth in range(1, 2 * many, 2):
        story.fire(10 * nth, job=nth)
        story.end(10 * nth + 9, nth)
        story.fire(10 * nth + 10, decision="overlap")
    assert len(story.found("reasons-hold")) == found


# ── numbers and pauses ──────────────────────────────────────────────────────


def _ledger(story: Story, *instants: float) -> None:
    rows = [
        {"schedule": 1, "scheduled": story.at(each), "decision": "fired", "kind": "due"}
        for each in instants
    ]
    story.dumps["fire"] = [{**each, "fire_at": each["scheduled"]} for each in rows]
    story.worker(60, 1)


def test_a_schedule_that_ends_before_its_max_fires_is_seen(story: Story) -> None:
    story.begin(overlap="allow", max_fires=3)
    for nth in (1, 2, 3):
        story.fire(10 * nth, job=nth)
    [*_, last] = [each for each in story.changes if each["tab"] == "due"]
    last["now"]["next"] = None
    _ledger(story, 10, 20, 30)
    assert not story.found("every-fire-decided")
    story.changes[0]["now"]["said"]["max_fires"] = 5
    assert len(story.found("every-fire-decided")) == 2, "at 40 and 50 s"
    story.changes[0]["now"]["said"]["max_fires"] = 2
    [what] = story.found("by-the-rule-in-force")
    assert "as often as it may" in what


def test_what_was_fired_counts_after_an_edit_and_not_after_it_was_added_again(
    story: Story,
) -> None:
    story.begin(overlap="allow", max_fires=2)
    story.fire(10, job=1)
    story.begin(15, overlap="skip", max_fires=2)
    story.fire(20, job=2)
    story.begin(25, overlap="skip", max_fires=2, state="cancelled")
    story.begin(35, overlap="allow", max_fires=2)
    story.fire(40, job=3)
    story.fire(50, job=4)
    _ledger(story, 10, 20, 40, 50)
    assert not story.found("by-the-rule-in-force")
    assert not story.found("every-fire-decided")


@pytest.mark.parametrize(("resumed", "since", "many"), [(22, 20, 0), (22, 22, 1), (12, 12, 0)])
def test_what_is_due_after_the_end_of_a_pause_is_not_the_pauses(
    story: Story, resumed: float, since: float, many: int
) -> None:
    story.begin(overlap="allow")
    story.begin(5, overlap="allow", state="paused")
    story.changes[-1]["now"]["until"] = story.at(20)
    story.begin(resumed, overlap="allow")
    story.changes[-1]["now"]["since"] = story.at(since)
    found = [each for each in story.found("every-fire-decided") if "beyond its end" in each]
    assert len(found) == many


@pytest.mark.parametrize(("until", "many"), [(20, 1), (95, 0)])
def test_a_pause_that_never_ends_is_seen(story: Story, until: float, many: int) -> None:
    story.run |= {"ready_at": story.at(30), "stopped_at": story.at(100)}
    story.begin(overlap="allow")
    story.begin(5, overlap="allow", state="paused")
    story.changes[-1]["now"]["until"] = story.at(until)
    found = [each for each in story.found("every-fire-decided") if "still paused" in each]
    assert len(found) == many


def test_what_a_pause_left_out_is_to_be_recorded(story: Story) -> None:
    story.begin(overlap="allow")
    story.begin(5, overlap="allow", state="paused")
    story.begin(35, overlap="allow")
    story.move(35, 70)
    _ledger(story, 40, 50, 60)
    assert len(story.found("every-fire-decided")) == 3, "at 10, 20 and 30 s"
    passed = {"schedule": 1, "decision": "paused", "first": story.at(10), "last": story.at(30)}
    story.dumps["gap"] = [passed]
    assert not story.found("every-fire-decided")


def test_what_calendars_took_out_until_an_edit_is_to_be_recorded(story: Story) -> None:
    """The fire of 20 s is due and not fired when it is superseded at 45 s."""
    ranges = [[story.at(25), story.at(45)]]
    story.dumps["calendars"] = [{"tenant": "default", "name": "closed", "ranges_us": ranges}]
    story.begin(exclude=["closed"])
    story.begin(45)
    story.move(45, 60)
    _ledger(story, 10, 50)
    superseded = {"schedule": 1, "decision": "superseded", "first": story.at(20)}
    story.dumps["gap"] = [{**superseded, "last": story.at(20)}]
    found = story.found("every-fire-decided")
    assert ["version 1 take it out" in each for each in found] == [True, True], "at 30 and 40 s"
    excluded = {"schedule": 1, "decision": "excluded", "first": story.at(30), "last": story.at(40)}
    story.dumps["gap"].append(excluded)
    assert not story.found("every-fire-decided")


def test_what_calendars_take_out_after_the_last_fire_is_nobodys_concern(story: Story) -> None:
    ranges = [[story.at(25), story.at(3600)]]
    story.dumps["calendars"] = [{"tenant": "default", "name": "closed", "ranges_us": ranges}]
    story.begin(exclude=["closed"], ends_at="2026-09-21T14:14:20+00:00")  # at 60 s
    story.worker(90, 1)
    _ledger(story, 10, 20)
    assert not story.found("every-fire-decided")


# ── the rate ────────────────────────────────────────────────────────────────


def _misfires(story: Story, many: int, over: float, **given: Any) -> None:
    """Each of its own schedule, which nobody has heard of."""
    for nth in range(many):
        now = {
            **{"fire_at": BEGINS - 60 * SECOND, "scheduled": BEGINS - 60 * SECOND},
            **{"decided": BEGINS, "job": None, "term": 1, "node": None},
            **{"decision": "fired", "kind": "catch_up", **given},
        }
        story.change(over * nth / many, "fire", "I", nth, now=now)


def test_a_rate_that_is_a_fifth_too_high_is_seen(story: Story) -> None:
    _misfires(story, 12 * 52, 12)
    assert not story.found("catch-up-rate")
    story.changes.clear()
    _misfires(story, 12 * 60, 12)
    [what] = story.found("catch-up-rate")
    assert "in 10 s, at a rate of 50 a second" in what


def test_misfires_that_are_called_due_go_by_the_rate_too(story: Story) -> None:
    _misfires(story, 12 * 60, 12, kind="due")
    assert story.found("catch-up-rate")


def test_what_is_usual_is_not_believed_if_nobody_saw_it(story: Story) -> None:
    story.change(0, "installation", "U", None, now={"usual": 1000.0, "asked": None})
    _misfires(story, 12 * 60, 12)
    assert story.found("catch-up-rate")
    story.changes[0]["now"] = {"usual": 20.0, "asked": 60.0}
    assert not story.found("catch-up-rate"), "somebody has said so"
