"""What many registered schedules cost a node that has little to fire.

A wake-up is all that a node asks the database in one round, timed by the client: with nothing due
it looks and asks when the next is; with 100 due it looks and fires them. The databases stand side
by side and take turns, so that a noisy moment of the machine falls on all of them.
"""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack

from bench.arena import Arena, Stage
from bench.contenders import Contender
from bench.driver import Process
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.footprint import megabytes
from bench.scenarios.nodes import as_node, even, is_sexton

DUE = 100
EVERY = 0.1  # seconds
TURNS = 10
LIVED = 5.0  # before its memory is looked at
SIZES = ("few", "many", "huge")


async def registered(stage: Stage, count: int) -> float:
    """How many a second."""
    registrar = await stage.process()
    await registrar.ask("setup")
    told = await registrar.ask("quiet", count=count, timeout=1800)
    await stage.stop(registrar)
    await stage.settle_down()
    return count / float(told["seconds"])


async def woken(hands: list[Process], times: int, due: int) -> list[list[float]]:
    """For each population, the median of a wake-up in each turn, in ms."""
    turns: list[list[float]] = [[] for _ in hands]
    for _ in range(TURNS):
        for medians, hand in zip(turns, hands, strict=True):
            told = await hand.ask("wake", times=max(1, times // TURNS), due=due)
            medians.append(statistics.median(told["seconds"]) * 1000)
    return turns


def growth(turns: list[list[float]]) -> float:
    """The largest population against the smallest, turn by turn."""
    return statistics.median(
        most / fewest for fewest, most in zip(turns[0], turns[-1], strict=True)
    )


async def memory(stage: Stage) -> float:
    node = await stage.process()
    await node.ask("fire", timeout=60)
    await even(stage, 1)
    await asyncio.sleep(LIVED)
    used = megabytes(node.pid)
    await stage.stop(node)
    return used


async def scale(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    figures: Figures = {}
    async with AsyncExitStack() as stack:
        stages = [
            await stack.enter_async_context(arena.stage(as_node(contender), f"_{size}"))
            for size, _ in zip(SIZES, sizes.populations, strict=False)
        ]
        for stage, count in zip(stages, sizes.populations, strict=True):
            figures["registered"] = await registered(stage, count)  # the largest comes last
        hands = [await stage.process() for stage in stages]
        none = await woken(hands, sizes.wake_ups, 0)
        for hand in hands:
            await hand.ask("beat", count=DUE, every=EVERY)
        some = await woken(hands, sizes.wake_ups, DUE)
        for stage, hand in zip(stages, hands, strict=True):
            await stage.stop(hand)
        used = [await memory(stage) for stage in stages]
    for key, turns in (("none", none), ("some", some), ("node", [[each] for each in used])):
        for size, each in zip(SIZES, turns, strict=False):
            figures[f"{key}_{size}"] = statistics.median(each)
        figures[f"{key}_growth"] = growth(turns)
    return {**figures, "node_rss": max(used)}


def columns(key: str, title: str, form: str) -> tuple[Column, ...]:
    sized = ((f"{key}_{size}", f"{title}, {size}", form) for size in SIZES)
    every = (*sized, (f"{key}_growth", "×", ".2f"))
    return tuple(Column(*each, more_is_better=False) for each in every)


SCALE = Scenario(
    name="scale",
    about="a wake-up and a node's memory, by how many schedules are registered",
    columns=(
        Column("registered", "registered, /s"),
        *columns("none", "nothing due, ms", ".2f"),
        *columns("some", "100 due, ms", ".2f"),
        *columns("node", "RSS, MB", ".0f"),
    ),
    run=scale,
    takes=is_sexton,
    once=True,
)
