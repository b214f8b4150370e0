"""Outcomes on their way to the service: in batches, kept until it has answered."""

import asyncio
import logging
from collections import deque
from typing import Any

import msgspec

from sexton.errors import Unavailable
from sexton.remote.attempts import Said
from sexton.remote.errors import Busy, NotFound, Refused
from sexton.remote.wire import Wire
from sexton.store.pause import Backoff

log = logging.getLogger("sexton.remote")

MOST = 500
# Less than a body may have, whatever else is in it.
LARGEST = 512 * 1024


class _Verdict(msgspec.Struct):
    id: int
    status: str
    note: str | None = None


class _Verdicts(msgspec.Struct):
    results: list[_Verdict]


class Outbox:
    """Sends what became of jobs; nothing is dropped before the service has said so."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        # The worker, the fence, and the result as JSON.
        self._pending: deque[tuple[int, int, bytes]] = deque()
        self._something = asyncio.Event()
        self._nothing = asyncio.Event()
        self._nothing.set()

    @property
    def waiting(self) -> int:
        return len(self._pending)

    @property
    def fences(self) -> list[int]:
        """Of jobs that have ended, and are the worker's until the service knows."""
        return [fence for _, fence, _ in self._pending]

    def add(self, said: Said) -> None:
        result = msgspec.json.encode(said.result)
        self._pending.append((said.worker, said.result["fence"], result))
        self._something.set()
        self._nothing.clear()

    async def drained(self) -> None:
        """Return when everything was recorded or refused."""
        await self._nothing.wait()

    async def run(self) -> None:
        """Send for ever; cancelled when there is nothing more to come."""
        backoff = Backoff()
        while True:
            await self._something.wait()
            try:
                await self.run_once()
                backoff.clear()
            except Unavailable as error:
                asked = error.retry_after if isinstance(error, Busy) else None
                log.info("%d outcomes wait for the service: %s", self.waiting, error)
                await asyncio.sleep(max(backoff.next(), min(asked or 0.0, 30.0)))
            except Refused as error:  # no key any more: somebody may give it back
                log.error("the service refuses %d outcomes: %s", self.waiting, error)
                await asyncio.sleep(backoff.next())

    async def run_once(self) -> int:
        """One batch, of one worker; what fails for lack of a service stays for the next time."""
        batch = self._batch()
        if batch:
            worker = self._pending[0][0]
            await self._send(worker, batch)
            for _ in batch:
                self._pending.popleft()
        if not self._pending:
            self._something.clear()
            self._nothing.set()
        return len(batch)

    def _batch(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        for worker, _, result in self._pending:
            size += len(result)
            if worker != self._pending[0][0] or (batch and size > LARGEST) or len(batch) == MOST:
                break
            batch.append(result)
        return batch

    async def _send(self, worker: int, batch: list[bytes]) -> None:
        said = {"results": [msgspec.Raw(each) for each in batch]}
        path = f"/v1/workers/{worker}/settle"
        try:
            answer = await self._wire.ask("POST", path, said, kind=_Verdicts, once=True)
        except NotFound as error:
            log.warning("%d outcomes were dropped: %s", len(batch), error)
            return
        except Refused as error:
            if error.status not in (400, 413, 422):
                raise
            await self._send_less(worker, batch, error)
            return
        for verdict in answer.results:
            if verdict.status != "accepted":
                log.warning("job %d: its outcome was refused, the claim is stale", verdict.id)
            elif verdict.note is not None:
                log.warning("job %d: %s", verdict.id, verdict.note)

    async def _send_less(self, worker: int, batch: list[bytes], error: Refused) -> None:
        """One outcome that cannot be recorded must not hold up the others."""
        if len(batch) > 1:
            half = len(batch) // 2
            await self._send(worker, batch[:half])
            await self._send(worker, batch[half:])
            return
        result: dict[str, Any] = msgspec.json.decode(batch[0])
        note = f"its outcome could not be kept: {error}"
        log.warning("job %d: %s", result["id"], note)
        plain = {"id": result["id"], "fence": result["fence"]}
        if result["outcome"] == "succeeded":
            plain |= {"outcome": "succeeded"}
        else:
            plain |= {"outcome": "failed", "error": note[:2000], "permanent": True}
        try:
            said = {"results": [plain]}
            await self._wire.ask(
                "POST", f"/v1/workers/{worker}/settle", said, kind=_Verdicts, once=True
            )
        except Refused as again:
            if isinstance(again, Unavailable):
                raise
            log.error("job %d: not even that could be recorded: %s", result["id"], again)
