"""Tenants, their jobs, and a worker whose every step the test takes itself."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sexton.domain.job import Claim
from sexton.flow.claim import Claimer

from ..support.hands import Hands


async def tenants(worker: Hands, count: int) -> list[int]:
    """So many new ones, besides the first."""
    rows = await worker.rows(
        "insert into sexton.tenant (name) select 'tenant ' || n "
        "from generate_series(1, $1::int) as n returning id",
        count,
    )
    return [row["id"] for row in rows]


async def flood(
    worker: Hands, tenant: int, count: int, *, ago: float = 60.0, priority: int = 0
) -> None:
    """Jobs that became due long ago, one after the other."""
    await worker.rows(
        "insert into sexton.job (task, queue, tenant_id, priority, due_at) "
        "select 't', 'default', $1, $3, now() - $4 * interval '1 s' + n * interval '1 us' "
        "from generate_series(1, $2::int) as n",
        *(tenant, count, priority, ago),
    )


def claimer(worker: Hands, bound: Sequence[int] | None = None) -> Claimer:
    return Claimer(worker.store, "default", ["t"], [], tenants=bound)


def by_tenant(claims: Iterable[Claim]) -> Counter[int]:
    return Counter(claim.tenant for claim in claims)


async def done(worker: Hands, claims: Sequence[Claim]) -> None:
    await worker.store.jobs.settle_succeeded(
        [claim.id for claim in claims], [claim.fence for claim in claims]
    )
