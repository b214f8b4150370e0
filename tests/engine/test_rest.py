"""How long sweeps rest: long after a costly one, never because an answer was late."""

from sexton.flow.rest import LONGEST, Rest


class Hand:
    """Of a clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def rests_for(rest: Rest, hand: Hand) -> float:
    """Until it is over, in steps of a quarter of a second."""
    began = hand.at
    while not rest.over:
        hand.at += 0.25
    return hand.at - began


def waits_in_vain(rest: Rest, hand: Hand) -> None:
    rest.begin()
    hand.at += 10.0
    rest.in_vain()


def test_there_is_no_rest_before_the_first_sweep() -> None:
    assert Rest(Hand()).over


def test_a_rest_is_twenty_times_as_long_as_the_server_was_at_it_but_a_minute_at_most() -> None:
    hand = Hand()
    rest = Rest(hand)
    for seconds, expected in ((0.0, 0.0), (0.05, 1.0), (1.0, 20.0), (3.0, 60.0), (500.0, LONGEST)):
        rest.after(seconds)
        assert rests_for(rest, hand) == expected


def test_one_that_comes_with_every_look_rests_for_a_poll_at_least() -> None:
    hand = Hand()
    rest = Rest(hand)
    rest.after(0.0, at_least=5.0)
    assert rests_for(rest, hand) == 5.0


def test_sweeps_without_an_answer_come_more_and_more_seldom_until_there_is_one() -> None:
    hand = Hand()
    rest = Rest(hand)
    rests = []
    for _ in range(5):
        waits_in_vain(rest, hand)
        rests.append(rests_for(rest, hand))
    assert rests == [10.0, 20.0, 40.0, 60.0, 60.0]
    rest.after(0.0)
    waits_in_vain(rest, hand)
    assert rests_for(rest, hand) == 10.0


def test_who_begins_anew_does_not_rest() -> None:
    rest = Rest(Hand())
    rest.after(3.0)
    rest.end()
    assert rest.over
