"""Rules that are remembered: their next instants, and what is forgotten."""

from datetime import UTC, datetime, timedelta

import pytest

from sexton.domain.schedule import Rule
from sexton.domain.spec import Terms
from sexton.domain.version import fresh_anchor, pinned
from sexton.flow import rulebook
from sexton.flow.rulebook import Known, Rulebook

START = datetime(2030, 3, 30, 23, 59, 59, 500_000, tzinfo=UTC)


def rule(**options: object) -> Rule:
    return pinned(Terms.of("x", options), {})[1]


@pytest.mark.parametrize(
    "options",
    [
        {"cron": "*/7 * * * *"},
        {"cron": "30 2 * * *", "timezone": "Europe/Paris"},
        {"every": 90},
        {"every": 90, "anchor": "2030-01-01T00:00:00Z"},
        {"at": "2030-03-31T00:20:00Z"},
        {"any": ["0 3 * * *", {"every": 1000}]},
    ],
)
def test_the_next_instant_is_the_one_that_is_computed_anew(options: dict[str, object]) -> None:
    terms = Terms.of("x", options)
    known = Known(1, rule(**options))
    now = START
    for step in (0.0, 0.0, 0.4, 0.1, 59, 360, -400, 1, 1200, 7200, 86400, -86400, 0):
        now += timedelta(seconds=step)
        anchor = fresh_anchor(terms, now)
        assert known.first(anchor, now) == known.rule.timetable.after(now, anchor)


def test_the_oldest_rules_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "KEPT", 3)
    book, one = Rulebook(), rule(every=60)
    for n in range(5):
        book.keep({str(n): Known(n, one)})
    assert [n for n in range(5) if book.get(str(n))] == [2, 3, 4]
    book.forget()
    assert book.get("4") is None
