"""The next fire of many mixed expressions; `python -m bench.calendar` compares it with peers."""

from __future__ import annotations

from time import perf_counter

from bench.arena import Arena
from bench.contenders import Contender
from bench.scenarios.base import Column, Figures, Scenario, Sizes
from bench.scenarios.nodes import is_sexton


async def calendar(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    from bench.calendar import (
        cases,
        sexton_kept,
    )  # it prints tables as we do: imports go in circles

    asked = cases(sizes.calendar)
    following = sexton_kept()
    began = perf_counter()
    for case in asked:
        following(case)
    return {"calendar": (perf_counter() - began) / len(asked) * 100_000}


CALENDAR = Scenario(
    name="calendar",
    about="the next fire of mixed expressions in many time zones",
    columns=(Column("calendar", "next fire, s / 100,000", ".2f", more_is_better=False),),
    run=calendar,
    takes=is_sexton,
    rounds=5,
)
