"""Configuration: frozen, read once, checked at the door."""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from sexton.domain.address import Allowed
from sexton.domain.duration import seconds
from sexton.errors import ConfigurationError, did_you_mean

_PREFIX = "SEXTON_"
_KEY_BYTES = 32
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
# What Kubernetes puts into the environment for a service that is called sexton-…, what
# sexton.testing reads, and what the command line reads to speak to a service.
_NOT_OURS = re.compile(r"((\w+_)?(service_|port($|_))|test_|(server|key)$)")
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting; each is also an environment variable, SEXTON_ and its name in capitals."""

    # Where: a PostgreSQL of yours, or the embedded one in `data_folder` (default ./.sexton).
    database_url: str | None = None
    data_folder: Path | None = None
    schema: str = "sexton"
    # A transaction pooler stands in front of database_url; LISTEN needs a direct way around it.
    pooler: bool = False
    listen_url: str | None = None
    pool_size: int = 10

    # A worker that does not renew for `lease` seconds is lost and its jobs run again elsewhere.
    lease: float = 30.0
    # A node that does not renew for `node_lease` is lost, and others fire its schedules.
    node_lease: float = 3.0
    # The safety net behind notifications.
    poll: float = 5.0
    # How long running tasks may finish after SIGTERM.
    grace: float = 30.0
    # How long a statement may take before its connection is given up as half-open.
    patience: float = 10.0
    max_payload_bytes: int = 1_048_576
    max_result_bytes: int = 65_536

    # Where the service listens; anything but loopback needs a key first.
    api_host: str = "127.0.0.1"
    api_port: int = 8000
    # Addresses and networks of proxies that are believed when they say where a request came from.
    trusted_proxies: str | None = None
    max_body_bytes: int = 1_048_576

    # Where a process answers its probes and is scraped, host:port; None: nowhere.
    observe: str | None = None
    # What commands that go on write to stderr: lines for people, or an object on each.
    log_format: str = "text"

    # What secrets are encrypted with at rest: base64 of 32 bytes. Several, with commas: the first
    # encrypts, all decrypt.
    secret_key: str | None = field(default=None, repr=False)
    # Hosts and networks that jobs may be delivered to although they are not public.
    http_allow: str | None = None
    # Deliveries at once from one worker to one host.
    http_per_host: int = 32

    def __post_init__(self) -> None:
        if not _SCHEMA.fullmatch(self.schema) or self.schema.startswith("pg_"):
            raise ConfigurationError(
                f"schema {self.schema!r} is not usable: lower-case letters, digits and _, "
                "at most 40, not beginning with a digit or pg_"
            )
        for name, least, most in (
            ("lease", 1.0, 3600.0),
            ("node_lease", 1.0, 3600.0),
            ("poll", 0.05, 300.0),
            ("grace", 0.0, 86400.0),
            ("patience", 0.5, 300.0),
            ("pool_size", 1, 1000),
            ("max_payload_bytes", 1024, 200_000_000),
            ("max_result_bytes", 0, 200_000_000),
            ("max_body_bytes", 1024, 200_000_000),
            ("api_port", 0, 65535),
            ("http_per_host", 1, 10_000),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigurationError(
                    f"{name} is {value:g}; it must be from {least:g} to {most:g}"
                )
        Allowed.read(self.http_allow)
        self.secret_keys  # noqa: B018 - looking at it checks it
        if self.observe is not None:
            host_and_port("observe", self.observe)
        if self.log_format not in ("text", "json"):
            raise ConfigurationError(f"log_format is {self.log_format!r}; it is text or json")
        for name in ("database_url", "listen_url"):
            url = getattr(self, name)
            if url is not None and not url.startswith(("postgresql://", "postgres://")):
                raise ConfigurationError(
                    f"{name} must begin with postgresql://, for example "
                    "postgresql://user@host:5432/database"
                )
            if url is not None:
                try:
                    urlsplit(url).port  # noqa: B018 - looking at it checks it
                except ValueError as error:
                    raise ConfigurationError(f"{name}: {error}") from None

    @classmethod
    def load(cls, environ: Mapping[str, str] = os.environ, **given: Any) -> Self:
        """What was given, over the environment, over the defaults."""
        known = {field.name: field for field in fields(cls)}
        for name in given:
            if name not in known:
                raise ConfigurationError(f"no setting {name!r}{did_you_mean(name, known)}")
        values: dict[str, Any] = {}
        for variable, text in environ.items():
            if not variable.startswith(_PREFIX):
                continue
            name = variable.removeprefix(_PREFIX).lower()
            if name in known:
                # Set to nothing is not set, nor is what Kubernetes says of a service sexton-api.
                if text and not text.startswith("tcp://"):
                    values[name] = text
            elif not _NOT_OURS.match(name) and did_you_mean(name, known):
                hint = did_you_mean(variable, [_PREFIX + each.upper() for each in known])
                raise ConfigurationError(f"{variable} is not a setting{hint}")
        values.update({name: value for name, value in given.items() if value is not None})
        return cls(**{name: _read(name, known[name].type, text) for name, text in values.items()})

    @property
    def secret_keys(self) -> tuple[bytes, ...]:
        keys = []
        for word in (self.secret_key or "").split(","):
            if not word.strip():
                continue
            try:
                key = base64.b64decode(word.strip(), validate=True)
            except ValueError:
                key = b""
            if len(key) != _KEY_BYTES:
                # Never with the word itself: it may be the key with a typing error in it.
                raise ConfigurationError(
                    f"secret_key: a key is base64 of {_KEY_BYTES} random bytes; "
                    "`sexton secret-key` prints a new one"
                )
            keys.append(key)
        return tuple(keys)

    def but(self, **changes: Any) -> Self:
        """A copy with some settings changed."""
        return replace(self, **changes)


def host_and_port(name: str, text: str) -> tuple[str, int]:
    """`127.0.0.1:9464`, `[::1]:9464`, or `:9464` for every address of this host."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationError(f"{name} is {text!r}; write it like 127.0.0.1:9464")
    return host, int(port)


def _read(name: str, kind: Any, value: Any) -> Any:
    try:
        if kind is float:
            return seconds(value)
        if kind is int:
            return int(value)
        if kind is bool and isinstance(value, str):
            if value.lower() not in _TRUE | _FALSE:
                raise ValueError(f"{value!r} is neither yes nor no")
            return value.lower() in _TRUE
        if kind == Path | None:
            return Path(value).expanduser()
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"setting {name}: {error}") from None
    return value
