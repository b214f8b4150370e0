"""Claims that somebody else goes on with: an endpoint that accepted a job, and settles it later."""

from collections.abc import Iterator
from typing import NamedTuple

from sexton.torture.check.folder import Change, Line
from sexton.torture.check.things import Job

# In whose name such a job runs: a worker of its tenant that has no queues, so it claims nothing.
HOLDER = "202 accepted"
# What an endpoint writes down before it says so.
ACCEPTS = ("effect", "202")


class _HandOver(NamedTuple):
    """The same claim in the name of another worker."""

    job: Job
    fence: int
    before: int | None
    after: int
    claimed_by: int | None  # None: nobody saw that claim
    at: int


class HandOvers:
    """Looks at each in the end: a holder may be told of after what it holds."""

    def __init__(self) -> None:
        self._holders: dict[int, int | None] = {}  # whose each is
        self._accepted: dict[int, int] = {}  # fences, and when an endpoint had them first
        self._seen: list[_HandOver] = []

    @property
    def many(self) -> int:
        return len(self._seen)

    def join(self, worker: Change) -> None:
        """A worker has come."""
        now = worker.now
        if now.get("name") == HOLDER and now.get("queues") == []:
            self._holders[worker.id] = now.get("tenant")

    def see(self, job: Job, change: Change) -> None:
        """A job has another worker than before, under the same fence."""
        was, now = change.was, change.now
        claims = [each.worker for each in job.claims if each.fence == was["fence"]]
        claimed_by = claims[-1] if claims else None
        self._seen.append(_HandOver(job, was["fence"], was["by"], now["by"], claimed_by, change.at))

    def hear(self, line: Line) -> None:
        """A line of the effect log."""
        if (line["event"], line.get("why")) == ACCEPTS:
            fence, at = line["fence"], line["at"]
            self._accepted[fence] = min(at, self._accepted.get(fence, at))

    def wrong(self, apart: int) -> Iterator[tuple[str, int, int]]:
        """What is wrong, when, and with which job."""
        for each in self._seen:
            if (why := self._wrong(each, apart)) is not None:
                yield f"job {each.job.id} {why}", each.at, each.job.id

    def _wrong(self, each: _HandOver, apart: int) -> str | None:
        if each.before is None:
            return f"was given to worker {each.after} without a claim"
        what = f"went from worker {each.before} to worker {each.after} under fence {each.fence}"
        if each.after not in self._holders:
            return f"{what}, and no endpoint is behind that one"
        if self._holders[each.after] != each.job.tenant:
            return f"{what}, which is another tenant's"
        # Whose answer was lost hands it over once more.
        if each.before not in self._holders and each.claimed_by not in (None, each.before):
            return f"{what}, which worker {each.claimed_by} had drawn"
        accepted = self._accepted.get(each.fence)
        # Who has no log of its endpoints knows nothing of what they accepted.
        if self._accepted and (accepted is None or accepted > each.at + apart):
            return f"{what}, which no endpoint had accepted"
        return None
