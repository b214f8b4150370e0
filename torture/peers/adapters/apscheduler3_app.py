"""APScheduler 3: a scheduler that is the only thing in its process, over a SQLAlchemy store.

Its tasks do not learn which fire they are for; its executor says so in its log, in the task's own
thread, just before it calls the task.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC
from importlib import import_module
from typing import Any

from torture.peers.adapters.given import Given
from torture.peers.workload import WORK

THREADS = 50
OVERLAP = 100  # runs of one schedule at once: none is left out because the one before still runs
current = threading.local()
effects: Any = None


class Announced(logging.Handler):
    """Keeps the instant of `Running job … (scheduled at …)` for the task that follows it."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Running job") and isinstance(record.args, tuple):
            current.fire_at = record.args[1]


def ring(name: str) -> None:
    run = effects.begin(name, fire_at=current.fire_at.timestamp())
    time.sleep(WORK)
    effects.end(run)


def scheduler(given: Given, kind: str) -> Any:
    store = import_module("apscheduler.jobstores.sqlalchemy").SQLAlchemyJobStore(
        url=given.url.replace("://", "+psycopg://", 1), engine_options={"pool_pre_ping": True}
    )
    executor = import_module("apscheduler.executors.pool").ThreadPoolExecutor(THREADS)
    made = getattr(import_module(f"apscheduler.schedulers.{kind}"), f"{kind.title()}Scheduler")
    return made(
        jobstores={"default": store},
        executors={"default": executor},
        job_defaults={"coalesce": False, "misfire_grace_time": None, "max_instances": OVERLAP},
        timezone=UTC,
    )


def set_up(given: Given) -> None:
    """Once: to add them in every process would move their next fires and lose what was due."""
    adding = scheduler(given, "background")
    adding.start(paused=True)
    for schedule in given.schedules:
        adding.add_job(
            ring,
            "cron",
            second=schedule.seconds,
            id=schedule.name,
            kwargs={"name": schedule.name},
        )
    adding.shutdown()


def run(given: Given) -> None:
    global effects
    effects = given.effects
    said = logging.getLogger("apscheduler.executors.default")
    said.setLevel(logging.INFO)
    said.addHandler(Announced())
    said.propagate = False
    logging.basicConfig(level=logging.WARNING)
    scheduler(given, "blocking").start()
