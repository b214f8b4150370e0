"""An endpoint that says it is gone for good: the schedule that delivers to it is paused."""

import asyncio
import logging

from sexton.errors import InvalidSchedule, UnknownSchedule
from sexton.flow.keep import Backoff
from sexton.flow.verbs import Verbs
from sexton.store import Store
from sexton.store.connection import is_transient

log = logging.getLogger("sexton.http")


class Gone:
    """Pauses before the attempt is settled: after a crash between the two, it is told again."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, tenant: int, schedule: str, task: str, why: str) -> None:
        """One that goes elsewhere by now is left alone: what is gone was its job's, not its own."""
        backoff = Backoff()
        while True:
            try:
                verbs = Verbs(self._store, tenant)
                if await verbs.pause(schedule, why, None, of_task=task):
                    log.warning("schedule %r is paused: %s", schedule, why)
                return
            except (InvalidSchedule, UnknownSchedule):
                return  # it is over already
            except Exception as error:
                if not is_transient(error):
                    log.exception("schedule %r could not be paused: %s", schedule, why)
                    return
            await asyncio.sleep(backoff.next())
