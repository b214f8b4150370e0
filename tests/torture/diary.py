"""What everybody writes down in a small run, and the tasks that do."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sexton import Job, Retry, Sexton, Snooze

SECOND = 1_000_000
QUICKLY = Retry(max_attempts=6, base=0.3, factor=2, cap=1)
TWICE = Retry(max_attempts=2, base=0.05, factor=2, cap=1)
Line = dict[str, Any]


def now_us() -> int:
    return time.time_ns() // 1000


def iso(at: int) -> str:
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at // SECOND)) + f".{at % SECOND:06}+00:00"
    )


class Diary:
    """What everybody writes down in the run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("effects", "acks", "dump", "logs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._asked = 0

    def write(self, name: str, line: Line) -> None:
        with (self.folder / name).open("a") as file:
            file.write(json.dumps({"at": now_us(), **line}) + "\n")

    def effect(self, event: str, job: int, attempt: int, fence: int, **more: Any) -> None:
        known = {"event": event, "job": job, "attempt": attempt, "fence": fence}
        self.write(f"effects/worker-{os.getpid()}.jsonl", {**known, **more})

    @contextmanager
    def noted(self, job: Job, **payload: Any) -> Iterator[None]:
        fire = job.fire
        more = {
            "key": job.key,
            "idempotency_key": job.idempotency_key,
            "task": job.task,
            "tenant": payload["tenant"],
            "worker_pid": os.getpid(),
            "schedule": None if fire is None else fire.schedule,
            "fire_at": None if fire is None else round(fire.fire_at.timestamp() * SECOND),
            "payload": payload,
        }
        self.effect("begin", job.id, job.attempt, job.fence, **more)
        try:
            yield
        except BaseException as error:
            self.effect("fail", job.id, job.attempt, job.fence, **more, why=repr(error))
            raise
        self.effect("end", job.id, job.attempt, job.fence, **more)

    async def ask(
        self, verb: str, tenant: str, subject: Any, body: Line, work: Awaitable[Any], via: str = ""
    ) -> Any:
        """Both lines of a request; its answer is what the work returns."""
        self._asked += 1
        n, name = self._asked, f"acks/client-{os.getpid()}.jsonl"
        asked = {"verb": verb, "via": via or "python", "tenant": tenant, "subject": subject}
        self.write(name, {"event": "ask", "n": n, **asked, "body": body})
        try:
            answer = await work
        except ValueError as error:
            refused = {"event": "error", "n": n, "error": str(error), "unsure": False}
            self.write(name, refused)
            return None
        self.write(name, {"event": "ack", "n": n, "answer": answer})
        return answer

    def fault(self, event: str, n: int, fault: str, target: str) -> None:
        line = {"event": event, "n": n, "fault": fault, "target": target, "for_s": 0, "detail": {}}
        self.write("faults.jsonl", line)


def make_app(url: str, diary: Diary) -> Sexton:
    app = Sexton(url, lease=1, node_lease=1, poll=0.25, patience=5, grace=1)

    @app.task(retry=QUICKLY)
    async def quick(job: Job, id: str, tenant: str, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev):
            pass

    @app.task(retry=QUICKLY)
    async def slow(job: Job, id: str, tenant: str, seconds: float, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
            job.progress({"fence": job.fence})
            await asyncio.sleep(seconds)

    @app.task(retry=QUICKLY)
    async def fails(job: Job, id: str, tenant: str, times: int, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev, times=times):
            if job.attempt <= times:
                raise RuntimeError("as asked")

    @app.task(retry=TWICE)
    async def dies(job: Job, id: str, tenant: str, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev):
            raise RuntimeError("always")

    @app.task(retry=QUICKLY)
    async def snoozes(job: Job, id: str, tenant: str, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev, rest=0.1):
            if job.attempt == 1 and (await app.job(job.id)).attempts == ():
                raise Snooze(0.1, "not yet")

    @app.task(retry=QUICKLY, max_running=2, max_running_per_key=1)
    async def limited(job: Job, id: str, tenant: str, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev):
            await asyncio.sleep(0.1)

    @app.task(retry=QUICKLY)
    async def transactional(job: Job, id: str, tenant: str, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev):
            async with job.transaction() as connection:
                await connection.execute(
                    "insert into torture.effect (job, attempt, fence, payload_id, tenant, "
                    "worker_pid) values ($1, $2, $3, $4, $5, $6)",
                    *(job.id, job.attempt, job.fence, id, tenant, os.getpid()),
                )

    @app.task(queue="cold", retry=QUICKLY)
    async def cold(job: Job, id: str, tenant: str, rev: int = 0) -> None:
        with diary.noted(job, id=id, tenant=tenant, rev=rev):
            await asyncio.sleep(0.2)

    return app


def described(app: Sexton) -> list[Line]:
    """Tasks, as the workload of a run describes its own."""
    return [
        {
            "task": task.name,
            "max_attempts": task.retry.max_attempts,
            "base": task.retry.base,
            "factor": task.retry.factor,
            "cap": task.retry.cap,
        }
        for task in app.tasks.values()
    ]
