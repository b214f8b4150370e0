"""One run: a cluster is put up, worked, hurt, left in peace, taken down, and then judged."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sexton import Sexton, __version__
from sexton.cli.output import count
from sexton.errors import ConfigurationError
from sexton.torture import capture
from sexton.torture.cast import FAR, LATE, LOOPBACK, Cast, Pace, Size
from sexton.torture.faults.inflict import Inflictor
from sexton.torture.faults.log import FaultLog
from sexton.torture.faults.plan import OFFSETS, Planned, plan
from sexton.torture.progress import telling
from sexton.torture.room import vacant
from sexton.torture.stand import Process, Stand, StandError
from sexton.torture.stand.clocks import apart, now_us
from sexton.torture.stand.processes import Kind
from sexton.torture.work.prepare import fresh_secret_key, prepare

# After the last fault everybody has so long to be ready; then all of them so long to come back to
# order, at least and at most; then so long to finish what is due.
READY_WITHIN = 60.0
CALM, CAUGHT_UP_WITHIN = 20.0, 120.0
DRAIN_WITHIN = 60.0
_LOOK_EVERY = 0.5
_CLUSTER: tuple[Kind, ...] = ("node", "worker", "api")
_BEHIND = "select count(*) from {}.due where next_fire_at < clock_timestamp() - interval '2 s'"
_BUSY = "select count(*) from {}.job where due_at <= clock_timestamp()"


@dataclass(frozen=True, slots=True)
class Options:
    """What somebody asked for."""

    folder: Path
    seed: int
    seconds: float
    url: str | None = None
    schema: str = "sexton"
    size: Size = field(default_factory=Size)
    pace: Pace = field(default_factory=Pace)
    command: str = ""
    env: Mapping[str, str] = field(default_factory=dict)  # for every process

    @property
    def held(self) -> bool:
        """Whether somebody else keeps a transaction open the whole time: with every other seed."""
        return self.seed % 2 == 0


class Run:
    """Leaves everything that the checker needs in the folder, and nothing running."""

    def __init__(self, options: Options, say: Callable[[str], None] = lambda _: None) -> None:
        self._options = options
        self._say = say
        self._about: dict[str, Any] = {}

    async def run(self) -> None:
        options = self._options
        self._make_folder()
        self._say(f"seed {options.seed}, everything goes to {options.folder}")
        secret = fresh_secret_key()
        env = {
            **options.pace.env,
            "SEXTON_SCHEMA": options.schema,
            "SEXTON_SECRET_KEY": secret,
            "SEXTON_HTTP_ALLOW": LOOPBACK,
            **options.env,
        }
        log = FaultLog(options.folder)
        try:
            async with Stand(options.folder, url=options.url, env=env) as stand:
                stand.events.listener = lambda each: log.note(
                    each.what, each.target, each.at, **each.detail
                )
                cast = Cast(options.size, options.seed)
                faults = self._plan(cast, stand)
                await self._prepare(stand, cast, secret)
                await self._work(stand, cast, log, faults)
                await self._end(stand)
        finally:
            log.close()

    # ── before ──────────────────────────────────────────────────────────────

    def _make_folder(self) -> None:
        folder = self._options.folder
        try:
            vacant(folder)
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("effects", "acks", "dump"):
                (folder / name).mkdir()
        except OSError as error:
            raise ConfigurationError(f"a run cannot be written down there: {error}") from error

    def _plan(self, cast: Cast, stand: Stand) -> list[Planned]:
        options = self._options
        hurt = cast.field(options.pace, server=stand.pair is not None)
        faults = plan(options.seed, options.seconds, hurt, intensity=options.size.intensity)
        self._about = {
            "seed": options.seed,
            "seconds": options.seconds,
            "command": options.command,
            "commit": _commit(),
            "version": __version__,
            "schema": options.schema,
            "settings": asdict(options.pace),
            "size": asdict(options.size),
            "held": options.held,
            "planned": len(faults),
            "clock": {"realtime_minus_monotonic_us": stand.clock_us},
        }
        self._write_about()
        return faults

    async def _prepare(self, stand: Stand, cast: Cast, secret: str) -> None:
        options = self._options
        self._say("migrating, and registering the schedules")
        app = Sexton(stand.url, schema=options.schema, secret_key=secret, http_allow=LOOPBACK)
        try:
            await app.migrate()
            async with stand.connection() as connection:
                await capture.install(connection, options.schema)
                self._about["clock_offsets"] = [await apart(connection)]
            prepared = await prepare(
                app,
                options.folder,
                seed=options.seed,
                seconds=options.seconds + CALM,
                secret_key=secret,
                sink=cast.sink_urls,
                fires_per_second=options.size.fires_per_second,
                lease=options.pace.lease,
                schema=options.schema,
            )
        finally:
            await app.close()
        self._about |= {
            "tenants": prepared.tenants,
            "schedules": prepared.schedules,
            "rate": prepared.rate,
            "prepared_at": prepared.begins,
        }
        self._write_about()

    # ── while it lasts ──────────────────────────────────────────────────────

    async def _work(
        self, stand: Stand, cast: Cast, log: FaultLog, faults: Sequence[Planned]
    ) -> None:
        options = self._options
        cluster = [*cast.nodes, *cast.workers, *cast.apis, cast.sink]
        await stand.add(*cluster, *cast.clients)
        self._skew(stand, cast)
        self._say(f"starting {len(cluster)} processes and {len(cast.clients)} clients")
        await stand.start([each.name for each in cluster])
        await stand.start([each.name for each in cast.clients])
        self._about["began_at"] = now_us()
        self._write_about()
        inflictor = Inflictor(stand, log, schema=options.schema, grace=options.pace.grace)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(stand.kept())
            if options.held:
                await stack.enter_async_context(stand.sessions.hold())
            began = time.monotonic()
            seconds = options.seconds
            self._say(f"{count(len(faults), 'fault')} in {seconds:g} s")
            async with telling(self._say, stand, log, schema=options.schema, seconds=seconds):
                await inflictor.run(faults, began)
                await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
            await self._calm(stand)

    async def _calm(self, stand: Stand) -> None:
        """Nobody is hurt any more, nor asked for anything but by those who commit late; what is due
        is still fired and run."""
        self._about["calm_at"] = now_us()
        self._say("no more faults: everybody may finish, for half a minute or so")
        await asyncio.gather(*(self._back(each, stand) for each in stand.of(*_CLUSTER)))
        self._about["ready_at"] = now_us()
        ready = time.monotonic()
        for process in stand.of("client"):
            if not process.name.startswith(FAR) and process.name != LATE:
                await self._ended(process.name, stand)
        self._about["behind"] = await self._until_none(stand, _BEHIND, CAUGHT_UP_WITHIN)
        await asyncio.sleep(max(0.0, ready + CALM - time.monotonic()))
        self._about["stopped_at"] = now_us()
        # What was committed behind those who claim is found by them even if none of them is new.
        await self._ended(LATE, stand)
        for process in stand.of("node"):
            await self._ended(process.name, stand)
        self._about["left"] = await self._until_none(stand, _BUSY, DRAIN_WITHIN)
        self._about["ended_at"] = now_us()
        self._write_about()

    async def _back(self, process: Process, stand: Stand) -> None:
        """Who does not recover is a finding, and no reason to leave the others unjudged."""
        try:
            await process.wait_ready(READY_WITHIN, kept=True)
        except StandError as error:
            stand.events.note("did not come back", process.name, error=str(error))

    async def _ended(self, name: str, stand: Stand) -> None:
        try:
            end = await stand.processes[name].term(self._options.pace.grace + 20.0)
            stand.events.note("ended", name, **end._asdict())
        except StandError as error:
            stand.events.note("did not end", name, error=str(error))

    async def _until_none(self, stand: Stand, query: str, within: float) -> int:
        """Until nothing is counted, but not for ever; how many are left."""
        until = time.monotonic() + within
        async with stand.connection() as connection:
            while left := await connection.fetchval(query.format(self._options.schema)):
                if time.monotonic() > until:
                    break
                await asyncio.sleep(_LOOK_EVERY)
        return int(left)

    # ── after ───────────────────────────────────────────────────────────────

    async def _end(self, stand: Stand) -> None:
        for process in stand.of("client", "worker", "api", "sink"):
            await self._ended(process.name, stand)
        self._about["written"] = {name: self._whole_lines(name) for name in ("effects", "acks")}
        self._say("writing down what the database holds")
        async with stand.connection() as connection:
            self._about["clock_offsets"].append(await apart(connection))
            self._about["lines"] = await capture.dump(
                connection, self._options.folder, self._options.schema
            )
        self._write_about()

    def _skew(self, stand: Stand, cast: Cast) -> None:
        """Some clocks are wrong from the beginning."""
        random = Random(f"{self._options.seed}/clocks")
        for role in (*cast.nodes, *cast.workers):
            if random.random() < 0.5:
                stand.processes[role.name].clock(random.choice(OFFSETS))

    def _whole_lines(self, name: str) -> int:
        """Who was killed may have left half a line behind."""
        files = (self._options.folder / name).glob("*.jsonl")
        return sum(each.read_bytes().count(b"\n") for each in files)

    def _write_about(self) -> None:
        text = json.dumps(self._about, indent=2)
        (self._options.folder / "run.json").write_text(text + "\n")


def _commit() -> str | None:
    """Of the code that runs, if it is run from a checkout; not of whatever it is installed in."""
    with suppress(OSError):
        if _git("ls-files", Path(__file__).name):
            return _git("rev-parse", "--short", "HEAD") or None
    return None


def _git(*words: str) -> str:
    asked = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
