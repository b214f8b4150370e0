"""Signatures by the Standard Webhooks scheme, so that receivers can use the libraries there are."""

import base64
import binascii
import hmac
import os
from collections.abc import Iterable

from sexton.errors import InvalidTarget

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES, FRESH_BYTES = 24, 64, 32


def fresh_secret() -> str:
    return PREFIX + base64.b64encode(os.urandom(FRESH_BYTES)).decode()


def secret_bytes(secret: str) -> bytes:
    """The bytes to sign with; an error never shows what was given."""
    wrong = InvalidTarget(
        f"secrets: a signing secret is {PREFIX} and the base64 of {LEAST_BYTES} to {MOST_BYTES} "
        "random bytes; with generate one is made for you"
    )
    if not isinstance(secret, str) or not secret.startswith(PREFIX) or not secret.isascii():
        raise wrong
    try:
        raw = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise wrong from None
    if not LEAST_BYTES <= len(raw) <= MOST_BYTES:
        raise wrong
    return raw


def signature(keys: Iterable[bytes], id: str, timestamp: str, body: bytes) -> str:
    """One for each secret: whoever verifies needs to know only one of them."""
    signed = f"{id}.{timestamp}.".encode() + body
    return " ".join(
        "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys
    )
