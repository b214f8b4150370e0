"""How much a host is asked to bear."""

import asyncio
import itertools
from collections.abc import Iterable

import pytest

from sexton.targets.http import hosts
from sexton.targets.http.hosts import Busy, Host, Hosts

TOOK = 0.05


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def host(most: int = 32) -> tuple[Host, Clock]:
    clock = Clock()
    return Host("h:443", most, 10, clock), clock


async def entered(host: Host, many: int) -> list[asyncio.Task[None]]:
    """So many that want in, after those that can have got in."""
    tasks = [asyncio.create_task(host.enter()) for _ in range(many)]
    await asyncio.sleep(0)
    return tasks


def busy(tasks: Iterable[asyncio.Task[None]]) -> list[Busy]:
    found = []
    for task in tasks:
        if task.done() and not task.cancelled() and isinstance(error := task.exception(), Busy):
            found.append(error)
    return found


async def cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def trusted(most: int = 4) -> tuple[Host, Clock]:
    it, clock = host(most)
    await it.enter()
    it.answered(TOOK)
    return it, clock


async def test_a_host_that_has_not_answered_yet_is_given_a_few() -> None:
    it, _ = host(32)
    tasks = await entered(it, 200)
    assert it.running == 32 // hosts.CAUTION
    sent_away = busy(tasks)
    assert len(sent_away) == 200 - it.running - 10
    it.answered(TOOK)
    assert it.running == 17, "it answers: whoever waits is let in"
    await cancelled(tasks)


async def test_those_sent_away_come_back_one_after_the_other_at_the_pace_of_the_host() -> None:
    it, clock = await trusted(4)
    for _ in range(100):  # 20 a second
        await it.enter()
        clock.now += 0.05
        it.answered(took=0.2)
    tasks = await entered(it, 60)
    delays = [each.delay for each in busy(tasks)]
    assert delays == sorted(delays)
    spacing = [b - a for a, b in itertools.pairwise(delays)]
    assert all(0.02 < each < 0.1 for each in spacing), spacing
    await cancelled(tasks)


async def test_nobody_waits_long_for_a_host_that_has_fallen_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "WAIT_FOR", 0.05)
    it = Host("h:443", 2, 2)
    await it.enter()
    it.answered(TOOK)
    tasks = [asyncio.create_task(it.enter()) for _ in range(10)]
    await asyncio.wait(tasks, timeout=5)
    assert it.running == 2
    assert len(busy(tasks)) == 8


async def test_failures_in_a_row_open_the_breaker_and_only_one_tries_it_again() -> None:
    it, clock = await trusted(8)
    tasks = await entered(it, 8)
    for nth in range(8):
        it.failed()
        assert it.resting == (nth + 1 >= hosts.FAILURES)
    assert not busy(tasks)
    with pytest.raises(Busy) as sent_away:
        await it.enter()
    assert sent_away.value.delay >= 0.9 * hosts.FIRST_REST, "those under way made it no longer"
    clock.now += 1.1 * hosts.FIRST_REST
    await it.enter()
    for _ in range(3):
        with pytest.raises(Busy, match="is being tried"):
            await it.enter()
    it.answered(TOOK)
    assert not it.resting
    tasks = await entered(it, 8)
    assert it.running == 8


async def test_an_open_breaker_stays_open_longer_each_time_up_to_five_minutes() -> None:
    it, clock = await trusted()
    rests = []
    await entered(it, 4)
    for _ in range(4):
        it.failed()
    for _ in range(12):
        await it.enter()
        it.failed()
        with pytest.raises(Busy) as sent_away:
            await it.enter()
        rests.append(sent_away.value.delay)
        clock.now = max(it._rest_until, clock.now)
    assert rests[0] < 7
    assert all(b > 1.5 * a for a, b in itertools.pairwise(rests[:6])), rests
    assert all(0.9 * 300 <= each <= 1.1 * 300 + hosts.LATEST for each in rests[7:]), rests


async def test_an_answer_in_between_begins_the_count_anew() -> None:
    it, _ = await trusted()
    for _ in range(10):
        for _ in range(hosts.FAILURES - 1):
            await it.enter()
            it.failed()
        await it.enter()
        it.answered(TOOK)
    assert not it.resting


async def test_those_who_wait_are_sent_away_when_the_breaker_opens() -> None:
    it, _ = await trusted(5)
    tasks = await entered(it, 20)
    for _ in range(5):
        it.failed()  # each of the first four lets one in
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(busy(tasks)) == 11
    assert it.running == 4


async def test_a_host_that_asks_for_a_pause_gets_it_and_is_not_broken() -> None:
    it, clock = await trusted()
    await it.enter()
    it.answered(TOOK, quiet_for=30)
    with pytest.raises(Busy, match="asked for a pause") as sent_away:
        await it.enter()
    assert 30 <= sent_away.value.delay < 32
    clock.now += 30
    await it.enter()
    it.answered(TOOK, quiet_for=86_400)
    with pytest.raises(Busy) as sent_away:
        await it.enter()
    assert sent_away.value.delay <= hosts.LONGEST_REST + 2, "a whole day is too much to believe"


async def test_one_that_gives_up_waiting_takes_nobodys_place() -> None:
    it, _ = await trusted(1)
    first, second, third = await entered(it, 3)
    second.cancel()
    await asyncio.sleep(0)
    it.answered(TOOK)
    await third
    assert it.running == 1
    # Let in and cancelled in the same turn of the loop.
    fourth = (await entered(it, 1))[0]
    it.answered(TOOK)
    fourth.cancel()
    await asyncio.gather(fourth, return_exceptions=True)
    assert it.running == 0
    assert first.done()


async def test_each_tenant_has_a_host_of_its_own_and_old_ones_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "MANY", 10)
    clock = Clock()
    all_hosts = Hosts(4, 4, clock)
    one, other = all_hosts.of(1, "h:443"), all_hosts.of(2, "h:443")
    assert one is not other
    assert all_hosts.of(1, "h:443") is one
    await other.enter()
    for n in range(8):
        all_hosts.of(1, f"h{n}:443")
    clock.now += hosts.FORGET_AFTER + 1
    all_hosts._clean_at = 10
    all_hosts.of(3, "new:443")
    assert len(all_hosts._hosts) == 2, "the new one, and the one with a delivery under way"
