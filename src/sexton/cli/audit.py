"""sexton audit"""

from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from sexton import Sexton
from sexton.cli import output
from sexton.cli.instants import Instant
from sexton.cli.output import ExitCode, count, lasted, say, show, show_json
from sexton.cli.parameters import Json, as_instant
from sexton.cli.progress import waiting
from sexton.cli.session import at_database, options
from sexton.domain.audit import SHOWN, WRONGS, Audit, Lag
from sexton.store.schedules import DEFAULT_TENANT


def audit(
    context: typer.Context,
    from_: Annotated[
        Instant,
        typer.Option(
            "--from", metavar="INSTANT", parser=as_instant, help="Fires from then on: -1h."
        ),
    ] = Instant(offset=-3600.0),
    to: Annotated[
        Instant,
        typer.Option("--to", metavar="INSTANT", parser=as_instant, help="Fires before: -5s."),
    ] = Instant(offset=-5.0),
    schedule: Annotated[
        str | None, typer.Option("--schedule", metavar="NAME", help="Only of this schedule.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute every fire anew and compare with the ledger; exit code 1 on any violation."""

    async def check(app: Sexton) -> Audit:
        now = await (await app.client()).store.history.clock()
        tenant = options(context).tenant or DEFAULT_TENANT
        return await app.audit(
            from_.resolved(now), to.resolved(now), schedule=schedule, tenant=tenant
        )

    with waiting("comparing every fire with the ledger", quiet=as_json):
        found = at_database(context, check)
    if as_json:
        show_json(_as_json(found))
    else:
        show(*_described(found))
        say(_verdict(found))
    if not found.clean:
        raise typer.Exit(ExitCode.FINDING)


def _as_json(found: Audit) -> dict[str, Any]:
    return {
        "expected": found.expected,
        "fired": found.fired,
        "missing": found.missing,
        "doubled": found.doubled,
        "early": found.early,
        "lag": found.lag,
        "unexpected": found.unexpected,
        "lost": found.lost,
        "pending": found.pending,
        "catch_up_lag": found.catch_up_lag,
        "decisions": found.decisions,
        "passed_over": found.passed_over,
        "kinds": found.kinds,
        "schedules": found.schedules,
        "from": found.from_,
        "to": found.to,
        "violations": found.violations,
        "unchecked": found.unchecked,
    }


def _described(found: Audit) -> list[RenderableType]:
    facts: list[tuple[str, Any]] = [
        ("from", found.from_.isoformat(timespec="seconds")),
        ("to", found.to.isoformat(timespec="seconds")),
        ("schedules", f"{found.schedules:,}"),
        ("expected", f"{found.expected:,}"),
        *((name, f"{many:,}") for name, many in found.decisions.items()),
        ("pending", f"{found.pending:,}" if found.pending else None),
        *((f"({name})", f"{many:,}") for name, many in found.passed_over.items()),
        *((wrong, _number(getattr(found, wrong))) for wrong in WRONGS),
        ("lag", _lag(found.lag)),
        ("caught up", _lag(found.catch_up_lag)),
        *(
            (f"by {kind}", f"{found.kinds[kind]:,}")
            for kind in ("backfill", "trigger")
            if kind in found.kinds
        ),
        ("unchecked", f"{len(found.unchecked):,}" if found.unchecked else None),
    ]
    shown: list[RenderableType] = [output.facts(facts)]
    if found.violations:
        made = output.table("what", "schedule", "instant", "why", shrinks=("schedule", "why"))
        for each in found.violations:
            output.row(made, each.what, each.schedule, each.fire_at.isoformat(), each.why)
        shown += ["", made]
    if found.unchecked:
        made = output.table("unchecked", "why", shrinks=("unchecked", "why"))
        for unchecked in found.unchecked[:SHOWN]:
            output.row(made, unchecked.schedule, unchecked.why)
        shown += ["", made]
    return [*shown, ""]


def _verdict(found: Audit) -> str:
    broken = sum(getattr(found, wrong) for wrong in WRONGS)
    if broken:
        first = f"; the first {SHOWN} are above" if broken > SHOWN else ""
        return count(broken, "violation") + first
    if found.unchecked:
        return f"no violations, but {count(len(found.unchecked), 'schedule')} cannot be checked"
    return "every fire has its one decision"


def _number(many: int) -> Text:
    return Text(f"{many:,}", style="bold red" if many else "")


def _lag(lag: Lag) -> str | None:
    if lag.p50 is None or lag.p99 is None or lag.max is None:
        return None
    return f"p50 {lasted(lag.p50)} · p99 {lasted(lag.p99)} · max {lasted(lag.max)}"
