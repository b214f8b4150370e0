"""A service as the site of a command: where it is, with which key, and what is wrong with it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from sexton.errors import ConfigurationError, Unavailable
from sexton.remote import Busy, Denied, NotFound, Refused, Server

KEY = "SEXTON_KEY"
# Somebody waits: to ask once more is enough.
TRIES = 2


def read_key(file: Path | None) -> str | None:
    """From a file or the environment, never from the line, which everybody on the host can see."""
    if file is None:
        return os.environ.get(KEY, "").strip() or None
    try:
        text = file.expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--key-file: cannot read {file}: {error}") from None
    if not text or any(char.isspace() for char in text):
        raise ConfigurationError(f"--key-file: {file} is not a key and nothing else")
    return text


def checked_url(url: str) -> str:
    """Without a user, who would be a key on the line, and without anything after its path."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"--server: {url!r:.200} is not like https://sexton.example.com")
    if parts.username or parts.password:
        raise ConfigurationError(f"--server: give no user in the URL, but the key, in {KEY}")
    if parts.query or parts.fragment:
        raise ConfigurationError(f"--server: give the URL without what follows in {url!r:.200}")
    return url


@asynccontextmanager
async def at(url: str, key: str | None) -> AsyncIterator[Server]:
    """A service, for as long as a command takes; what goes wrong says what to do about it."""
    try:
        async with Server(checked_url(url), key, tries=TRIES) as server:
            yield server
    except Busy:
        raise
    except Denied as error:
        raise _told(error, _denied(error, key)) from None
    except NotFound as error:
        if not error.problem.type:
            raise ConfigurationError(f"--server: there is no Sexton at {url}") from None
        if (path := urlsplit(url).path.strip("/")) and f" /{path}/" in str(error):
            raise ConfigurationError(f"--server: {error}; is the path of {url} right?") from None
        raise
    except Unavailable as error:
        raise Unavailable(f"{error}; does `sexton api` run there?") from None


def _denied(error: Denied, key: str | None) -> str:
    if error.status == 401 and key is None:
        return f"the service wants a key: set {KEY}, or give --key-file"
    if error.status == 401:
        return f"{error}: look at {KEY} or --key-file"
    return str(error)


def _told(error: Refused, text: str) -> Refused:
    error.args = (text,)
    return error
