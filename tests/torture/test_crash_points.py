"""Crash points: a sample of them passes, and what judges them can say no."""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources

import asyncpg
import pytest

from sexton.torture.crash import sweep as module
from sexton.torture.crash.__main__ import main
from sexton.torture.crash.point import WAYS, Point, Verdict
from sexton.torture.crash.site import Site
from sexton.torture.crash.steps import STEPS, Step
from sexton.torture.crash.sweep import Choice, Sweep, as_json, report, sweep
from sexton.torture.crash.verify import invariants
from sexton.torture.proxy import Tripped

ONE = 10**6  # of so many messages
SEED = 5
GROUPS = [
    ["fire", "first_fire", "catch_up", "heartbeat"],
    ["claim", "limit", "renew", "settle"],
    ["answer", "transaction", "retry", "reap"],
    ["handover", "takeover", "balance", "replace"],
]

# For each invariant: a state that it must not accept.
NODE = """
insert into sexton.node (name, host, pid, version, started_at, renewed_at, lease_until, lease_for)
values ('n', 'h', 1, '0', now(), now(), now(), '1 s');
"""
FIRE = """
insert into sexton.fire (
    schedule_id, fire_at, scheduled_at, decided_at, job_id, term, node_id, decision, kind)
values (1, now(), now(), now() - interval '%s', 1, 1, 1, 'fired', 'due');
"""
JOB = "insert into sexton.job (id, task) values (1, 't');"
ATTEMPT = """
insert into sexton.attempt (
    job_id, fence, created_at, due_at, finished_at, attempt, outcome, next, task, queue)
values (1, %s, now(), now(), now(), 1, 'succeeded', 'succeeded', 't', 'default');
"""
SABOTAGE = {
    "one_job_per_fire": FIRE % "0 s",
    "every_fire_decided": "insert into crash.expected_fire values (1, now())",
    "none_early": FIRE % "1 s",
    "fired_by_the_owner": FIRE % "0 s"
    + """
        insert into sexton.due (schedule_id, next_fire_at, anchor, rule_id, partition)
        values (1, 'infinity', now(), 1, 1);
        insert into crash.owned (at, node_id, partitions)
        values (now() - interval '1 s', 1, '{0, 1}'), (now() - interval '1 ms', 1, '{0}')""",
    "one_owner": NODE + "insert into sexton.ownership values (1, 1, 1, '{0, 1}')",
    "terms_grow": "insert into crash.led (node_id, term) values (1, 2), (2, 2)",
    "nothing_lost": "insert into crash.expected_job values (1, false)",
    "terminal_is_terminal": ATTEMPT % 1
    + "insert into crash.claimed (job_id, fence, attempt) values (1, 2, 2)",
    "fences_grow": "insert into crash.claimed (job_id, fence) values (1, 7), (1, 6)",
    "no_stale_settlement": "insert into crash.claimed (job_id, fence) values (1, 7);"
    "insert into crash.settled (job_id, fence) values (1, 6)",
    "every_claim_settled": "insert into crash.claimed (job_id, fence, attempt) values (1, 6, 1)",
    "no_key_left": "insert into sexton.held_key (task, key, job_id) values ('t', 'k', 1)",
    "replaced_are_asked": JOB
    + "insert into sexton.replaced (job_id, attempts_before) values (1, 0)",
    "effects_with_their_settlement": ATTEMPT
    % 1
    + "insert into crash.expected_job values (1, true);"
    "insert into crash.effect values (1, 1), (1, 2)",
    "limits_kept": """
        insert into sexton.task (
            name, queue, priority, max_attempts, retry_base, retry_factor, retry_cap, max_running,
            declared_at)
        values ('t', 'q', 0, 1, 1, 1, 1, 1, now());
        insert into crash.claimed (job_id, fence, task) values (1, 1, 't'), (2, 2, 't')""",
}


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        watch = resources.files("sexton.torture.crash").joinpath("watch.sql")
        await connection.execute(watch.read_text())
        yield connection
    finally:
        await connection.close()


def test_every_invariant_has_a_sabotage() -> None:
    assert SABOTAGE.keys() == invariants().keys()


async def test_an_untouched_database_violates_nothing(database_url: str) -> None:
    async with watched(database_url) as connection:
        for name, statement in invariants().items():
            assert not await connection.fetch(statement), name


@pytest.mark.parametrize("name", SABOTAGE)
async def test_an_invariant_notices_its_violation(database_url: str, name: str) -> None:
    async with watched(database_url) as connection:
        await connection.execute(SABOTAGE[name])
        rows = await connection.fetch(invariants()[name])
        assert rows, name
        assert all(isinstance(row[0], str) for row in rows)


