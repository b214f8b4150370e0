"""sexton installation|retention: what holds for all of it"""

import math
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from sexton import Sexton
from sexton.cli import output
from sexton.cli.database.logged import Change, changed
from sexton.cli.output import lasted, show, show_json
from sexton.cli.parameters import Json, reads
from sexton.cli.session import at_database
from sexton.domain.duration import seconds
from sexton.flow.catch_up import LEAST_RATE, TIMES_USUAL
from sexton.operations import MOST_A_SECOND
from sexton.store.history import Kept

DAY = 86400.0
FOREVER = "forever"
USUAL = "usual"
# The log of what is no tenant's own is that of the first.
OPERATORS = 1


def _retention(text: str) -> float:
    """0 stands for ever, which is no length of time."""
    if text.strip().lower() == FOREVER:
        return 0.0
    length = seconds(text)
    if length < DAY:
        raise ValueError(f"{text!r} is too short: history is dropped by whole days, at least 1d")
    return length


def _history(text: str) -> float:
    if (length := _retention(text)) == 0:
        raise ValueError("history is dropped some day: give a duration such as 3650d")
    return length


def _rate(text: str) -> float:
    """0 stands for what is usual, which is no rate."""
    if text.strip().lower() == USUAL:
        return 0.0
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= MOST_A_SECOND:
        raise ValueError(f"{text!r} is not a number of fires a second, or {USUAL}")
    return rate


History = Annotated[
    float | None,
    typer.Option(
        "--history", metavar="DURATION", parser=reads(_history), help="Keep attempts: 90d."
    ),
]
Dead = Annotated[
    float | None,
    typer.Option(
        "--dead", metavar="DURATION|forever", parser=reads(_retention), help="Keep dead jobs."
    ),
]
CatchUp = Annotated[
    float | None,
    typer.Option(
        "--catch-up-rate",
        metavar="N|usual",
        parser=reads(_rate),
        help="Catch up so many fires a second; usual: twice as many as usually, at least 50.",
    ),
]


def installation(
    context: typer.Context,
    history: History = None,
    dead: Dead = None,
    catch_up_rate: CatchUp = None,
    as_json: Json = False,
) -> None:
    """What is set for the whole installation; with an option, change it."""
    kept = _kept(context, history, dead, catch_up_rate)
    if as_json:
        show_json(
            {
                "history": kept.retention,
                "dead": kept.dead_retention,
                "catch_up_rate": kept.catch_up_rate,
                "usual_rate": kept.usual_rate,
            }
        )
        return
    asked = kept.catch_up_rate
    rate = max(LEAST_RATE, TIMES_USUAL * kept.usual_rate) if asked is None else asked
    said = f"{rate:,g} fires a second" + (f", by what is {USUAL}" if asked is None else "")
    show(output.facts([*_lengths(kept), ("catching up", Text(said))]))


def retention(
    context: typer.Context, history: History = None, dead: Dead = None, as_json: Json = False
) -> None:
    """How long history and dead jobs are kept; with an option, change it."""
    kept = _kept(context, history, dead, None)
    if as_json:
        show_json({"history": kept.retention, "dead": kept.dead_retention})
    else:
        show(output.facts(_lengths(kept)))


def _kept(
    context: typer.Context, history: float | None, dead: float | None, rate: float | None
) -> Kept:
    """What holds, after what is to be changed; a change is in the audit log."""

    async def change(change: Change) -> Kept:
        store = change.store
        before = await store.history.kept()
        await store.history.set_retention(history, dead or None, dead is not None)
        if rate is not None:
            await store.due.set_rate(rate or None)
        after = await store.history.kept()
        if _set(before) != _set(after):
            schema = change.settings.schema
            change.log("installation.set", schema, before=_set(before), after=_set(after))
        return after

    async def work(app: Sexton) -> Kept:
        if (history, dead, rate) == (None, None, None):
            return await (await app.client()).store.history.kept()
        return await changed(app, OPERATORS, change)

    return at_database(context, work)


def _set(kept: Kept) -> dict[str, float | None]:
    """But for what is measured."""
    return {name: value for name, value in asdict(kept).items() if name != "usual_rate"}


def _lengths(kept: Kept) -> list[tuple[str, Any]]:
    dead = kept.dead_retention
    return [
        ("history", Text(_days(kept.retention))),
        ("dead jobs", Text(FOREVER if dead is None else _days(dead))),
    ]


def _days(length: float) -> str:
    return output.count(round(length / DAY), "day") if length % DAY == 0 else lasted(length)
