"""Many points, several at a time, and the table of what became of them."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sexton.torture.crash.places import Seen
from sexton.torture.crash.point import NOTHING, WAYS, Broken, Point, Verdict, messages, run
from sexton.torture.crash.site import Site, site
from sexton.torture.crash.stage import TooLate
from sexton.torture.crash.steps import STEPS

LANES = 12
LOOKS = 6
LOOKS_AGAIN = 3  # where the scene was not set in time, or something was over too soon
TRIES = 10  # of a point that is not reached: a step may do without that message this time
SEVERAL = 3
CUT = (
    "cut: each message of the connections that carry what a step is about, from the first mention "
    "of that until all of it is exchanged;\nnot cut: what they say before, and other connections"
)
T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """Which of all the points; `every` K takes each K-th message, from where the seed says."""

    steps: Sequence[str] = tuple(STEPS)
    ways: Sequence[str] = tuple(WAYS)
    every: int = 1
    seed: int = 0
    at: str | None = None
    pooler: bool = False  # processes speak as to a transaction pooler

    def points(self, step: str, places: Sequence[str]) -> list[Point]:
        points = []
        for way in self.ways:
            # Each way begins elsewhere, so that together they see more of the messages.
            begins = random.Random(f"{self.seed} {step} {way}")
            first = begins.randrange(min(self.every, len(places)))
            chosen = places[first :: self.every] if self.at is None else [self.at]
            points += [Point(step, way, at, self.pooler) for at in chosen]
        return points


@dataclass
class Sweep:
    """What was found so far."""

    verdicts: list[Verdict] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)  # the messages of each step

    @property
    def failed(self) -> list[Verdict]:
        return [each for each in self.verdicts if each.wrong]

    @property
    def missed(self) -> list[Verdict]:
        """Not reached, however often it was tried."""
        return [each for each in self.verdicts if not each.reached and not each.wrong]

    @property
    def unproved(self) -> list[str]:
        """Steps of which no point has passed: they were not shown to be safe anywhere."""
        passed = {each.point.step for each in self.verdicts if each.passed}
        return [step for step in self.seen if step not in passed]

    @property
    def well(self) -> bool:
        """Whether every message that a step always has was cut, and nothing went wrong."""
        proved = bool(self.verdicts) and not self.unproved and not self.uncut
        return proved and not self.failed and not any(map(self._is_always, self.missed))

    @property
    def uncut(self) -> list[tuple[str, str]]:
        """Messages that a step mostly has, and that were cut in none of several ways."""
        tried: dict[tuple[str, str], list[bool]] = {}
        for each in self.verdicts:
            tried.setdefault((each.point.step, each.point.at), []).append(each.reached)
        return [
            (step, at)
            for (step, at), reached in tried.items()
            if len(reached) >= SEVERAL and not any(reached) and self.seen[step].mostly(at)
        ]

    def _is_always(self, verdict: Verdict) -> bool:
        """Whether its step always has that message; others depend on who comes first."""
        seen = self.seen.get(verdict.point.step)
        return seen is None or seen.always(verdict.point.at)

    def unknown(self, at: str) -> bool:
        """Whether no step that was looked at has such a place, nor came to it when it was tried."""
        reached = any(each.reached for each in self.verdicts)
        return not reached and not any(at in seen.places for seen in self.seen.values())

    def table(self) -> str:
        """Step by way: passed of tried, and seconds; those that were not reached are no pass."""
        ways = [way for way in WAYS if any(each.point.way == way for each in self.verdicts)]
        lines = [f"{'step':<12}{'messages':>9}" + "".join(f"{way:>20}" for way in ways)]
        for step, seen in self.seen.items():
            cells = [self._cell(step, [way]) for way in ways]
            lines.append(f"{step:<12}{len(seen):>9}" + "".join(f"{c:>20}" for c in cells))
        total = "".join(f"{self._cell(None, [way]):>20}" for way in ways)
        lines.append(f"{'all':<12}{sum(map(len, self.seen.values())):>9}{total}")
        passed = sum(each.passed for each in self.verdicts)
        lines += [f"not reached: {_missed(each)}" for each in self.missed if self._is_always(each)]
        lines += self._sometimes()
        lines += [f"no point of {step} has passed" for step in self.unproved]
        lines += [f"{step} was never cut at {place}" for step, place in self.uncut]
        lines.append(
            f"{len(self.verdicts)} points: {passed} passed, {len(self.failed)} failed, "
            f"{len(self.missed)} not reached"
        )
        lines.append(CUT)
        return "\n".join(lines)

    def _sometimes(self) -> list[str]:
        """What was not reached of exchanges that a step can do without, a line for each of them."""
        tried, missed = Counter(map(_exchange, self.verdicts)), Counter[tuple[str, str]]()
        seen: dict[tuple[str, str], str] = {}
        for each in self.missed:
            if not self._is_always(each):
                missed[_exchange(each)] += 1
                seen[_exchange(each)] = self.seen[each.point.step].how_often(each.point.at)
        return [
            f"not always there: {step} at {exchange}, in {seen[step, exchange]}: "
            f"{times} of {tried[step, exchange]} not reached"
            for (step, exchange), times in sorted(missed.items())
        ]

    def _cell(self, step: str | None, ways: Iterable[str]) -> str:
        chosen = [
            each
            for each in self.verdicts
            if step in (None, each.point.step) and each.point.way in ways
        ]
        if not chosen:
            return "–"
        seconds = sum(each.seconds for each in chosen)
        return f"{sum(each.passed for each in chosen)}/{len(chosen)} {seconds:.0f} s"


async def sweep(
    choice: Choice,
    *,
    lanes: int = LANES,
    looks: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    first: bool = False,
) -> Sweep:
    """Every point of the choice; one that is not reached is tried a few times.

    With `first` none is begun after the first failure.
    """
    found = Sweep()
    async with site(pooler=choice.pooler) as there:
        looked = await _in_lanes(
            lanes, [_look(there, name, looks or LOOKS) for name in choice.steps]
        )
        for name, seen in zip(choice.steps, looked, strict=True):
            if isinstance(seen, Broken):
                found.verdicts.append(seen.verdict)
                tell(report(seen.verdict))
            else:
                found.seen[name] = seen
        points = [p for name, seen in found.seen.items() for p in choice.points(name, seen.places)]
        random.Random(choice.seed).shuffle(points)  # those that mostly wait among the others

        async def attempt(point: Point) -> None:
            if first and found.failed:
                return
            verdict = await _try(there, point)
            found.verdicts.append(verdict)
            tell(_line(verdict, len(found.verdicts), len(points)))
            if verdict.wrong:
                tell(report(verdict))

        await _in_lanes(lanes, [attempt(point) for point in points])
    return found


async def places(choice: Choice, looks: int = 1) -> dict[str, Sequence[str]]:
    """Where the messages of each step are, in their order, as far as a look tells."""
    async with site(pooler=choice.pooler) as there:
        looked = await _in_lanes(LANES, [_look(there, name, looks) for name in choice.steps])
    return {
        name: () if isinstance(seen, Broken) else seen.places
        for name, seen in zip(choice.steps, looked, strict=True)
    }


async def _in_lanes(lanes: int, work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of it, so many at a time."""
    room = asyncio.Semaphore(lanes)

    async def one(each: Coroutine[Any, Any, T]) -> T:
        async with room:
            return await each

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(each)) for each in work]
    finally:
        for each in work:
            each.close()  # what was not begun, because somebody put an end to all of it
    return [task.result() for task in tasks]


