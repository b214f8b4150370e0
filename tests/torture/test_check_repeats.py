"""The checker on keys that are used again: by the same request, and by another."""

import pytest

from sexton.torture.check.folder import Ask
from sexton.torture.check.repeats import FEWEST, Repeats

from .by_hand import BEGINS, Line

TOLD: Line = {"jobs": [{"payload_id": "a", "id": 7, "duplicate": False}]}
AWAY = "Answered: 503: PostgreSQL is away"


def sent(verb: str, nth: int = 1, answer: Line | None = None, error: str | None = None) -> Ask:
    refused = error is not None and "Answered: 4" in error
    body = {"what": "enqueue", "told": TOLD}
    return Ask(
        *("f", 10 + nth, BEGINS, verb, "api", "a", None, body, nth, BEGINS, BEGINS),
        *(answer, refused, error),
    )


def test_the_same_answer_to_the_same_request_and_a_refusal_of_another_are_right() -> None:
    repeats = Repeats()
    assert repeats.wrong(sent("echo", answer=TOLD)) is None
    assert repeats.wrong(sent("reuse", error="Answered: 422: the key was used")) is None
    assert repeats.silent() is None


@pytest.mark.parametrize("error", [AWAY, "Silent: TimeoutError", None])
def test_what_got_no_answer_says_nothing(error: str | None) -> None:
    repeats = Repeats()
    assert repeats.wrong(sent("echo", error=error)) is None
    assert repeats.wrong(sent("reuse", error=error)) is None
    assert repeats.silent() is None


def test_another_answer_a_refusal_and_a_granted_second_use_are_wrong() -> None:
    repeats = Repeats()
    assert "sent again with {}" in str(repeats.wrong(sent("echo", answer={})))
    assert "refused" in str(repeats.wrong(sent("echo", error="Answered: 409: there is one")))
    assert "was answered" in str(repeats.wrong(sent("reuse", answer=TOLD)))
    assert "refused for" in str(repeats.wrong(sent("reuse", error="Answered: 404: no such job")))


@pytest.mark.parametrize(("answered", "silent"), [(0, True), (FEWEST - 1, True), (FEWEST, False)])
def test_answers_that_are_mostly_forgotten_are_noticed(answered: int, silent: bool) -> None:
    """An answer after some tries is one."""
    repeats = Repeats()
    for nth in range(FEWEST):
        repeats.wrong(sent("echo", 100 + nth, error=AWAY))
    for nth in range(answered):
        repeats.wrong(sent("echo", 200 + nth, error=AWAY))
        repeats.wrong(sent("echo", 200 + nth, answer=TOLD))
    assert (repeats.silent() is not None) == silent


def test_servers_that_are_away_forget_nothing() -> None:
    repeats = Repeats()
    for nth in range(9):
        repeats.wrong(sent("echo", nth, error="Silent: ClientConnectorError"))
    assert repeats.silent() is None
