"""Jobs as they are, and dead ones, at the database."""

import functools
from datetime import datetime
from typing import Any

import msgspec

from sexton.cli.database.ground import Ground, refused
from sexton.cli.database.logged import Change
from sexton.cli.database.paging import as_all, cursor_of, read_cursor
from sexton.domain.job import JobView
from sexton.remote.views import Dead, DeadLine, Job, Page, Purge, Redrive, Redriven
from sexton.store.history import Redriven as Chosen
from sexton.store.pages import PLANNED, WantedDead

USUALLY = 1000
MOST_LOGGED = 100
NAMED = 10


class DeadJobs:
    """A tenant's: looked at, given another life, thrown away."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    async def _view(self, id: int) -> JobView:
        view = await (await self.ground.store()).history.job(id, await self.ground.owner())
        if view is None:
            raise refused(404, f"there is no job {id}, live, dead or in the history that is kept")
        return view

    async def job(self, id: int) -> Job:
        view = await self._view(id)
        fields = {name: getattr(view, name) for name in JobView.__dataclass_fields__}
        fields["target"] = (await self.ground.targets([view.task]))[view.task]
        return msgspec.convert(fields, Job, from_attributes=True)

    async def dead(
        self,
        *,
        task: str | None = None,
        queue: str | None = None,
        tag: str | None = None,
        key: str | None = None,
        reason: str | None = None,
        error: str | None = None,
        from_: datetime | None = None,
        to: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[DeadLine]:
        wanted = WantedDead(task, queue, tag, key, reason, error, from_, to)
        before = None if cursor is None else read_cursor(cursor, tuple[datetime, int])
        owner = await self.ground.owner()
        async with self.ground.listing(PLANNED) as store:
            page = await store.pages.dead(owner, wanted, before=before, limit=limit)
        return Page(as_all(page.lines, DeadLine), cursor_of(page.beyond))

    async def dead_job(self, id: int) -> Dead:
        reason = await (await self.ground.store()).pages.why_dead(await self.ground.owner(), id)
        if reason is None:
            raise refused(404, f"there is no dead job {id}")
        job = await self.job(id)
        fields = {name: getattr(job, name) for name in Job.__struct_fields__}
        fields |= {"reason": reason, "died_at": job.finished_at}
        return msgspec.convert(fields, Dead, from_attributes=True)

    async def redrive(self, *ids: int, dry_run: bool = False, **filters: Any) -> Redrive:
        choice = _choice(ids, filters)
        waker = (await self.ground.app.client()).waker

        async def redrive(change: Change) -> list[Chosen]:
            chosen = await change.store.history.redrive(
                **choice, dry_run=dry_run, tenant=change.owner
            )
            revived = [each for each in chosen if each.revived]
            if revived:
                done = [each.id for each in revived]
                change.log("dead.redrive", _subject(done), after=_logged(filters, done))
            for queue in {each.queue for each in revived}:
                change.after_commit(functools.partial(waker.wake, queue, change.owner))
            return chosen

        chosen = await self.ground.changed(redrive)
        jobs = [Redriven(each.id, each.queue, each.revived, each.held) for each in chosen]
        return Redrive(dry_run, len(jobs), sum(each.revived for each in jobs), jobs)

    async def purge(self, *ids: int, dry_run: bool = False, **filters: Any) -> Purge:
        choice = _choice(ids, filters)

        async def purge(change: Change) -> tuple[list[int], list[int]]:
            history = change.store.history
            chosen = await history.redrive(**choice, dry_run=True, tenant=change.owner)
            meant = [each.id for each in chosen]
            if dry_run or not meant:
                return meant, []
            purged = sorted(await history.purge(meant, tenant=change.owner))
            change.log("dead.purge", _subject(purged), before=_logged(filters, purged))
            return meant, purged

        meant, purged = await self.ground.changed(purge)
        return Purge(dry_run, len(meant), len(purged), meant if dry_run else purged)


def _choice(ids: tuple[int, ...], filters: dict[str, Any]) -> dict[str, Any]:
    limit = max(filters.get("limit", USUALLY), len(ids))
    return {**filters, "limit": limit, "ids": sorted({*ids}) or None}


def _subject(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:NAMED])) + (", …" if len(ids) > NAMED else "")


def _logged(filters: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    said = {name: value for name, value in filters.items() if value is not None}
    return {"jobs": len(ids), "ids": ids[:MOST_LOGGED], **said}
