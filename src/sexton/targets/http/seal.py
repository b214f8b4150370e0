"""Secrets at rest: sealed with a key that the database does not have.

What is sealed is bound to its tenant and to what it is for: a row that was copied to another
tenant, or from one column to another, cannot be opened there.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sexton.errors import ConfigurationError, SextonError

_FORM = b"\x01"
_KEY_BYTES = 32
_NAME_BYTES = 4
_NONCE_BYTES = 12
NO_KEY = (
    "secrets are kept encrypted, and there is no key to do so: set SEXTON_SECRET_KEY for the API "
    "and the workers, to what `sexton secret-key` prints"
)


class CannotOpen(SextonError):
    """A secret that was sealed with a key that is not here, or for something else."""


def fresh_key() -> str:
    """A new key, as SEXTON_SECRET_KEY wants it."""
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


class Seal:
    """The first key seals, all of them open: so that keys can be changed while everything runs."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [(hashlib.sha256(b"sexton" + key).digest()[:_NAME_BYTES], key) for key in keys]

    @property
    def usable(self) -> bool:
        return bool(self._keys)

    def close(self, secret: bytes, tenant: int, purpose: str) -> bytes:
        if not self._keys:
            raise ConfigurationError(NO_KEY)
        name, key = self._keys[0]
        nonce = os.urandom(_NONCE_BYTES)
        return _FORM + name + nonce + AESGCM(key).encrypt(nonce, secret, _bound(tenant, purpose))

    def open(self, sealed: bytes, tenant: int, purpose: str) -> bytes:
        if not self._keys:
            raise CannotOpen("its secrets are encrypted, and SEXTON_SECRET_KEY is not set here")
        begin = len(_FORM) + _NAME_BYTES
        name, nonce = sealed[len(_FORM) : begin], sealed[begin : begin + _NONCE_BYTES]
        for known, key in self._keys:
            if known == name and sealed[:1] == _FORM:
                try:
                    return AESGCM(key).decrypt(
                        nonce, sealed[begin + _NONCE_BYTES :], _bound(tenant, purpose)
                    )
                except (InvalidTag, ValueError):
                    raise CannotOpen("a secret was damaged, or does not belong there") from None
        raise CannotOpen("its secrets need a key that SEXTON_SECRET_KEY does not have")

    def is_first(self, sealed: bytes) -> bool:
        """Whether it was sealed with the key that seals now."""
        begin = len(_FORM)
        return bool(self._keys) and sealed[begin : begin + _NAME_BYTES] == self._keys[0][0]

    def digests(self, text: bytes) -> list[bytes]:
        """With each key, a name for something secret; only who has the key could guess by it."""
        if not self._keys:
            return [hashlib.sha256(text).digest()]
        return [hmac.digest(key, b"sexton name" + text, "sha256") for _, key in self._keys]

    def __repr__(self) -> str:
        return f"<Seal with {len(self._keys)} keys>"


def _bound(tenant: int, purpose: str) -> bytes:
    return f"sexton:{tenant}:{purpose}".encode()
