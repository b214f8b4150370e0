"""Crash points: a sample of them passes, and what judges them can say no."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from importlib import resources
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from sexton import Sexton, sql
from sexton.torture.crash import sweep as module
from sexton.torture.crash.__main__ import main
from sexton.torture.crash.places import Seen, end_of, missing
from sexton.torture.crash.point import WAYS, Point, Verdict
from sexton.torture.crash.site import Site
from sexton.torture.crash.stage import VICTIM, Stage, TooLate
from sexton.torture.crash.steps import INSERT, STEPS, SUCCEED, Step
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
    ["leave", "withdraw", "enqueue", "backfill"],
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
    "backfills_count": """
        insert into sexton.backfill (
            schedule_id, from_at, to_at, next_at, rate, created_at, finished_at, fired)
        values (1, now(), now(), now(), 1, now(), now(), 1)""",
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
    "one_job_per_key": "insert into crash.acknowledged (key, job_id) values ('k', 1), ('k', 2)",
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
    places = [f"fire/Bind {at}/Bind" for at in range(1, 42)]
    every = {Point("fire", way, at) for way in WAYS for at in places}
    samples = [
        point for seed in range(200) for point in Choice(every=11, seed=seed).points("fire", places)
    ]
    assert set(samples) == every
    assert {*Choice().points("fire", places)} == every


def test_every_step_is_tried() -> None:
    assert sorted(step for group in GROUPS for step in group) == sorted(STEPS)


def test_an_attempt_of_the_victims_own_is_no_rescue(tmp_path: Path) -> None:
    """As when it tries again what failed, and is cut off then: somebody else has to go on."""
    site = cast(Site, None)
    there = Stage(site, "point", tmp_path, cast(asyncpg.Connection, None), cast(Sexton, None))

    def begin(job: int, by: str) -> None:
        with there.effects_file.open("a") as file:
            file.write(json.dumps({"event": "begin", "job": job, "by": by}) + "\n")

    begin(1, VICTIM)
    begin(1, VICTIM)
    assert there.overtaken(0)
    assert not there.overtaken(0, VICTIM)
    assert not there.overtaken(2), "that was before the cut"
    begin(2, "substitute")
    assert not there.overtaken(2, VICTIM), "that is another job"
    begin(1, "substitute")
    assert there.overtaken(2, VICTIM)


def swept(passed: int, missed: int, *more: Verdict, steps: Sequence[str] = ("fire",)) -> Sweep:
    """So many points of the first step; the steps are those that were tried."""
    message = Tripped("client", "Query", 1, 1, "select")
    places = [f"fire/Bind {at}/Bind" for at in range(1, passed + missed + 1)]
    verdicts = [
        Verdict(Point(steps[0], "kill", place), message if nth < passed else None, (), 1.0)
        for nth, place in enumerate(places)
    ]
    return Sweep([*verdicts, *more], {step: Seen([places]) for step in steps})


def test_a_sweep_is_well_only_if_every_message_that_is_always_there_was_reached() -> None:
    assert swept(100, 0).well
    assert not swept(99, 1).well
    assert not swept(0, 0).well
    failed = Verdict(Point("fire", "kill", "fire/Bind 1/Bind"), None, ("nothing_lost: job 1",), 1.0)
    assert not swept(1000, 0, failed).well


def test_a_step_of_which_no_point_has_passed_is_no_success() -> None:
    missed = Verdict(Point("claim", "stop", "claim/Bind 7/Sync"), None, (), 1.0, tries=3)
    found = swept(1000, 0, missed, steps=["fire", "claim"])
    assert not found.well
    table = found.table().splitlines()
    named = "claim stop at claim/Bind 7/Sync"
    assert f"not reached: {named} in 3 tries: the process had less to say" in table
    assert "no point of claim has passed" in table
    told = as_json(found)
    assert told["not_reached"] == [{"step": "claim", "way": "stop", "at": "claim/Bind 7/Sync"}]
    assert told["unproved"] == ["claim"]


def test_messages_that_are_not_always_there_may_be_missed() -> None:
    found = swept(40, 1)
    assert not found.well
    [missed] = found.missed
    others = [place for place in found.seen["fire"].places if place != missed.point.at]
    found.seen["fire"] = Seen([others, [*others, missed.point.at], others])
    assert found.well
    told = "not always there: fire at fire/Bind 41, in 1 of 3 looks: 1 of 1 not reached"
    assert told in found.table().splitlines()
    found.seen["fire"] = Seen([[*others, missed.point.at]] * 3)
    assert not found.well


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """For sweeps whose looks and points the test makes up."""

    async def run(site: Site, step: Step, point: Point) -> Verdict:
        return Verdict(point, Tripped("client", "Query", 1, 1, "select"), (), 0.0)

    monkeypatch.setattr(module, "site", lambda **_: nullcontext())
    monkeypatch.setattr(module, "run", run)


@pytest.mark.usefixtures("nowhere")
async def test_what_any_look_has_seen_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(["abc", "abcde", "afc"])

    async def messages(site: Site, step: Step) -> list[str]:
        return [*next(looks)]

    monkeypatch.setattr(module, "messages", messages)
    found = await sweep(Choice(["claim"], ["kill"]), looks=3)
    assert sorted(each.point.at for each in found.verdicts) == [*"abcdef"]
    assert [place for place in "abcdef" if found.seen["claim"].always(place)] == ["a", "c"]


def _exchange(statement: str, nth: int) -> list[str]:
    return [f"{statement}/Bind {nth}/{kind}" for kind in ("Bind", "Sync", "ReadyForQuery")]


def test_a_step_ends_with_the_last_of_the_exchanges_that_it_needs() -> None:
    """However often others come in between; to parse a statement is not to run it."""
    needs = {"fire": 1, "due": 2}
    prepared = ["fire/Parse 1/Parse", "fire/Parse 1/ReadyForQuery"]
    places = [*_exchange("due", 1), *prepared, *_exchange("due", 2), *_exchange("due_next", 1)]
    assert end_of(needs, places) is None
    places += _exchange("fire", 1)
    assert end_of(needs, places) == len(places)
    assert end_of(needs, places + _exchange("due", 3)) == len(places)
    assert missing({"assign": 1, "due": 2, "fire": 2}, places) == ["assign", "fire"]


def test_as_to_a_pooler_a_step_ends_with_the_commit_of_what_was_said_last() -> None:
    places, links = _exchange("fire", 1), [1, 1, 1]
    assert end_of({"fire": 1}, places, links) is None
    places, links = places + _exchange("commit", 1), [*links, 2, 2, 2]
    assert end_of({"fire": 1}, places, links) is None, "that is another connection's"
    places, links = places + _exchange("commit", 2), [*links, 1, 1, 1]
    assert end_of({"fire": 1}, places, links) == 9
    assert end_of({"fire": 1, "commit": 2}, places, links) == 9, "it is one itself"


@pytest.mark.usefixtures("nowhere")
async def test_a_look_in_which_something_is_missing_is_repeated_and_then_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([None, ["a"], None, ["a"], *[None] * 9])

    async def messages(site: Site, step: Step) -> list[str]:
        look = next(looks)
        if look is None:
            raise TooLate(f"{step.name} was over without assign")
        return look

    monkeypatch.setattr(module, "messages", messages)
    found = await sweep(Choice(["balance"], ["kill"]), looks=2)
    assert found.well
    found = await sweep(Choice(["balance"], ["kill"]), looks=2)
    assert [each.wrong for each in found.failed] == [("balance was over without assign",)]
    assert not found.well


def test_a_message_that_is_mostly_there_is_cut_in_one_way_at_least() -> None:
    message = Tripped("client", "Query", 1, 1, "select")
    seen = {"fire": Seen([["a", "b"], ["a", "b"], ["a"], ["a"]])}
    ways = ("kill", "stop", "reset")

    def found(reached: Sequence[str]) -> Sweep:
        cut = [Verdict(Point("fire", way, "a"), message, (), 1.0) for way in ways]
        for way in ways:
            cut.append(
                Verdict(Point("fire", way, "b"), message if way in reached else None, (), 1.0)
            )
        return Sweep(cut, seen)

    assert found(["stop"]).well
    assert not found([]).well
    assert "fire was never cut at b" in found([]).table()
    seen["fire"] = Seen([["a", "b"], ["a"], ["a"]])
    assert found([]).well


def test_a_statement_without_a_name_is_known_by_how_it_begins() -> None:
    places = ["insert into crash.effect/Query 1/ReadyForQuery"]
    assert end_of({"insert into crash": 1}, places) == 1
    assert end_of({"due": 1}, ["due_next/Bind 1/ReadyForQuery"]) is None


@pytest.mark.parametrize("step", STEPS)
def test_every_statement_that_a_step_needs_is_one_that_there_is(step: str) -> None:
    unknown = {*STEPS[step].needs} - {*sql.names()}
    assert unknown <= {"BEGIN", "COMMIT", INSERT, SUCCEED}


def test_a_point_that_is_not_reached_is_tried_again_named_and_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--step", "settle", "--way", "reset", "--at", "settle/Bind 99/Sync", "--quiet"]
    monkeypatch.setattr(sys, "argv", ["crash", *words])
    monkeypatch.setattr(module, "LOOKS", 1)
    monkeypatch.setattr(module, "TRIES", 2)
    assert main() == 2
    assert "no message at 'settle/Bind 99/Sync' was seen" in capsys.readouterr().err
    found = asyncio.run(sweep(Choice(["settle"], ["reset"], at=words[5])))
    assert not found.well
    assert "not reached: settle reset at settle/Bind 99/Sync in 2 tries: " in found.table()
    assert "1 points: 0 passed, 0 failed, 1 not reached" in found.table()


@pytest.mark.parametrize("group", range(len(GROUPS)), ids=lambda group: GROUPS[group][0])
async def test_whatever_message_is_cut_nothing_is_lost_doubled_or_stale(group: int) -> None:
    """One message of each step in three of the ways; `python -m sexton.torture.crash` tries all."""
    ways = ([*WAYS] * 2)[group : group + 3]
    found = await sweep(Choice(GROUPS[group], ways, every=ONE, seed=SEED), lanes=8, looks=1)
    assert not found.failed, "\n\n".join(map(report, found.failed))
    reached = Counter(each.point.way for each in found.verdicts if each.reached)
    assert reached.keys() == {*ways}, found.table()


async def test_a_sweep_that_is_interrupted_says_so_and_leaves_nothing_behind() -> None:
    words = (sys.executable, "-m", "sexton.torture.crash", "--step", "settle", "--lanes", "2")
    sweeping = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert sweeping.stdout is not None
    await sweeping.stdout.readline()
    sweeping.send_signal(signal.SIGINT)
    _, complained = await sweeping.communicate()
    assert (sweeping.returncode, complained) == (130, b"stopped; nothing was left behind\n")


def test_a_place_that_no_step_has_is_told_from_one_that_was_missed() -> None:
    found = Sweep(seen={"settle": Seen([["settle/Bind 1/Sync"]])})
    assert found.unknown("settle/Bind 7/Sync")
    assert not found.unknown("settle/Bind 1/Sync")
