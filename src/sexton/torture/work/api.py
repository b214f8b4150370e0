"""A plain client of the REST API: several servers, and a key for what is sent several times."""

import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import msgspec

TIMEOUT = 6.0
NDJSON = "application/x-ndjson"
_LONGEST = 200


class Answered(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status


class Silent(Exception):
    """No answer, or half of one."""


class _Problem(msgspec.Struct):
    detail: str


def segment(name: str | int) -> str:
    return quote(str(name), safe="")


class Api:
    """Asks one server after the other: the next one whenever one does not answer."""

    def __init__(self, urls: Sequence[str], *, timeout: float = TIMEOUT) -> None:
        if not urls:
            raise ValueError("the API is somewhere: give --url")
        self._urls = itertools.cycle([each.rstrip("/") for each in urls])
        self._url = next(self._urls)
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(trust_env=False, timeout=self._timeout)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        said: Any = None,
        *,
        key: str,
        idempotency_key: str | None = None,
        query: dict[str, str] | None = None,
    ) -> Any:
        """What it answers, decoded; Answered if it says no, Silent if it says nothing."""
        body = None if said is None else msgspec.json.encode(said)
        raw = await self._send(method, path, body, "application/json", key, idempotency_key, query)
        return msgspec.json.decode(raw) if raw else None

    async def ask_lines(
        self, path: str, said: Sequence[Any], *, key: str, idempotency_key: str
    ) -> list[Any]:
        """The same for many at once, a line each."""
        body = b"".join(msgspec.json.encode(each) + b"\n" for each in said)
        raw = await self._send("POST", path, body, NDJSON, key, idempotency_key, None)
        lines = [msgspec.json.decode(line) for line in raw.splitlines()]
        if len(lines) != len(said):
            raise Silent(f"{len(lines)} lines for {len(said)}")
        return lines

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: str,
        key: str,
        idempotency_key: str | None,
        query: dict[str, str] | None,
    ) -> bytes:
        assert self._session is not None, "use it as a context manager"
        headers = {"Authorization": f"Bearer {key}"}
        if body is not None:
            headers["Content-Type"] = kind
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        try:
            async with self._session.request(
                method, self._url + path, data=body, headers=headers, params=query
            ) as answer:
                raw = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._url = next(self._urls)
            raise Silent(f"{type(error).__name__}: {error}") from error
        if answer.status >= 500:
            self._url = next(self._urls)
        if answer.status >= 300:
            raise Answered(answer.status, _detail(raw))
        return raw


def _detail(raw: bytes) -> str:
    """What a problem document says, or the beginning of whatever it is."""
    try:
        return msgspec.json.decode(raw, type=_Problem).detail
    except msgspec.MsgspecError:
        return raw[:_LONGEST].decode("utf-8", "replace")
