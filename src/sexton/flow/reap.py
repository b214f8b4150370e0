"""Acting on leases that ran out: lost workers are declared so, their jobs go on elsewhere."""

import logging
import random
from collections.abc import Callable

from sexton.domain.outcome import Lost
from sexton.domain.transitions import Settlement, settle
from sexton.store import Store
from sexton.store.endpoints import HOLDER
from sexton.store.jobs import Orphan

log = logging.getLogger("sexton.reap")

BATCH = 500


GONE_LATELY = 3600.0


async def run_once(
    store: Store,
    gone_for: float | None = GONE_LATELY,
    count: Callable[[Orphan, Settlement], None] | None = None,
) -> int:
    """Reap everything that is to be reaped now; returns how many attempts were lost. `count` is
    told of each.

    Two steps that need not be one transaction: once a worker is declared lost it stays so, and
    each of its jobs is settled under its own fence, by whichever reaper comes first.
    """
    for id, name in await store.workers.lose_expired():
        if name != HOLDER:
            log.warning("worker %d (%s) did not renew its lease: it is lost", id, name)
    lost = 0
    while orphans := await store.jobs.orphans(BATCH, gone_for):
        settled = [
            (
                orphan.id,
                orphan.fence,
                settle(
                    Lost(_why(orphan.worker)),
                    tries=orphan.tries,
                    retry=orphan.retry,
                    expires_in=orphan.expires_in,
                    noise=random.random(),
                ),
            )
            for orphan in orphans
        ]
        reaped = await store.jobs.settle(settled)
        lost += len(reaped)
        if count is not None:
            for orphan, (_, _, settlement) in zip(orphans, settled, strict=True):
                if orphan.id in reaped:
                    count(orphan, settlement)
        ready = sorted({(each.queue, each.tenant) for each in orphans if each.id in reaped})
        await store.jobs.notify_idle([queue for queue, _ in ready], [each for _, each in ready])
        if not reaped:
            break  # another reaper is at it
    if lost:
        log.warning("%d attempts were lost with their workers", lost)
    return lost


def _why(worker: str) -> str:
    if worker == HOLDER:
        return "its endpoint answered 202, and nobody settled it in time"
    return f"worker {worker} was lost while it ran this attempt"
