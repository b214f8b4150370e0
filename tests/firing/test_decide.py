"""From what was read to what is to be written: pure, each distinct question answered once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from sexton.domain.policy import Policy
from sexton.domain.schedule import Rule
from sexton.domain.when import Calendar, Definition
from sexton.flow import decide
from sexton.flow.decide import (
    _following,
    decide_due,
    decide_due_in_turns,
    decide_late,
    decide_late_in_turns,
)
from sexton.store.due import Batch, DueRow

from ..domain.when.instants import timetable, utc

NOON = utc("2026-03-01 12:00")
T = NOON.timestamp()
NO_LIMIT = 2**31 - 1


def rule(policy: dict[str, Any] | None = None, **when: Any) -> Rule:
    calendars = when.pop("calendars", None)
    return Rule(timetable(calendars, **when), Policy.of(**(policy or {})))


def row(id: int = 1, at: float = T, **given: Any) -> DueRow:
    read = {
        "stamp": 3,
        "rule": 7,
        "scheduled": None,
        "anchor": T,
        "fires_left": None,
        "last_job": None,
        "live": None,
        **given,
    }
    return DueRow(id=id, next_fire=at, **read)


def test_a_fire_is_at_its_time_and_the_next_follows() -> None:
    decisions = decide_due([row()], {7: rule(cron="*/5 * * * *")})
    batch = decisions.batch
    assert (batch.ids, batch.stamps, batch.were_due) == ([1], [3], [T])
    assert (batch.firing, batch.fires_at, batch.scheduled_for) == ([True], [T], [T])
    assert (batch.next_at, batch.next_scheduled) == ([T + 300], [None])
    assert batch.stay_late == [False]
    assert not batch.gap_ids
    assert not decisions.broken


def test_the_last_fire_has_none_after_it() -> None:
    assert decide_due([row()], {7: rule(at=NOON)}).batch.next_at == [None]


def test_each_distinct_question_is_asked_once() -> None:
    one, other = rule(cron="* * * * *"), rule(every=60)
    asked: list[float] = []

    class Counting:
        """A timetable that counts what it is asked."""

        def __init__(self, of: Rule) -> None:
            self.of = of.timetable

        def __getattr__(self, name: str) -> Any:
            return getattr(self.of, name)

        def after(self, *question: Any) -> Any:
            asked.append(question[0].timestamp())
            return self.of.after(*question)

    for each in (one, other):
        each.timetable = Counting(each)  # type: ignore[assignment]
    shared = [row(n, rule=7, anchor=T + n) for n in range(100)]
    assert decide_due(shared, {7: one}).batch.next_at == [T + 60] * 100
    assert asked == [T], "whatever their anchors: cron has none"
    asked.clear()
    anchored = [row(n, rule=8, anchor=T + n % 2) for n in range(100)]
    assert decide_due(anchored, {8: other}).batch.next_at == [T + 60, T + 1] * 50
    assert asked == [T, T]


def test_jitter_is_each_schedules_own_and_keeps_what_it_was_scheduled_for() -> None:
    jittered = rule(cron="* * * * *", jitter=30)
    read = [row(n, at=T + 1.25, scheduled=T) for n in (1, 2, 3)]
    batch = decide_due(read, {7: jittered}).batch
    assert batch.fires_at == [T + 1.25] * 3
    assert batch.scheduled_for == [T] * 3
    assert batch.next_scheduled == [T + 60] * 3
    assert len(set(batch.next_at)) == 3
    assert all(T + 60 <= at < T + 90 for at in batch.next_at if at is not None)
    expected = jittered.timetable.fire_at(NOON + timedelta(minutes=1), NOON, 2).timestamp()
    assert batch.next_at[1] == expected


def test_what_calendars_take_out_before_the_next_fire_is_recorded_with_this_one() -> None:
    lunch = Calendar.of(windows=["12:30-13:30"])
    gated = rule(cron="*/15 * * * *", exclude=["lunch"], calendars={"lunch": lunch})
    batch = decide_due([row(at=T + 900)], {7: gated}).batch
    assert batch.next_at == [T + 5400]
    assert (batch.gap_ids, batch.gaps_decision, batch.gaps_fires) == ([1], ["excluded"], [4])
    assert (batch.gaps_first, batch.gaps_last) == ([T + 1800], [T + 4500])


def test_jobs_are_looked_at_only_where_the_policy_asks() -> None:
    rules: dict[int, Rule | str] = {
        1: rule(cron="* * * * *"),
        2: rule({"overlap": "allow"}, cron="* * * * *"),
        3: rule({"overlap": "allow", "max_running": 2}, cron="* * * * *"),
        4: rule({"overlap": "queue_one"}, cron="* * * * *"),
        5: rule({"overlap": "replace"}, cron="* * * * *"),
    }
    read = [row(n, rule=n, last_job=90 + n, live="{80,81}") for n in rules]
    batch = decide_due(read, rules).batch
    assert batch.latest_jobs == [91, None, 93, 94, 95]
    assert batch.other_jobs == ["{80,81}", None, "{80,81}", "{80,81}", "{80,81}"]
    assert batch.live_limits == [1, None, 2, 2, NO_LIMIT]
    assert batch.serials == [False, False, False, True, True]


@pytest.mark.parametrize("when_excluded", ["skip", "next_day"])
def test_one_that_would_be_gone_through_for_hours_is_put_aside_and_the_others_are_decided(
    when_excluded: str,
) -> None:
    """Whoever wrote it is one tenant; whoever is due meanwhile may be another."""
    seconds = Calendar.of(
        windows=[
            f"{n // 60:02}:{n % 60:02}:{s}-{n // 60:02}:{n % 60:02}:{s + 1}"
            for n in range(1440)
            for s in (10, 20, 30, 40)
        ]
    )
    slow = rule(
        every=60, only=["a"], exclude=["b"], when_excluded=when_excluded,
        calendars={"a": seconds, "b": seconds},
    )  # fmt: skip
    rules: dict[int, Rule | str] = {7: rule(cron="* * * * *"), 8: slow}
    read = [row(1), row(2, rule=8), row(3)]
    for decisions in (decide_due(read, rules), decide_late(read, rules, NOON)):
        assert decisions.batch.ids == [1, 3]
        [(put_aside, why)] = decisions.broken
        assert put_aside.id == 2
        assert "too long" in why


def test_one_that_cannot_be_computed_is_put_aside_and_the_others_are_decided() -> None:
    class Broken:
        definition = Definition.of(cron="* * * * *")
        needs_anchor = has_jitter = has_calendars = is_quick = False

        def after(self, *_: Any) -> None:
            raise ZeroDivisionError("nobody expected this")

    bad = rule(cron="* * * * *")
    bad.timetable = Broken()  # type: ignore[assignment]
    rules: dict[int, Rule | str] = {1: rule(cron="* * * * *"), 2: bad, 3: "its rule cannot be used"}
    read = [row(n, rule=n % 3 + 1) for n in range(9)]
    for decisions in (decide_due(read, rules), decide_late(read, rules, NOON)):
        assert decisions.batch.ids == [0, 3, 6]
        assert [(each.id, why) for each, why in decisions.broken] == [
            (1, "its next fire cannot be computed: ZeroDivisionError: nobody expected this"),
            (2, "its rule cannot be used"),
            (4, "its next fire cannot be computed: ZeroDivisionError: nobody expected this"),
            (5, "its rule cannot be used"),
            (7, "its next fire cannot be computed: ZeroDivisionError: nobody expected this"),
            (8, "its rule cannot be used"),
        ]


def test_a_row_that_makes_no_sense_is_put_aside_even_if_its_rule_was_answered_before() -> None:
    jittered = rule(cron="* * * * *", jitter=30)
    read = [row(1, scheduled=T), row(2, scheduled=T, anchor=float("inf")), row(3, scheduled=T)]
    for decisions in (
        decide_due(read, {7: jittered}),
        decide_late(read, {7: jittered}, NOON + timedelta(minutes=5)),
        decide_late(read, {7: rule(cron="* * * * *")}, NOON + timedelta(minutes=5)),
    ):
        assert decisions.batch.ids == [1, 3]
        assert [each.id for each, _ in decisions.broken] == [2]


def test_what_is_late_fires_once_for_all_and_goes_on_from_now() -> None:
    decisions = decide_late([row()], {7: rule(cron="* * * * *")}, NOON + timedelta(seconds=330))
    batch = decisions.batch
    assert batch.were_due == [T]
    assert (batch.firing, batch.fires_at, batch.scheduled_for) == ([True], [T + 300], [T + 300])
    assert (batch.next_at, batch.stay_late) == ([T + 360], [False])
    assert (batch.gaps_first, batch.gaps_last, batch.gaps_fires) == ([T], [T + 240], [5])
    assert batch.gaps_decision == ["coalesced"]


def test_what_comes_in_order_stays_late_until_it_has_caught_up() -> None:
    late = {7: rule({"misfire": "all"}, cron="* * * * *")}
    now = NOON + timedelta(seconds=90)
    first = decide_late([row()], late, now).batch
    assert (first.fires_at, first.next_at, first.stay_late) == ([T], [T + 60], [True])
    second = decide_late([row(at=T + 60)], late, now).batch
    assert (second.fires_at, second.next_at, second.stay_late) == ([T + 60], [T + 120], [False])


def test_what_calendars_took_out_is_recorded_of_a_late_schedule_too() -> None:
    lunch = Calendar.of(windows=["12:30-13:30"])
    gated = rule({"misfire": "skip"}, cron="*/15 * * * *", exclude=["l"], calendars={"l": lunch})
    batch = decide_late([row()], {7: gated}, NOON + timedelta(hours=2)).batch
    assert batch.next_at == [T + 8100]
    assert batch.gaps_decision == ["missed", "excluded"]
    assert batch.gaps_fires == [5, 4]
    assert (batch.gaps_first, batch.gaps_last) == ([T, T + 1800], [T + 7200, T + 4500])


def test_what_is_skipped_is_moved_on_without_a_fire() -> None:
    late = {7: rule({"misfire": "skip"}, cron="* * * * *")}
    batch = decide_late([row()], late, NOON + timedelta(seconds=90)).batch
    assert (batch.firing, batch.next_at) == ([False], [T + 120])
    assert (batch.gaps_decision, batch.gaps_fires) == (["missed"], [2])


def test_a_late_fire_keeps_its_own_jitter() -> None:
    jittered = rule(cron="* * * * *", jitter=30, jitter_kind="fixed")
    read = [row(n, at=T + 5, scheduled=T) for n in (1, 2)]
    batch = decide_late(read, {7: jittered}, NOON + timedelta(seconds=600)).batch
    for n, id in enumerate((1, 2)):
        delay = jittered.timetable.fire_at(NOON, NOON, id).timestamp() - T
        assert batch.scheduled_for[n] == T + 540
        assert batch.fires_at[n] == T + 540 + delay


def test_a_batch_in_two_halves_is_the_same_batch() -> None:
    late = {7: rule({"misfire": "all", "grace": 60}, cron="* * * * *")}
    whole = decide_late([row(n) for n in range(7)], late, NOON + timedelta(minutes=9)).batch
    halves = whole.halves()
    assert [len(each) for each in halves] == [3, 4]
    together = Batch()
    for half in halves:
        assert {*half.gap_ids} == {*half.ids}
        for name in Batch.__dataclass_fields__:
            getattr(together, name).extend(getattr(half, name))
    assert together == whole


def test_a_late_fire_is_judged_by_its_own_jitter() -> None:
    """Two schedules of one rule, found at the same instant: one beyond its grace, one within."""
    jittered = rule({"grace": 600}, cron="0 12 * * *", jitter="1h")
    fires = {n: jittered.timetable.fire_at(NOON, NOON, n).timestamp() for n in range(1, 200)}
    early, late = min(fires, key=fires.__getitem__), max(fires, key=fires.__getitem__)
    read = [row(n, at=fires[n], scheduled=T) for n in (early, late)]
    batch = decide_late(read, {7: jittered}, NOON + timedelta(hours=1, minutes=5)).batch
    assert batch.firing == [False, True]
    assert (batch.gap_ids, batch.gaps_decision) == ([early], ["missed"])


def test_what_a_node_has_decided_it_need_not_compute_again_when_it_wakes() -> None:
    hours = Calendar.of(windows=["09:00-12:30"])
    gated = rule(every=10, only=["hours"], calendars={"hours": hours})
    read = [row(n, at=T + 1790 + n / 1000, anchor=T + n / 1000) for n in range(50)]
    once = decide_due(read, {7: gated}).batch
    assert set(once.gaps_fires) == {(20 * 3600 + 1800) // 10}
    kept = _following.cache_info().hits
    assert decide_due(read, {7: gated}).batch == once
    assert _following.cache_info().hits == kept + 50


async def test_others_have_their_turn_while_a_long_row_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever renews the node's lease does not wait until thousands have been decided."""
    monkeypatch.setattr(decide, "TURN", 0.0)
    read = [row(n) for n in range(100)]
    rules: dict[int, Rule | str] = {7: rule(cron="*/5 * * * *")}
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    assert (await decide_due_in_turns(read, rules)).batch == decide_due(read, rules).batch
    now = NOON + timedelta(minutes=7)
    late = (await decide_late_in_turns(read, rules, now)).batch
    assert late == decide_late(read, rules, now).batch
    beside.cancel()
    assert turns >= 200
