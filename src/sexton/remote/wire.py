"""The way to the service: JSON over HTTP, with a key, and errors as exceptions."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from sexton import __version__
from sexton.errors import ConfigurationError, Unavailable
from sexton.remote.errors import Busy, error_of
from sexton.store.pause import Backoff

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
TIMEOUT = 30.0
TRIES = 4
NDJSON = "application/x-ndjson"
IDLE = 300.0


def segment(name: str | int) -> str:
    """A name as one segment of a path, whatever it consists of."""
    return quote(str(name), safe="")


class Wire:
    """Connections to one service; each event loop has its own."""

    def __init__(self, url: str, key: str | None = None, *, tries: int = TRIES) -> None:
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"{url!r:.100} is not the URL of a service: http://host:8000")
        self.url = url.rstrip("/")
        self._headers = {"User-Agent": f"sexton/{__version__}"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._tries = tries
        self._kept: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    def __repr__(self) -> str:
        return f"<Wire {self.url}>"  # without the key

    async def ask(
        self,
        method: str,
        path: str,
        said: Any = msgspec.UNSET,
        *,
        kind: type[T],
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
        once: bool = False,
    ) -> T:
        """Ask, and again if the service is away: a change then carries an Idempotency-Key, so that
        it is made once. `once`: whoever asks knows better when to ask again.
        """
        given = dict(headers or {})
        if not once and method != "GET":
            given.setdefault("Idempotency-Key", secrets.token_hex(16))
        body = None if said is msgspec.UNSET else msgspec.json.encode(said)
        backoff = Backoff()
        tries = 1 if once else self._tries
        for left in range(tries - 1, -1, -1):
            try:
                answer = await self._ask(method, path, body, _query(query), given, timeout)
                break
            except Unavailable as error:
                if left == 0:
                    raise
                asked = error.retry_after if isinstance(error, Busy) else None
                await asyncio.sleep(backoff.next() if asked is None else min(asked, 10.0))
        if kind is type(None) or not answer:
            return None  # type: ignore[return-value]
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise self._unlike(error) from None

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, str],
        headers: dict[str, str],
        timeout: float,
    ) -> bytes:
        import aiohttp  # a tenth of a second, for those alone who speak to a service

        if body is not None:
            headers = {"Content-Type": "application/json", **headers}
        try:
            async with (
                self._session() as session,
                session.request(
                    method,
                    self.url + path,
                    data=body,
                    params=query,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=timeout),
                    allow_redirects=False,
                ) as answer,
            ):
                content = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error
        if answer.status >= 300:
            raise error_of(answer.status, content, answer.headers.get("Retry-After"))
        return content

    async def lines(
        self,
        path: str,
        said: AsyncIterator[bytes],
        *,
        kind: type[T],
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[T]:
        """Send lines, and draw the answers as they come; the service does both at once."""
        import aiohttp

        decode = msgspec.json.Decoder(kind).decode
        patience = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT, sock_read=IDLE)
        try:
            async with (
                self._session() as session,
                session.post(
                    self.url + path,
                    data=said,
                    params=_query(query),
                    headers={"Content-Type": NDJSON, **(headers or {})},
                    timeout=patience,
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status >= 300:
                    content = await answer.read()
                    raise error_of(answer.status, content, answer.headers.get("Retry-After"))
                rest = b""
                async for part in answer.content.iter_any():
                    *whole, rest = (rest + part).split(b"\n")
                    for line in whole:
                        yield decode(line)
        except msgspec.MsgspecError as error:
            raise self._unlike(error) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unavailable:
        """What the system said, where the library wraps it in how it would have connected."""
        system = getattr(error, "os_error", error)
        said = str(system) or type(error).__name__
        if isinstance(system, OSError) and system.errno is not None:
            # The loop's own words have the address once more; a name that is not found has none.
            said = os.strerror(system.errno) if system.errno > 0 else system.strerror or said
        return Unavailable(f"{self.url} cannot be reached: {said}")

    def _unlike(self, error: msgspec.MsgspecError) -> Unavailable:
        return Unavailable(f"{self.url} does not answer like a service: {error}")

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator["aiohttp.ClientSession"]:
        """The one that is kept open in this loop; else one for this call alone, for who comes in a
        new loop each time leaves nothing open behind.
        """
        kept = self._kept.get(asyncio.get_running_loop())
        if kept is not None:
            yield kept
        else:
            async with self._made() as session:
                yield session

    def _made(self) -> "aiohttp.ClientSession":
        import aiohttp

        connector = aiohttp.TCPConnector(limit=100)
        return aiohttp.ClientSession(headers=self._headers, trust_env=False, connector=connector)

    async def open(self) -> None:
        """Keep connections open in this loop, until `close`."""
        loop = asyncio.get_running_loop()
        if loop not in self._kept:
            self._kept[loop] = self._made()

    async def close(self) -> None:
        """This loop's connections."""
        kept = self._kept.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await kept.close()


def _query(given: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: _said(value) for name, value in (given or {}).items() if value is not None}


def _said(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat()
    return str(value)
