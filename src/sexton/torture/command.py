"""A run from the first process to the last line of its report."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sexton.cli.output import count
from sexton.errors import Unavailable
from sexton.store.connection import Address, is_lost
from sexton.store.connection import say as said
from sexton.torture.cast import Cast, Size
from sexton.torture.guest import SCRATCH, Guest, guest
from sexton.torture.progress import watching
from sexton.torture.proxy import ProxyError
from sexton.torture.report import FINDINGS, NoVerdict, judge
from sexton.torture.room import make_sure, needs, vacant
from sexton.torture.run import Options, Run
from sexton.torture.stand import StandError
from sexton.torture.stand.errors import AWAY

_LINES = 12


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
        if self.url is not None:
            words += ["--database-url", str(Address(self.url))]
        return shlex.join(words)

    def options(self, there: Guest) -> Options:
        return Options(
            folder=self.folder,
            seed=self.seed,
            seconds=self.seconds,
            url=self.url,
            schema="sexton" if self.url is None else SCRATCH,
            size=self.size,
            command=self.command,
            env=there.env,
        )

    def no_verdict(self, error: Exception) -> str:
        """Whose fault it is, and where to look."""
        if self.url is not None and is_lost(error):
            why = f"your server at {Address(self.url)} does not answer ({said(error)})"
            return f"no verdict: {why}; see {self.folder}"
        _, *more = _shown(str(error))
        why = "\n    ".join([said(error), *more])
        return f"no verdict: the rig itself failed, see {self.folder}: {why}"

    def place(self) -> AbstractAsyncContextManager[Guest]:
        """A server of its own, or what an operator gave."""
        if self.url is None:
            return nullcontext(Guest())
        cast = Cast(self.size, self.seed)
        return guest(self.url, len(cast.with_database))


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict, for people and for programs."""

    folder: Path
    verdict: dict[str, Any]
    left_behind: Sequence[str] = ()

    @property
    def clean(self) -> bool:
        """Everything was checked as well."""
        return bool(self.verdict["clean"]) and not self.broken

    @property
    def broken(self) -> bool:
        """A promise was, or somebody did what nobody may: not only something left unchecked."""
        events = self.verdict["events"]
        return bool(self.verdict["violations"]) or any(events[each] for each in FINDINGS)

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            **self.verdict,
            "clean": self.clean,
            "folder": str(self.folder),
            "left_behind": [*self.left_behind],
        }

    def lines(self) -> Iterator[str]:
        verdict, events = self.verdict, self.verdict["events"]
        yield from verdict["text"].rstrip().splitlines()
        yield ""
        kinds = ", ".join(f"{many} {kind}" for kind, many in events["by_kind"].items())
        yield count(events["faults"], "fault") + (f": {kinds}" if kinds else "")
        if events["failed"]:
            yield f"{len(events['failed'])} more could not be done when they were due"
        if events["came_to_nothing"]:
            yield f"{events['came_to_nothing']} more came to nothing: no message came to be cut at"
        for each in events["fell"]:
            yield f"FELL {each['who']} with exit code {each['code']}: see logs/{each['who']}.log"
        for each in events["did_not_end"]:
            yield f"DID NOT END {each['who']}: {each['error']}"
        for each in events["did_not_come_back"]:
            first, *log = _shown(each["error"])
            yield f"DID NOT COME BACK {each['who']}: {first}"
            yield from (f"    {line}" for line in log)
        for statement in self.left_behind:
            yield f"left behind in the database: {statement}"
        yield f"{count(verdict['violations'], 'violation')}; seed {verdict['seed']}"


async def perform(
    asked: Asked, say: Callable[[str], None], warn: Callable[[str], None] | None = None
) -> Report:
    """Run and judge; an operator's server is left as it was found.

    What the host has no room for is refused. `warn` is told what else to know before it begins, of
    a server that does not answer, and what is left there of a run that came to nothing.
    """
    warn = warn or say
    vacant(asked.folder)
    for warning in make_sure(
        needs(asked.seconds, asked.size, own_servers=asked.url is None), asked.folder
    ):
        warn(warning)
    there = Guest()
    try:
        async with asked.place() as there, watching(warn, asked.url):
            await Run(asked.options(there), say).run()
        say("checking")
        verdict = await judge(asked.folder)
    except BaseException as error:
        if there.left_behind:
            warn("\n    ".join(["could not be removed from your server:", *there.left_behind]))
        if isinstance(error, (StandError, ProxyError, NoVerdict, *AWAY)):
            raise Unavailable(asked.no_verdict(error)) from error
        raise
    report = Report(asked.folder, verdict, there.left_behind)
    (asked.folder / "report.txt").write_text("\n".join(report.lines()) + "\n")
    return report


def _shown(said: str) -> list[str]:
    """What it begins with, and below how it ends, which is the useful part of a log."""
    first, *rest = [line for line in said.splitlines() if line.strip()] or [""]
    return [first, *rest[-_LINES:]]
