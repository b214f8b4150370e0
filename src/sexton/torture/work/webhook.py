"""Is a request from whom it says it is from? By the text of Standard Webhooks, not by our code."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

TOLERANCE = 300.0
_SECRET, _VERSION = "whsec_", "v1"


def genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether one of its signatures is that of this secret over id, timestamp and body.

    `now` is in seconds since 1970; what is older or newer than the tolerance is a replay.
    """
    id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id or not stamp.isascii() or not stamp.isdecimal():
        return False
    if abs(now - int(stamp)) > TOLERANCE:
        return False
    mac = hmac.new(_key(secret), digestmod=hashlib.sha256)
    for part in (id.encode(), b".", stamp.encode(), b".", body):
        mac.update(part)
    expected = mac.digest()
    given = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(expected, _signed(each)) for each in given)


def _key(secret: str) -> bytes:
    if not secret.startswith(_SECRET):
        raise ValueError("a signing secret begins with whsec_")
    return base64.b64decode(secret[len(_SECRET) :], validate=True)


def _signed(signature: str) -> bytes:
    """The bytes of a signature of this version; of any other, none."""
    version, _, text = signature.partition(",")
    if version != _VERSION:
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
