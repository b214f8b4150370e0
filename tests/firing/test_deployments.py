"""Nodes whose code declares different schedules, side by side while a deployment goes on."""

import asyncio
import signal
from datetime import timedelta

from sexton import Sexton

from .fleet import Fleet, fleet

NAMES = """
select array_agg(name order by name) from sexton.schedule
where declared_by = 'shop' and state = 'active'
"""
FIRED = """
select count(*) >= $2 from sexton.fire
join sexton.schedule on schedule.id = fire.schedule_id
where schedule.name = $1 and fire.decision = 'fired'
    and fire.fire_at >= (select greatest(since, $3) from sexton.schedule where name = $1)
"""


async def goes_on(nodes: Fleet, *names: str) -> None:
    """Until each of these was fired three times more."""
    now = await nodes.value("select clock_timestamp()")
    for name in names:
        await nodes.so(FIRED, name, 3, now)


async def test_nodes_that_declare_different_schedules_fire_all_that_is_deployed_once(
    database_url: str,
) -> None:
    """Old nodes fire what only new code declares, and new ones what they have never heard of."""
    app = Sexton(database_url)
    async with fleet(database_url) as nodes, app:
        began = await nodes.value("select clock_timestamp()")
        old = [nodes.start(declares="both old", sync=1, version="1.0")]
        await nodes.so(f"select ({NAMES}) = array['both', 'old']")
        old += [nodes.start(declares="both old", version="1.0") for _ in range(2)]
        await nodes.shared_by(*old)
        await goes_on(nodes, "both", "old")

        new = nodes.start(declares="both new", sync=1, version="1.1")
        await nodes.so(f"select ({NAMES}) = array['both', 'new']")
        await nodes.shared_by(*old, new)
        stranger = nodes.start(declares="something else", version="2.0")
        await nodes.shared_by(*old, new, stranger)
        await goes_on(nodes, "both", "new")
        retired = await nodes.value("select since from sexton.schedule where name = 'old'")

        for leaving in old:
            leaving.signal(signal.SIGTERM)
            assert await asyncio.to_thread(leaving.process.wait, 60) == 0
        await nodes.shared_by(new, stranger)
        await goes_on(nodes, "both", "new")

        assert await nodes.value(NAMES) == ["both", "new"], "only a sync declares anything"
        assert not await nodes.value(
            "select count(*) from sexton.fire join sexton.schedule on schedule.id = schedule_id "
            "where name = 'old' and fire_at > $1 and decision = 'fired'",
            retired,
        )
        ended = await nodes.value("select clock_timestamp()") - timedelta(seconds=1)
        found = await app.audit(began, ended)
        assert found.fired >= 15
        assert (found.missing, found.doubled, found.early, found.unexpected) == (0, 0, 0, 0), found
