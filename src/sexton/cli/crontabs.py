"""sexton schedule import: a crontab file, or JSON lines, line by line"""

import sys
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sexton.cli import output
from sexton.cli.bulk import add_from_file
from sexton.cli.complete import tasks
from sexton.cli.output import ExitCode, count, say, show, show_json
from sexton.cli.parameters import Json
from sexton.cli.progress import Bar, progress
from sexton.cli.schedule import said
from sexton.cli.session import options, run
from sexton.cli.site import Site, as_target, in_words
from sexton.crontab import TAG, Done, Import, arguments_of, complaint
from sexton.domain.crontab import CronLine, Crontab, parse_crontab
from sexton.domain.policy import Policy
from sexton.errors import ConfigurationError, InvalidSchedule, UnknownSchedule
from sexton.remote.views import Schedule

commands = typer.Typer()
_DONE: dict[str, Done] = {"created": "added", "updated": "changed", "exists": "kept"}
_USUAL = Policy()


@commands.command("import")
def import_crontab(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A crontab, or JSON lines; - reads stdin.")
    ],
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            help="Of a crontab: the task that runs each command; it gets `command`.",
            autocompletion=tasks,
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option("--timezone", metavar="ZONE", help="Of lines without CRON_TZ; UTC."),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="As /etc/crontab, with a user before the command.")
    ] = False,
    prefix: Annotated[str, typer.Option("--prefix", help="Before every name.")] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out bad lines.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    as_json: Json = False,
) -> None:
    """Each line of a file as a schedule; again, it only changes what has changed. It is a crontab,
    or what `schedule export` wrote."""
    if task is None:
        if timezone or system or prefix or skip_bad or dry_run or not _is_json_lines(file):
            raise InvalidSchedule("a crontab needs --task: the task that runs each command")
        add_from_file(context, file, replace=True, as_json=as_json)
        return
    crontab = parse_crontab(_read(file), system=system, prefix=prefix)
    if crontab.bad and not (skip_bad or dry_run):
        raise InvalidSchedule(complaint(crontab))
    wanted = [_wanted(line, task, timezone) for line in crontab.lines]
    check = options(context).bare().schedules.spec
    for each in wanted:  # all of them before the first is sent
        rule = {name: each[name] for name in ("cron", "timezone", "tags") if name in each}
        check(each["name"], task, each["payload"], **rule)

    async def bring_in(site: Site, bar: Bar) -> Import:
        done = await (_would_do(site, wanted, bar) if dry_run else _do(site, wanted, bar))
        return _import(crontab, done)

    with progress("schedules imported", len(wanted), quiet=as_json or dry_run) as bar:
        done = run(context, lambda site: bring_in(site, bar))
    if as_json:
        show_json(
            {
                "dry_run": dry_run,
                "schedules": [{"done": what, "line": line} for line, what in done.lines],
                "bad": done.bad,
                "variables": dict(done.variables),
            }
        )
    else:
        _show_import(done, dry_run)
    for bad in done.bad:
        output.complain(f"line {bad.line}: {bad.why}")
    if done.bad and not skip_bad:
        raise typer.Exit(ExitCode.FINDING)


def _wanted(line: CronLine, task: str, timezone: str | None) -> dict[str, Any]:
    """As the API says it."""
    zone = line.timezone or timezone
    return {
        "name": line.name,
        "target": as_target(task),
        "payload": arguments_of(line),
        "cron": line.cron,
        "tags": [TAG],
        **({} if zone is None else {"timezone": zone}),
    }


def _import(crontab: Crontab, done: list[Done]) -> Import:
    lines = tuple(zip(crontab.lines, done, strict=True))
    return Import(lines, crontab.bad, crontab.variables)


async def _found(site: Site, wanted: list[dict[str, Any]]) -> dict[str, Schedule]:
    """Those of these names that there are, cancelled ones too."""
    found: dict[str, Schedule] = {}
    for each in wanted:
        with suppress(UnknownSchedule):
            found[each["name"]] = await site.schedules.get(each["name"])
    return found


async def _do(site: Site, wanted: list[dict[str, Any]], bar: Bar) -> list[Done]:
    """What somebody has cancelled stays so."""
    there = await _found(site, wanted)
    cancelled = {name for name, each in there.items() if each.state == "cancelled"}
    done: dict[str, Done] = dict.fromkeys(cancelled, "stays cancelled")
    bar.step(len(cancelled))
    sent = [each for each in wanted if each["name"] not in cancelled]
    async for line in site.schedules.add_many(sent, mode="upsert"):
        if line.status == "error":
            why = (line.error or {}).get("detail", "")
            raise InvalidSchedule(f"schedule {line.name!r}: {why}; {bar.done:,} were imported")
        done[sent[line.line - 1]["name"]] = _DONE[line.status]
        bar.step()
    return [done[each["name"]] for each in wanted]


async def _would_do(site: Site, wanted: list[dict[str, Any]], bar: Bar) -> list[Done]:
    there = await _found(site, wanted)
    return [_would_become(there.get(each["name"]), each) for each in wanted]


def _would_become(there: Schedule | None, wanted: dict[str, Any]) -> Done:
    if there is None:
        return "added"
    if there.state == "cancelled":
        return "stays cancelled"
    usual = {name: getattr(_USUAL, name) for name in ("misfire", "grace", "overlap")}
    now = {"target": in_words(there.target), "payload": there.payload, **said(there)}
    then = {"timezone": "UTC", **usual, **wanted, "target": in_words(wanted["target"])}
    del then["name"]
    return "kept" if now == then else "changed"


def _show_import(done: Import, dry_run: bool) -> None:
    made = output.table(
        *("line", "name", "when", "command", "done"),
        right=("line",),
        shrinks=("name", "when", "command"),
    )
    for line, what in done.lines:
        zone = f" {line.timezone}" if line.timezone else ""
        output.row(made, line.line, line.name, line.cron + zone, line.command, what)
    if done.lines:
        show(made)
    if done.variables:
        say(f"not carried over: {', '.join(done.variables)}; the task's own environment counts")
    would = "would be imported" if dry_run else "imported"
    say(f"{count(len(done.lines), 'schedule')} {would}")


def _is_json_lines(file: str) -> bool:
    """By its first character: no line of a crontab begins with a brace."""
    try:
        if file == "-":
            begins = cast(BufferedReader, sys.stdin.buffer).peek(1024)
        else:
            with Path(file).open("rb") as opened:
                begins = opened.read(1024)
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
    return not begins.strip() or begins.lstrip().startswith(b"{")


def _read(file: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}") from None
