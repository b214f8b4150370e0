"""Idempotency-Key: whoever sends a request again is told what the first was told.

The key is taken at the beginning of the transaction that makes the change, and the answer is kept
in it: there is never one without the other, whenever a process dies. A twin that comes meanwhile
waits. What was refused is not kept, so it may be sent again, mended, with the same key.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from sexton.api.problems import Problem, unavailable
from sexton.targets.http.seal import Seal

if TYPE_CHECKING:
    from sexton.api.desk import Desk

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEPT_FOR = 86400.0
_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class Made:
    """An answer as it is sent; `kept` is what is kept of it, if that is less."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    kept: bytes | None = None
    replayed: bool = False


def checked(key: str | None) -> str | None:
    """What the header says, if it is there."""
    if key is not None and not _KEY.fullmatch(key):
        raise Problem(
            400,
            "malformed",
            f"{HEADER}: is at most 255 visible characters of ASCII",
            field=HEADER,
        )
    return key


def part(key: str, number: int) -> str:
    """The key of one of several transactions; no client can send it, as it holds a space."""
    return f"{key} {number}"


def fingerprint(*parts: bytes) -> bytes:
    """What a key stands for."""
    return hashlib.sha256(b"\n".join(parts)).digest()


async def begin(desk: "Desk", key: str, fingerprint: bytes) -> Made | None:
    """Take the key; what was answered, if it was taken before.

    A request may have held a secret, so what is kept of it could be guessed by only with the key
    that secrets are sealed with.
    """
    store = desk.store.requests
    sealed = Seal(desk.settings.secret_keys).digests(fingerprint)
    if await store.begin(desk.tenant_id, key, sealed[0]):
        return None
    found = await store.find(desk.tenant_id, key)
    if found is None or found.status is None:  # forgotten just now: old enough to begin anew
        raise unavailable("try again: the answer to this Idempotency-Key was forgotten just now")
    if found.fingerprint not in sealed:
        raise Problem(
            422,
            "idempotency_key_reused",
            f"{HEADER}: was used for another request, or with another body: take a new one",
            field=HEADER,
        )
    headers = msgspec.json.decode(found.headers or "{}", type=dict[str, str])
    return Made(found.status, headers | {REPLAYED: "true"}, found.body or b"", replayed=True)


def keep(desk: "Desk", key: str, made: Made) -> None:
    """Written at the end of the transaction, together with its lines of the log."""
    headers = msgspec.json.encode(made.headers).decode()
    desk.kept = key, (made.status, headers, made.body if made.kept is None else made.kept)
