"""Importing a crontab file: each line becomes a schedule of one task, which gets the command."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sexton.declared import Declared, What
from sexton.domain.crontab import BadLine, CronLine, Crontab, parse_crontab
from sexton.errors import InvalidSchedule
from sexton.flow.verbs import Verbs
from sexton.store import Store
from sexton.store.schedules import DEFAULT_TENANT

SHOWN = 20
TAG = "crontab"
Done = Literal["added", "changed", "kept", "stays cancelled"]


@dataclass(frozen=True, slots=True)
class Import:
    """What became of a crontab file: of each line, the ones left out, variables not carried."""

    lines: tuple[tuple[CronLine, Done], ...]
    bad: tuple[BadLine, ...]
    variables: Mapping[str, str]


class Crontabs(Declared):
    """The part of `app.schedules` that reads crontab files."""

    async def import_crontab(
        self,
        text: str,
        task: What,
        *,
        timezone: str | None = None,
        system: bool = False,
        prefix: str = "",
        skip_bad: bool = False,
        dry_run: bool = False,
        tenant: str = DEFAULT_TENANT,
        **options: Any,
    ) -> Import:
        """All lines, or none if one is bad; the same file again only changes what has changed, and
        what was cancelled since stays so.

        The task gets `command`, with `system` also `user`, and `stdin` if a line has a %. Times
        are those of CRON_TZ, or of `timezone`, or UTC.
        """
        crontab = parse_crontab(text, system=system, prefix=prefix)
        if crontab.bad and not (skip_bad or dry_run):
            raise InvalidSchedule(complaint(crontab))
        specs = [
            self.spec(
                line.name,
                task,
                arguments_of(line),
                **{
                    "cron": line.cron,
                    "timezone": line.timezone or timezone,
                    "tags": [TAG],
                    **options,
                },
            )
            for line in crontab.lines
        ]

        async def put(store: Store, owner: int) -> list[Done]:
            done: list[Done] = []
            verbs = Verbs(store, owner)
            there = await store.schedules.standings(owner, [spec.name for spec in specs])
            for spec in specs:
                if spec.name not in there and await verbs.add(spec, exist_ok=True):
                    done.append("added")
                    continue
                match await verbs.amend(spec):
                    case None:
                        done.append("stays cancelled")
                    case changed:
                        done.append("changed" if changed else "kept")
            if dry_run:
                raise _DryRun(done)
            return done

        try:
            done = await self.transaction(tenant, put)
        except _DryRun as stopped:
            done = stopped.done
        lines = tuple(zip(crontab.lines, done, strict=True))
        return Import(lines, crontab.bad, crontab.variables)


class _DryRun(Exception):
    """Ends the transaction without its effects."""

    def __init__(self, done: list[Done]) -> None:
        self.done = done


def arguments_of(line: CronLine) -> dict[str, str]:
    """What the task of a line gets."""
    given = {"command": line.command, "user": line.user, "stdin": line.stdin}
    return {name: value for name, value in given.items() if value is not None}


def complaint(crontab: Crontab) -> str:
    """What is wrong with a file, on one line."""
    wrong = [f"line {each.line}: {each.why}" for each in crontab.bad]
    more = f"; and {len(wrong) - SHOWN:,} more" if len(wrong) > SHOWN else ""
    return "; ".join(wrong[:SHOWN]) + more
