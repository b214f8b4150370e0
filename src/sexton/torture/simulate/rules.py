"""The rules that simulated schedules have: a few periods with every policy."""

from functools import cache
from itertools import product

from sexton.domain.policy import Policy
from sexton.domain.schedule import Rule, RuleText
from sexton.domain.when import Definition

PERIODS = (2, 3, 4)
OVERLAPS = ("allow", "skip", "queue_one", "queue_all", "replace")
MISFIRES = ("latest", "all", "skip")
KINDS = [*product(OVERLAPS, MISFIRES, PERIODS)]
IDS = range(len(KINDS))


def rule_id(overlap: str, misfire: str, period: int) -> int:
    return KINDS.index((overlap, misfire, period))


def period_of(id: int) -> int:
    return KINDS[id][2]


def other_period(id: int) -> int:
    """The rule with the same policies and the next period: what an edit makes of it."""
    overlap, misfire, period = KINDS[id]
    return rule_id(overlap, misfire, PERIODS[(PERIODS.index(period) + 1) % len(PERIODS)])


@cache
def text_of(id: int) -> str:
    overlap, misfire, period = KINDS[id]
    definition = Definition.of(every=f"{period}s").pinned({})
    return RuleText(definition, Policy.of(overlap=overlap, misfire=misfire)).to_json()


@cache
def compiled() -> dict[int, Rule | str]:
    """As a node has them at hand."""
    return {id: Rule.compile(text_of(id), {}) for id in IDS}


def rule(id: int) -> Rule:
    found = compiled()[id]
    assert isinstance(found, Rule)
    return found