async def test_two_owners_of_one_partition_are_noticed_at_their_commit(database_url: str) -> None:
    async with watched(database_url) as connection:
        await connection.execute(
            "insert into sexton.ownership values (1, 1, 1, '{5}'), (2, 2, 1, '{5}')"
        )
        await connection.execute("delete from sexton.ownership")
        [row] = await connection.fetch(invariants()["one_owner"])
        assert row[0] == "partition 5 belonged to {1,2} at once"


def test_every_point_belongs_to_one_of_the_samples() -> None:
    every = {Point("fire", way, at) for way in WAYS for at in range(1, 42)}
    samples = [
        point for seed in range(200) for point in Choice(every=11, seed=seed).points("fire", 41)
    ]
    assert set(samples) == every
    assert {*Choice().points("fire", 41)} == every


def test_every_step_is_tried() -> None:
    assert sorted(step for group in GROUPS for step in group) == sorted(STEPS)


def swept(passed: int, missed: int, *more: Verdict, steps: Sequence[str] = ("fire",)) -> Sweep:
    """So many points of the first step; the steps are those that were tried."""
    message = Tripped("client", "Query", 1, 1, "select")
    verdicts = [
        Verdict(Point(steps[0], "kill", at), message if at <= passed else None, (), 1.0)
        for at in range(1, passed + missed + 1)
    ]
    return Sweep([*verdicts, *more], dict.fromkeys(steps, passed + missed))


def test_a_sweep_is_well_only_if_nearly_every_point_was_reached() -> None:
    assert swept(100, 0).well
    assert swept(99, 1).well
    assert not swept(98, 2).well
    assert not swept(34, 2900).well
    assert not swept(0, 0).well
    failed = Verdict(Point("fire", "kill", 1), None, ("nothing_lost: job 1",), 1.0)
    assert not swept(1000, 0, failed).well


def test_a_step_of_which_no_point_has_passed_is_no_success() -> None:
    missed = Verdict(Point("claim", "stop", 7), None, (), 1.0, tries=3)
    found = swept(1000, 0, missed, steps=["fire", "claim"])
    assert not found.well
    table = found.table().splitlines()
    assert "not reached: claim stop 7 in 3 tries: the process had less to say" in table
    assert "no point of claim has passed" in table
    told = as_json(found)
    assert told["not_reached"] == [{"step": "claim", "way": "stop", "at": 7}]
    assert told["unproved"] == ["claim"]


def test_messages_that_are_not_always_there_may_be_missed() -> None:
    found = swept(40, 10)
    assert not found.well
    found.least["fire"] = 40
    assert found.well
    found.least["fire"] = 41
    assert not found.well


async def test_the_last_messages_of_the_longer_exchange_are_cut_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths = iter([3, 5, 4])

    async def messages(site: Site, step: Step) -> list[str]:
        return ["message"] * next(lengths)

    async def run(site: Site, step: Step, point: Point) -> Verdict:
        return Verdict(point, Tripped("client", "Query", point.at, 1, "select"), (), 0.0)

    monkeypatch.setattr(module, "messages", messages)
    monkeypatch.setattr(module, "run", run)
    found = await sweep(Choice(["claim"], ["kill"]), looks=3)
    assert sorted(each.point.at for each in found.verdicts) == [1, 2, 3, 4, 5]
    assert (found.least, found.counts) == ({"claim": 3}, {"claim": 5})


def test_a_point_that_is_not_reached_is_tried_again_named_and_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--step", "claim", "--way", "reset", "--at", "9999", "--quiet"]
    monkeypatch.setattr(sys, "argv", ["crash", *words])
    assert main() == 1
    told = capsys.readouterr().out
    assert "not reached: claim reset 9999 in 3 tries: " in told
    assert "1 points: 0 passed, 0 failed, 1 not reached" in told


@pytest.mark.parametrize("group", range(len(GROUPS)), ids=lambda group: GROUPS[group][0])
async def test_whatever_message_is_cut_nothing_is_lost_doubled_or_stale(group: int) -> None:
    """One message of each step in three of the ways; `python -m sexton.torture.crash` tries all."""
    ways = ([*WAYS] * 2)[group : group + 3]
    found = await sweep(Choice(GROUPS[group], ways, every=ONE, seed=SEED), lanes=8, looks=1)
    assert not found.failed, "\n\n".join(map(report, found.failed))
    reached = Counter(each.point.way for each in found.verdicts if each.reached)
    assert reached.keys() == {*ways}, found.table()
