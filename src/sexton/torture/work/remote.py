"""A remote worker: it has the API's URL and a key, and nothing else."""

import asyncio
from collections.abc import Sequence
from random import Random

from sexton.remote import RemoteJob, RemoteWorker
from sexton.torture.work.access import Access
from sexton.torture.work.effects import effect
from sexton.torture.work.journal import process_name, run_folder

# The shortest that the API allows.
LEASE, GRACE = 5.0, 3.0
SLOTS = 8


async def far(job: RemoteJob, id: str, tenant: str, seconds: float = 0.0, rev: int = 0) -> None:
    """As workers with a database do it."""
    with effect(job, id=id, tenant=tenant, rev=rev, seconds=seconds):
        await asyncio.sleep(seconds)


async def run(urls: Sequence[str], tenant: str) -> None:
    """Until SIGTERM; at one of the servers, which is the same for the same name."""
    url = Random(process_name()).choice(urls)
    key = Access.load(run_folder()).tenants[tenant].worker
    worker = RemoteWorker(
        url,
        key,
        queues=["remote"],
        concurrency=SLOTS,
        lease=LEASE,
        grace=GRACE,
        name=process_name(),
    )
    worker.task("far", timeout=10)(far)
    await worker.run(handle_signals=True)
