"""What a process of a crash point does: a whole node or worker, in its usual loops; or a client."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sexton import Sexton
from sexton.flow import stray
from sexton.flow.scheduler import Scheduler
from sexton.flow.worker import Worker
from sexton.torture.crash import client
from sexton.torture.crash.tasks import Log, make

# Only the pace: who lost the reply to a claim looks for it after seconds instead of half a minute.
STRAYS_EVERY = 0.3
LOOK_EVERY = 0.005


def run(role: str, told: dict[str, Any]) -> None:
    """Until SIGTERM, or for ever."""
    for name in list(os.environ):
        if name.startswith("SEXTON_"):
            del os.environ[name]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stray.EVERY = STRAYS_EVERY
    app = make(Log(told["effects"], told["name"]), **told["settings"])
    try:
        import uvloop
    except ImportError:
        asyncio.run(_run(app, role, told))
    else:
        uvloop.run(_run(app, role, told))


async def _run(app: Sexton, role: str, told: dict[str, Any]) -> None:
    process: Worker | Scheduler
    if role == "client":
        ready, go, answers = (Path(told[each]) for each in ("ready", "go", "answers"))
        await client.run(app, told["name"], ready, go, answers)
        return
    if role == "worker":
        process = await app.worker(concurrency=10, name=told["name"])
    else:
        process = await app.scheduler(name=told["name"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.stop)
    telling = asyncio.create_task(_tell_when_ready(process, Path(told["ready"]).touch))
    await process.run()
    telling.cancel()


async def _tell_when_ready(process: Worker | Scheduler, tell: Callable[[], None]) -> None:
    while not (process.health.ready and process.health.notifications):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_EVERY)
    tell()
