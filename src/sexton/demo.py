"""A small application to look at: `sexton dev` runs it when it is given no other.

Invoices go out, thumbnails are made, a bank is unreliable, some uploads are beyond help, the
search index is rebuilt one shard at a time, reminders come later, and a schedule counts the till.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from sexton import Job, PermanentFailure, Retry, Sexton, SextonError

app = Sexton()


@app.task(queue="billing")
async def send_invoice(invoice_id: int) -> dict[str, int]:
    """An ordinary task: awaits something, returns something."""
    await asyncio.sleep(random.uniform(0.05, 0.4))
    return {"sent": invoice_id}


@app.task(queue="billing", retry=Retry(max_attempts=6, base=2, cap=8), timeout=10)
async def charge_card(invoice_id: int, cents: int) -> None:
    """Fails now and then, and is tried again after a growing, jittered delay."""
    await asyncio.sleep(random.uniform(0.1, 0.3))
    if random.random() < 0.4:
        raise ConnectionError("the bank hung up")


@app.task(queue="billing")
async def send_reminder(invoice_id: int) -> None:
    """Enqueued with a delay: waits until its time has come."""
    await asyncio.sleep(0.05)


@app.task(queue="media")
def make_thumbnail(job: Job, image: str, width: int = 200) -> str:
    """A plain function: runs in a thread, says how far it is, and can be cancelled."""
    for percent in range(0, 100, 20):
        job.check()
        job.progress({"percent": percent})
        time.sleep(random.uniform(0.02, 0.1))
    return f"{image}-{width}.webp"


@app.task(queue="media", retry=Retry(max_attempts=2, base=1))
async def import_upload(name: str) -> int:
    """Some uploads are beyond help: those are dead at once, and kept to be looked at."""
    await asyncio.sleep(random.uniform(0.1, 0.5))
    if name.endswith(".exe"):
        raise PermanentFailure(f"{name} is not an image")
    return len(name)


@app.task(queue="search", max_running=1)
async def rebuild_index(shard: int) -> None:
    """One at a time in the whole cluster, however many workers there are."""
    await asyncio.sleep(random.uniform(0.8, 2.0))


@app.schedule(every="5s", overlap="skip")
@app.task(queue="billing")
async def count_the_till(job: Job) -> dict[str, int]:
    """Fired by a schedule; it sees the fire, and what came of the one before it."""
    before = job.fire.previous if job.fire else None
    counted = before.result["counted"] if before and before.result else 0
    return {"counted": counted + 1}


async def feed(pace: float = 0.3) -> None:
    """Enqueue for ever, about three jobs a second, with a burst now and then."""
    number = 0
    while True:
        number += 1
        try:
            await _choice()(number)
        except SextonError:
            await asyncio.sleep(1)  # PostgreSQL is away; the worker says so
        await asyncio.sleep(random.expovariate(1 / pace))


async def _invoice(number: int) -> None:
    await send_invoice.enqueue(invoice_id=number, key=f"invoice:{number}")
    await send_reminder.enqueue(invoice_id=number, delay=random.uniform(5, 20))


async def _charge(number: int) -> None:
    await charge_card.enqueue(invoice_id=number, cents=random.randrange(100, 99_900), priority=2)


async def _upload(number: int) -> None:
    kind = "exe" if random.random() < 0.3 else "jpg"
    await import_upload.enqueue(name=f"holiday-{number}.{kind}", tags=["upload"])


async def _album(number: int) -> None:
    images = [f"album-{number}/{page}" for page in range(random.randrange(1, 9))]
    await app.enqueue_many(make_thumbnail.call(image=image) for image in images)


async def _index(number: int) -> None:
    shard = number % 4
    await rebuild_index.enqueue(shard=shard, key=f"shard:{shard}")


def _choice() -> Callable[[int], Awaitable[None]]:
    kinds = (_invoice, _charge, _upload, _album, _index)
    return random.choices(kinds, weights=(4, 4, 3, 2, 3))[0]
