"""sexton dev: PostgreSQL, an application and its worker in one process, to be watched."""

import asyncio
import logging
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from sexton import Sexton, __version__
from sexton.cli.locate import locate
from sexton.cli.output import count, lasted, say
from sexton.cli.parameters import LogLevel
from sexton.cli.session import Options, embedded, log_to, options, run_loop
from sexton.cli.view import Silence, Status, View, best_view
from sexton.cli.watch import Scoreboard, Watch
from sexton.embedded import EmbeddedServer, default_folder
from sexton.errors import Unavailable
from sexton.flow.scheduler import Scheduler
from sexton.flow.worker import Worker
from sexton.targets.http import QUEUE as HTTP_QUEUE

EVERY = 0.25
# Counting a very long queue takes a while: looking shall not take more than a tenth of the time.
REST = 10.0
DEMO_SCHEMA = "sexton_demo"
_MORE = ("or", "dead ls · schedule ls · cluster · doctor; api serves all of it over HTTP")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Feed = Callable[[], Awaitable[None]]


def dev(
    context: typer.Context,
    app_name: Annotated[
        str | None,
        typer.Argument(metavar="[APP]", help="module:attribute; without it, a demonstration."),
    ] = None,
    log_level: LogLevel = "warning",
) -> None:
    """Everything in one process: PostgreSQL, APP, a node and a worker, live until Ctrl-C."""
    given = options(context)
    if app_name is not None:
        app, feed = given.applied(locate(app_name)), None
    else:
        app, feed = _demonstration(given)
    run_loop(_Dev(app, app_name or "the demonstration", feed, log_level).run())


def _demonstration(given: Options) -> tuple[Sexton, Feed]:
    """In a schema of its own, because its tasks must not meet the user's, now or later."""
    from sexton import demo

    app = given.applied(demo.app)
    if given.schema is None and app.settings.schema == "sexton":
        app.settings = app.settings.but(schema=DEMO_SCHEMA)
    return app, demo.feed


class _Dev:
    """One run, from starting PostgreSQL to saying what became of it."""

    def __init__(self, app: Sexton, name: str, feed: Feed | None, log_level: str) -> None:
        self._app = app
        self._feed = feed
        self._log_level = log_level
        self._view: View = best_view()
        self._status = Status(f"Sexton {__version__} · {name}", ())
        self._began = time.monotonic()
        self._stop = asyncio.Event()
        self._worker: Worker | None = None
        self._scheduler: Scheduler | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._pressed)
        ended = None
        async with embedded(self._app.settings) as server:
            self._status = replace(self._status, about=_about(self._app, server))
            if server is not None:
                self._app.settings = self._app.settings.but(database_url=server.url)
            await self._app.migrate()
            if not self._stop.is_set():
                async with self._app:
                    ended = await self._work()
        if ended is not None:
            say(_summary(ended, time.monotonic() - self._began))
        if server is not None:
            say(f"PostgreSQL is stopped; its data is kept in {_shown(server.folder)}")

    def _pressed(self) -> None:
        """Once to end, twice to end at once."""
        self._stop.set()
        if self._scheduler is not None:
            self._scheduler.stop()
        if self._worker is not None:
            self._worker.stop()

    async def _work(self) -> Scoreboard:
        # Nobody deploys here: what the code declares is what is wanted.
        await self._app.schedules.sync()
        # Whoever delivers to an endpoint wants to see it arrive: no other worker is here to do so.
        queues = {task.queue for task in self._app.tasks.values()} | {HTTP_QUEUE}
        self._worker = worker = await self._app.worker(sorted(queues))
        self._scheduler = scheduler = await self._app.scheduler()
        if self._stop.is_set():
            self._pressed()
        history = (await self._app.client()).store.history
        watch = Watch(history, await history.clock())
        self._show(lambda: self._view.open(self._status))
        log_to(logging.StreamHandler(), self._log_level)
        logging.getLogger("sexton.job").setLevel(logging.CRITICAL)  # the view shows them already
        running = asyncio.create_task(worker.run())
        firing = asyncio.create_task(scheduler.run())
        feeding = asyncio.ensure_future(self._feed()) if self._feed else None
        try:
            while not running.done():
                pause = await self._look(watch)
                await asyncio.wait([running], timeout=pause)
                if self._stop.is_set() and feeding is not None:
                    feeding.cancel()
            await running
            scheduler.stop()
            await firing
            await self._look(watch, last=True)
            return watch.board
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait([feeding])
            scheduler.stop()
            await asyncio.wait([firing])
            self._show(self._view.close)

    async def _look(self, watch: Watch, *, last: bool = False) -> float:
        """One look, shown; how long to wait for the next."""
        began = time.monotonic()
        trouble = ""
        try:
            await watch.look(last=last)
        except Unavailable as error:
            trouble = str(error)
            watch.board.fresh = []
        note = "Ctrl-C ends it"
        if last:
            note = "ended"
        elif self._stop.is_set() and self._worker is not None:
            left = self._worker.health.running
            note = f"ending: {count(left, 'job')} may finish; Ctrl-C again does not wait for them"
        up_for = time.monotonic() - self._began
        self._status = replace(self._status, note=note, trouble=trouble, up_for=up_for)
        self._show(lambda: self._view.show(self._status, watch.board))
        return max(EVERY, REST * (time.monotonic() - began))

    def _show(self, draw: Callable[[], None]) -> None:
        """Without somebody who looks there is nothing to do here."""
        try:
            draw()
        except OSError:
            self._view = Silence()
            if not self._stop.is_set():
                self._pressed()


def _about(app: Sexton, server: EmbeddedServer | None) -> tuple[tuple[str, str], ...]:
    """Where the data is, and how else to look at it."""
    settings = app.settings
    command = _program()
    if settings.schema != "sexton":
        command += f" --schema {settings.schema}"
    if server is None:
        url = urlsplit(settings.database_url or "")
        host = url.hostname or "localhost"
        return (
            ("PostgreSQL", f"{host}, database {url.path.strip('/')}, schema {settings.schema}"),
            ("look", f"{command} job ls  (with the same database URL)"),
            _MORE,
        )
    if server.folder != default_folder(Path.cwd()).resolve():
        command += f" --data-folder {shlex.quote(_shown(server.folder))}"
    psql = "psql" if shutil.which("psql") else str(server.bin_dir / "psql")
    return (
        ("PostgreSQL", f"{server.version}, data in {_shown(server.folder)}"),
        ("connect", f"{psql} {shlex.quote(server.url)}"),
        ("look", f"{command} job ls  (in this folder)"),
        _MORE,
    )


def _program() -> str:
    """As it is typed here: by its name if that is this one, and by its place if it is not."""
    here, found = Path(sys.executable).parent / "sexton", shutil.which("sexton")
    if not here.exists() or (found is not None and here.samefile(found)):
        return "sexton"
    return shlex.quote(_shown(here))


def _shown(path: Path) -> str:
    """As the user would type it."""
    try:
        return str(path.relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(path)


def _summary(board: Scoreboard, seconds: float) -> str:
    total = board.total
    said = f"{count(total.succeeded, 'job')} done in {lasted(seconds)}"
    if total.failed:
        said += f", {count(total.failed, 'failed attempt')}"
    if total.dead:
        said += f", {total.dead:,} dead"
    left = sum(each.live for each in board.counts.values())
    return f"{said}; {count(left, 'live job')} left for the next time"
