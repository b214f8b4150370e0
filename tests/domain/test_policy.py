"""What a schedule may say about misfires and overlaps, and how many of its jobs may live."""

import json
from datetime import timedelta

import pytest

from sexton.domain.policy import MAX_LIVE, Policy
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.when import Definition
from sexton.errors import InvalidSchedule

NO_LIMIT = 2**31 - 1


@pytest.mark.parametrize(
    ("given", "live_limit", "serial"),
    [
        ({}, 1, False),
        ({"overlap": "skip"}, 1, False),
        ({"overlap": "queue_one"}, 2, True),
        ({"overlap": "queue_all"}, 101, True),
        ({"overlap": "queue_all", "max_queued": 1}, 2, True),
        ({"overlap": "queue_all", "max_queued": MAX_LIVE}, MAX_LIVE + 1, True),
        ({"overlap": "allow"}, None, False),
        ({"overlap": "allow", "max_running": 3}, 3, False),
        ({"overlap": "replace"}, NO_LIMIT, True),
    ],
)
def test_how_many_may_live_and_whether_they_wait_for_each_other(
    given: dict[str, object], live_limit: int | None, serial: bool
) -> None:
    policy = Policy.of(**given)  # type: ignore[arg-type]
    assert (policy.live_limit, policy.serial) == (live_limit, serial)


def test_by_default_one_fire_makes_up_for_an_hour_and_nothing_overlaps() -> None:
    assert Policy.of() == Policy(misfire="latest", grace=3600.0, overlap="skip")


@pytest.mark.parametrize(
    "said",
    [
        '{"misfire": "latest", "grace": 3600, "overlap": "skip"}',
        '{"misfire": "latest", "grace": "1h"}',
        '{"overlap": "skip"}',
    ],
)
def test_what_is_as_usual_is_not_in_the_text_wherever_it_was_read(said: str) -> None:
    """Equal rules have equal text, or saying the same again would be another version."""
    assert Policy.of(**json.loads(said)) == Policy()
    when = Definition.of(cron="0 6 * * *")
    assert RuleText(when, Policy.of(**json.loads(said))).to_json() == RuleText(when).to_json()


@pytest.mark.parametrize("grace", ["1h30m", 5400, timedelta(hours=1, minutes=30)])
def test_a_grace_is_any_duration(grace: object) -> None:
    assert Policy.of(grace=grace).grace == 5400.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"misfire": "lates"}, r"^misfire: 'lates' is none of latest, skip, all; .* 'latest'\?$"),
        ({"misfire": None}, r"^misfire: None is none of"),
        ({"overlap": "queue"}, r"^overlap: 'queue' is none of .*did you mean 'queue_"),
        ({"overlap": ["skip"]}, r"^overlap: \['skip'\] is none of"),
        ({"grace": "soon"}, r"^grace: 'soon' is not a duration"),
        ({"grace": -1}, r"^grace: -1 is not a duration between"),
        ({"grace": True}, r"^grace: True is not a duration"),
        ({"max_queued": 5}, r"^max_queued: says something about overlap='queue_all' only"),
        ({"overlap": "queue_one", "max_queued": 5}, r"^max_queued: says something about"),
        ({"max_running": 5}, r"^max_running: says something about overlap='allow' only"),
        ({"overlap": "queue_all", "max_queued": 0}, r"^max_queued: 0 is not a number from 1 to"),
        ({"overlap": "queue_all", "max_queued": 1001}, r"^max_queued: 1001 is not a number"),
        ({"overlap": "allow", "max_running": True}, r"^max_running: True is not a number"),
        ({"overlap": "allow", "max_running": 2.5}, r"^max_running: 2.5 is not a number"),
        ({"overlap": "allow", "max_running": "3"}, r"^max_running: '3' is not a number"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_field_and_the_reason(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        Policy.of(**given)  # type: ignore[arg-type]


def test_equal_rules_have_equal_text_and_the_usual_is_not_in_it() -> None:
    one = RuleText(Definition.of(cron="0  6 * * *"), Policy.of())
    two = RuleText(Definition.of(cron="0 6 * * *"), Policy.of(misfire="latest", grace="1h"))
    assert one.to_json() == two.to_json() == '{"policy":{},"when":{"cron":"0 6 * * *"}}'
    assert RuleText.from_json(one.to_json()) == one


def test_a_rule_keeps_its_policy_through_its_text() -> None:
    policy = Policy.of(misfire="all", grace="5m", overlap="queue_all", max_queued=7)
    rule = Rule.compile(RuleText(Definition.of(every=90), policy).to_json(), {})
    assert rule.policy == policy
    assert (rule.live_limit, rule.serial) == (8, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "not json",
        "{}",
        '{"when":{"cron":"* * * * *","colour":"red"}}',
        '{"when":{"cron":"* * * * *"},"policy":{"overlap":"sometimes"}}',
        '{"when":{"every":"90"}}',
    ],
)
def test_a_text_that_is_no_rule_is_refused_as_one(text: str) -> None:
    with pytest.raises(InvalidSchedule, match="the rule cannot be read"):
        RuleText.from_json(text)


@pytest.mark.parametrize("when", ["{}", '{"cron":"61 * * * *"}', '{"cron":"x","timezone":"Mars"}'])
def test_a_rule_without_an_instant_is_refused_when_it_is_compiled(when: str) -> None:
    with pytest.raises(InvalidSchedule):
        Rule.compile(f'{{"when":{when}}}', {})
