"""From an operator's database URL to the same one behind a proxy."""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sexton.errors import ConfigurationError

_PORT = 5432
_EXAMPLE = "postgresql://user@host:5432/scratch"


def address_of(url: str) -> tuple[str, int]:
    """Where the server is; a host that begins with / is a folder of Unix sockets."""
    try:
        return _address_of(url)
    except ValueError as error:
        raise ConfigurationError(f"{error}: give a URL like {_EXAMPLE}") from error


def _address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    asked = dict(parse_qsl(parts.query))
    host = asked.get("host") or parts.hostname
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigurationError(f"that is no PostgreSQL: give a URL like {_EXAMPLE}")
    if host is None:
        raise ConfigurationError(
            f"torture wants to know the server: give a URL with a host, for example {_EXAMPLE}"
        )
    if "," in host or "," in asked.get("port", ""):
        raise ConfigurationError("torture wants one server: give the URL one host")
    if asked.get("sslmode", "disable") not in ("disable", "allow", "prefer"):
        raise ConfigurationError(
            "the proxies of torture read what passes through them, so there is no TLS: "
            "give a scratch server that does not demand it, without sslmode"
        )
    return host, int(asked.get("port") or parts.port or _PORT)


def plain(url: str) -> str:
    """The same without TLS, as the proxies know it."""
    parts = urlsplit(url)
    kept = [each for each in parse_qsl(parts.query) if each[0] != "sslmode"]
    query = urlencode([*kept, ("sslmode", "disable")], safe="/")
    return urlunsplit(parts._replace(query=query))


def through(url: str, port: int) -> str:
    """The same database and user, by way of a port of this host."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    kept = [each for each in parse_qsl(parts.query) if each[0] not in ("host", "port", "sslmode")]
    query = [*kept, ("sslmode", "disable")]
    return urlunsplit(
        parts._replace(netloc=f"{user}{at}127.0.0.1:{port}", query=urlencode(query, safe="/"))
    )
