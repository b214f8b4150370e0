"""The application of the processes that are observed."""

import asyncio
import logging
import time

from sexton import Job, PermanentFailure, Retry, Sexton

app = Sexton()
log = logging.getLogger("shop")
HOSTILE = 'a "quote"\nand a line\r\n\x1b[2J\x00 \u2028 \ud800 日本'


@app.task
async def fine(n: int) -> None:
    if n < 0:
        log.warning("n is %d", n)


@app.task
async def waits(seconds: float) -> None:
    await asyncio.sleep(seconds)
    log.warning("has waited")


@app.task
def in_a_thread() -> None:
    log.warning("in a thread")


@app.task(retry=Retry(max_attempts=2, base=0.01))
async def fails() -> None:
    raise ValueError(HOSTILE)


@app.task(queue="other")
async def dies() -> None:
    log.error("hostile: %s", HOSTILE)
    raise PermanentFailure("no use")


@app.task
async def blocks(job: Job, seconds: float) -> None:
    time.sleep(seconds)
