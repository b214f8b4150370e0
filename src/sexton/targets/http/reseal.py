"""Putting every secret under the key that seals now, so that an old one can be taken away."""

from dataclasses import dataclass, replace

from sexton.store import Store
from sexton.store.endpoints import EndpointRow, NewEndpoint
from sexton.targets.http.endpoint import headers_purpose, secret_purpose
from sexton.targets.http.seal import CannotOpen, Seal

AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Resealed:
    """How many endpoints were sealed anew, and which could not be opened."""

    done: int
    closed: tuple[tuple[int, str], ...]  # tenant and name


async def reseal(store: Store, seal: Seal) -> Resealed:
    """A secret that is changed meanwhile is sealed with the new key anyway."""
    done, closed, after = 0, [], 0
    while rows := await store.endpoints.after(after, AT_ONCE):
        after = rows[-1].id
        for row in rows:
            if all(map(seal.is_first, _sealed(row))):
                continue
            try:
                new = _resealed(row, seal)
            except CannotOpen:
                closed.append((row.tenant_id, row.name))
                continue
            changed = await store.endpoints.change(row.tenant_id, row.id, row.version, new)
            done += changed is not None
    return Resealed(done, tuple(closed))


def _sealed(row: EndpointRow) -> list[bytes]:
    return [*row.secrets, *([] if row.headers is None else [row.headers])]


def _resealed(row: EndpointRow, seal: Seal) -> NewEndpoint:
    def again(sealed: bytes, purpose: str) -> bytes:
        return seal.close(seal.open(sealed, row.tenant_id, purpose), row.tenant_id, purpose)

    kept = NewEndpoint(
        row.name, row.url, row.timeout, row.accepted_for, row.retry, row.headers, row.secrets
    )
    headers = None if row.headers is None else again(row.headers, headers_purpose(row.name))
    secrets = tuple(again(each, secret_purpose(row.name)) for each in row.secrets)
    return replace(kept, headers=headers, secrets=secrets)