async def _look(there: Site, name: str, looks: int) -> Seen | Broken:
    """Without a fault, several times: what comes only now and then is cut too."""
    found: list[list[str]] = []
    again = LOOKS_AGAIN
    while len(found) < looks:
        try:
            found.append(await messages(there, STEPS[name]))
        except Broken as broken:
            return broken
        except (TooLate, TimeoutError) as error:
            again -= 1
            if again < 0:
                return Broken(name, [str(error) or "not over in time"])
    return Seen(found)


async def _try(there: Site, point: Point) -> Verdict:
    tries = 0
    while True:
        tries += 1
        verdict = await run(there, STEPS[point.step], point)
        if verdict.reached or verdict.wrong or tries == TRIES:
            return replace(verdict, tries=tries)


def _named(verdict: Verdict) -> str:
    point = verdict.point
    return f"{point.step} {point.way} at {point.at}"


def _missed(verdict: Verdict) -> str:
    """Why: what kept the scene from being set, or nothing did."""
    why, *_ = verdict.said.splitlines() or ["the process had less to say"]
    return f"{_named(verdict)} in {verdict.tries} tries: {why}"


def _exchange(verdict: Verdict) -> tuple[str, str]:
    return verdict.point.step, verdict.point.at.rpartition("/")[0]


def _line(verdict: Verdict, number: int, total: int) -> str:
    outcome = "passed" if verdict.passed else "FAILED" if verdict.wrong else "not reached"
    return f"{number}/{total} {_named(verdict)}: {outcome} {verdict.seconds:.1f} s"


def report(verdict: Verdict, *, brief: bool = False) -> str:
    """A failure, for whoever has to find out why; what the processes said was told before."""
    point, message = verdict.point, verdict.message
    wrong = "\n".join(f"  {each}" for each in verdict.wrong)
    if point.way == NOTHING:
        return f"{point.step} goes wrong without being cut:\n{wrong}"
    where = "the message did not come" if message is None else f"{message.side}: {message.text}"
    said = "" if brief else f"\n{verdict.said}"
    return (
        f"{point.step} cut by {point.way} at {point.at} ({where}):\n{wrong}\n"
        f"again: {point.command}{said}"
    )


def as_json(found: Sweep) -> dict[str, Any]:
    """For programs."""
    return {
        "tried": len(found.verdicts),
        "passed": sum(each.passed for each in found.verdicts),
        "failed": [_as_json(each) | {"wrong": list(each.wrong)} for each in found.failed],
        "not_reached": [_as_json(each) for each in found.missed],
        "unproved": found.unproved,
        "uncut": [f"{step}: {place}" for step, place in found.uncut],
    }


def _as_json(verdict: Verdict) -> dict[str, Any]:
    point = verdict.point
    return {"step": point.step, "way": point.way, "at": point.at}
