"""How fast jobs come in: one at a time, awaited; and many at once."""

from __future__ import annotations

from bench.arena import Arena
from bench.contenders import Contender
from bench.scenarios.base import Column, Figures, Scenario, Sizes


async def single(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    async with arena.stage(contender) as stage:
        process = await stage.process()
        await process.ask("single", count=50)  # plans and caches
        await stage.settle_down()
        count = int(sizes.single * contender.single_scale)
        told = await process.ask("single", count=count)
        await stage.expect(count + 50)
        return {"single": count / told["seconds"]}


async def bulk(arena: Arena, contender: Contender, sizes: Sizes) -> Figures:
    figures: Figures = {}
    for number, style in enumerate(contender.bulk_styles):
        async with arena.stage(contender) as stage:
            process = await stage.process()
            await process.ask("bulk", count=100, style=style)
            await stage.settle_down()
            told = await process.ask("bulk", count=sizes.bulk, style=style)
            await stage.expect(sizes.bulk + 100)
            key = "bulk" if number == 0 else f"bulk_{style}"
            figures[key] = sizes.bulk / told["seconds"]
    return figures


SINGLE = Scenario(
    name="single",
    about="enqueue one at a time, awaited",
    columns=(Column("single", "one by one, jobs/s"),),
    run=single,
)
BULK = Scenario(
    name="bulk",
    about="enqueue many at once",
    columns=(Column("bulk", "bulk, jobs/s"), Column("bulk_unnest", "bulk by unnest, jobs/s")),
    run=bulk,
)
