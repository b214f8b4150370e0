"""Acting on leases that ran out: lost workers are declared so, their jobs go on elsewhere."""

import logging
import random
from collections.abc import Callable, Sequence

from sexton.domain.outcome import Lost
from sexton.domain.transitions import Settlement, settle
from sexton.flow.keep import took_too_long
from sexton.store import Store
from sexton.store.connection import ITS_FAULT, is_lost, is_transient, say
from sexton.store.endpoints import HOLDER
from sexton.store.jobs import Orphan

log = logging.getLogger("sexton.reap")

BATCH = 500


GONE_LATELY = 3600.0

Decided = tuple[Orphan, Settlement]


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
    at_once = BATCH  # fewer if it takes too long
    left: set[int] = set()  # for the next time: they cannot be settled now
    while orphans := [
        each
        for each in await store.jobs.orphans(at_once + len(left), gone_for)
        if each.id not in left
    ]:
        decided = [(orphan, _decide(orphan)) for orphan in orphans[:at_once]]
        try:
            reaped, refused = await _settle(store, decided)
        except Exception as error:
            if not took_too_long(error):
                raise
            # Fewer, or others; if the server is gone, the next statement says so.
            left.update(orphan.id for orphan, _ in decided if len(decided) == 1)
            at_once = max(1, len(decided) // 2)
            continue
        left |= refused
        lost += len(reaped)
        if count is not None:
            for orphan, settlement in decided:
                if orphan.id in reaped:
                    count(orphan, settlement)
        ready = sorted({(each.queue, each.tenant) for each, _ in decided if each.id in reaped})
        await store.jobs.notify_idle([queue for queue, _ in ready], [each for _, each in ready])
        if not reaped and not refused:
            break  # another reaper is at it
    if lost:
        log.warning("%d attempts were lost with their workers", lost)
    return lost


def _decide(orphan: Orphan) -> Settlement:
    return settle(
        Lost(_why(orphan.worker)),
        tries=orphan.tries,
        retry=orphan.retry,
        expires_in=orphan.expires_in,
        noise=random.random(),
    )


async def _settle(store: Store, decided: Sequence[Decided]) -> tuple[set[int], set[int]]:
    """Those that are settled, and those that cannot be: they hold up none of the others."""
    try:
        return await store.jobs.settle([(each.id, each.fence, how) for each, how in decided]), set()
    except Exception as error:
        its_own = is_transient(error) or isinstance(error, ITS_FAULT)
        if not its_own or is_lost(error) or took_too_long(error):
            raise
        if len(decided) == 1:
            [(orphan, _)] = decided
            log.warning("job %d was lost, and cannot be settled now: %s", orphan.id, say(error))
            return set(), {orphan.id}
    reaped: set[int] = set()
    refused: set[int] = set()
    for each in decided:
        one, none = await _settle(store, [each])
        reaped |= one
        refused |= none
    return reaped, refused


def _why(worker: str) -> str:
    if worker == HOLDER:
        return "its endpoint answered 202, and nobody settled it in time"
    return f"worker {worker} was lost while it ran this attempt"
