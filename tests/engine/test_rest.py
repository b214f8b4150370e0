"""How long sweeps rest: long after a costly one, never because an answer was late."""

from sexton.flow.rest import LONGEST, SOON, Rest

POLL = 5.0


class Hand:
    """Of a clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def rests_for(rest: Rest, hand: Hand, *, claiming: bool = False) -> float:
    """Until it is over, in steps of a quarter of a second."""
    began = hand.at
    while not rest.over(claiming=claiming):
        hand.at += 0.25
    return hand.at - began


def waits_in_vain(rest: Rest, hand: Hand) -> None:
    rest.begin()
    hand.at += 10.0
    rest.in_vain()


def test_there_is_no_rest_before_the_first_sweep() -> None:
    assert Rest(Hand()).over(claiming=False)


def test_a_rest_is_twenty_times_as_long_as_the_server_was_at_it_but_a_minute_at_most() -> None:
    hand = Hand()
    rest = Rest(hand)
    for seconds, expected in ((0.0, POLL), (0.5, 10.0), (1.0, 20.0), (3.0, 60.0), (500.0, LONGEST)):
        rest.after(seconds, POLL)
        assert rests_for(rest, hand) == expected


def test_who_claims_does_not_wait_for_the_poll_unless_sweeps_are_costly() -> None:
    hand = Hand()
    rest = Rest(hand)
    for seconds, expected in ((0.0, SOON), (0.005, SOON), (0.01, 2.0), (0.02, 4.0), (0.1, POLL)):
        rest.after(seconds, POLL)
        assert rests_for(rest, hand, claiming=True) == expected
    rest.after(1.0, POLL)
    assert rests_for(rest, hand, claiming=True) == 20.0
    rest.after(0.0, 0.25)
    assert rests_for(rest, hand, claiming=True) == 0.25, "a poll that is shorter still"


def test_sweeps_without_an_answer_come_more_and_more_seldom_until_there_is_one() -> None:
    hand = Hand()
    rest = Rest(hand)
    rests = []
    for _ in range(5):
        waits_in_vain(rest, hand)
        rests.append(rests_for(rest, hand, claiming=True))
    assert rests == [10.0, 20.0, 40.0, 60.0, 60.0]
    rest.after(0.0, POLL)
    waits_in_vain(rest, hand)
    assert rests_for(rest, hand) == 10.0


def test_who_begins_anew_does_not_rest() -> None:
    rest = Rest(Hand())
    rest.after(3.0, POLL)
    rest.end()
    assert rest.over(claiming=False)
