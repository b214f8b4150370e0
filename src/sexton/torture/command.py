"""A run from the first process to the last line of its report."""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from sexton.errors import ConfigurationError
from sexton.torture.cast import Size
from sexton.torture.report import judge
from sexton.torture.run import Options, Run

# On a server of somebody else's: nothing that is there is touched.
SCRATCH = "sexton_torture"
_TAKEN = "select nspname from pg_namespace where nspname = any($1::text[])"


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asked for on the command line."""

    folder: Path
    seed: int
    seconds: float
    url: str | None
    size: Size

    @property
    def command(self) -> str:
        """What does the same again, as far as chance allows."""
        size, usual = self.size, Size()
        words = ["sexton", "torture", "--seed", str(self.seed), "--seconds", f"{self.seconds:g}"]
        for option, given, default in (
            ("--nodes", size.nodes, usual.nodes),
            ("--workers", size.workers, usual.workers),
            ("--apis", size.apis, usual.apis),
            ("--fires", size.fires_per_second, usual.fires_per_second),
            ("--intensity", size.intensity, usual.intensity),
        ):
            if given != default:
                words += [option, f"{given:g}"]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict, for people and for programs."""

    verdict: dict[str, Any]

    @property
    def clean(self) -> bool:
        events = self.verdict["events"]
        return not (self.verdict["violations"] or events["fell"] or events["did_not_end"])

    @property
    def as_json(self) -> dict[str, Any]:
        return {"clean": self.clean, **self.verdict}

    def lines(self) -> Iterator[str]:
        verdict, events = self.verdict, self.verdict["events"]
        yield from verdict["text"].rstrip().splitlines()
        yield ""
        kinds = ", ".join(f"{many} {kind}" for kind, many in events["by_kind"].items())
        yield f"{events['faults']} faults: {kinds}"
        if events["failed"]:
            yield f"{len(events['failed'])} of them could not be done when they were due"
        for each in events["fell"]:
            yield f"FELL {each['who']} with exit code {each['code']}: see logs/{each['who']}.log"
        for each in events["did_not_end"]:
            yield f"DID NOT END {each['who']}: {each['error']}"
        yield f"{verdict['violations']} violations; seed {verdict['seed']}"


async def perform(asked: Asked, say: Callable[[str], None]) -> Report:
    """Run and judge; an operator's server is left as it was found."""
    say(f"seed {asked.seed}, everything goes to {asked.folder}")
    options = Options(
        folder=asked.folder,
        seed=asked.seed,
        seconds=asked.seconds,
        url=asked.url,
        schema="sexton" if asked.url is None else SCRATCH,
        size=asked.size,
        command=asked.command,
    )
    if asked.url is not None:
        await _demand_scratch(asked.url)
    try:
        await Run(options, say).run()
    finally:
        if asked.url is not None:
            await _tidy(asked.url)
    say("checking")
    return Report(await judge(asked.folder))


async def _demand_scratch(url: str) -> None:
    connection = await asyncpg.connect(url, timeout=30)
    try:
        taken = [row["nspname"] for row in await connection.fetch(_TAKEN, [SCRATCH, "torture"])]
    finally:
        connection.terminate()
    if taken:
        raise ConfigurationError(
            f"that database has a schema {taken[0]!r} already: give a scratch database, or drop it"
        )


async def _tidy(url: str) -> None:
    connection = await asyncpg.connect(url, timeout=30)
    try:
        await connection.execute("drop schema if exists torture cascade")
        await connection.execute(f"drop schema if exists {SCRATCH} cascade")
        await connection.execute(f"drop role if exists {SCRATCH}_tenant")
    finally:
        connection.terminate()
