"""Keys: `sxn_`, 160 random bits in base 32, and a checksum.

The checksum tells what was mistyped or invented from a key that somebody made, without asking the
database. It also lets leaked ones be searched for: sxn_[a-z2-7]{38}
"""

import base64
import hashlib
import re
import secrets
import zlib

PREFIX = "sxn_"
PATTERN = re.compile(r"sxn_[a-z2-7]{38}")
# Of each key, for people to tell it from others: 20 of its 160 bits.
SHOWN = len(PREFIX) + 4
_RANDOM_BYTES = 20
_CHECKSUM = 6


def fresh() -> str:
    """A new key; whoever gets it is the only one who has it."""
    body = _base32(secrets.token_bytes(_RANDOM_BYTES))
    return PREFIX + body + _checksum(body)


def is_whole(key: str) -> bool:
    """Whether it is one that somebody made, or as good as."""
    if PATTERN.fullmatch(key) is None:
        return False
    body, checksum = key[len(PREFIX) : -_CHECKSUM], key[-_CHECKSUM:]
    return _checksum(body) == checksum


def hashed(key: str) -> bytes:
    """As it is kept: 160 random bits need no slow hash."""
    return hashlib.sha256(key.encode()).digest()


def shown(key: str) -> str:
    """What may be shown of it for ever."""
    return key[:SHOWN]


def _checksum(body: str) -> str:
    """The 32 bits of a CRC in seven characters, less the last, which holds only two of them."""
    return _base32(zlib.crc32(body.encode()).to_bytes(4))[:_CHECKSUM]


def _base32(raw: bytes) -> str:
    return base64.b32encode(raw).decode().rstrip("=").lower()
