"""A job as an HTTP request: signed, pinned to a checked address, and judged by its answer."""

import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from urllib.parse import quote

import aiohttp

from sexton import __version__
from sexton.domain.address import Allowed
from sexton.domain.job import Claim, instant
from sexton.domain.outcome import Failed, Outcome, Snoozed
from sexton.domain.retry import Retry
from sexton.domain.text import clean
from sexton.store import Store
from sexton.targets.http import PREFIX
from sexton.targets.http.answer import TOO_MANY, Answer, outcome, retry_after
from sexton.targets.http.endpoint import WEBHOOKS, Endpoint, Endpoints, Unusable
from sexton.targets.http.hosts import Busy, Host, Hosts
from sexton.targets.http.resolve import FOR_TENANT, CheckedResolver, Forbidden, Lookup
from sexton.targets.http.seal import Seal
from sexton.targets.http.sign import signature
from sexton.targets.job import Job

log = logging.getLogger("sexton.http")

# Until somebody has given this worker the right key.
UNUSABLE_DELAY = 30.0
# Servers commonly close a connection that was not used for five seconds: we are to be the first.
KEEP_ALIVE = 4.0
MOST_HEADERS = 100
# Of an answer: what is read, so that its connection can be used again, and what is kept to tell of.
MOST_READ, LEAST_KEPT = 262_144, 4096
# A connection that was closed while it was not used breaks at once.
AT_ONCE = 1.0

Gone = Callable[[int, str, str, str], Awaitable[None]]  # tenant, schedule, task, why


@dataclass(frozen=True, slots=True)
class Limits:
    """What an operator sets about deliveries."""

    allowed: Allowed
    seal: Seal
    slots: int  # that deliveries have in this worker
    per_host: int  # at once
    max_result_bytes: int


class Delivery:
    """In a worker, the task of all jobs that go to endpoints."""

    name = "http"
    runs: Literal["http"] = "http"
    limited = False
    retry = WEBHOOKS
    timeout: float | None = None  # each endpoint has its own

    def __init__(
        self,
        store: Store,
        limits: Limits,
        on_gone: Gone,
        lookup: Lookup | None = None,
        several: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = limits
        self._on_gone = on_gone
        self._lookup = lookup
        self.endpoints = Endpoints(store, limits.seal, limits.allowed)
        # At most half of the slots for one host: another that answers must find one.
        at_once = max(1, min(limits.per_host, limits.slots // 2))
        self.hosts = Hosts(at_once, max(1, limits.slots // 4))
        # If there are several tenants: at most three of four slots for one, whatever its hosts do.
        self._several = several
        self._shares = Hosts(max(1, limits.slots - limits.slots // 4), 1)
        self._session: aiohttp.ClientSession | None = None

    async def deliver(self, job: Job, claim: Claim) -> tuple[Outcome, Retry]:
        """One attempt; what its answer means, and the policy that applies if it failed."""
        # The database's clock as of now; the host's own may be wrong by hours.
        ahead = claim.claimed - time.monotonic()
        id = _endpoint_id(claim)
        if id is None:
            return Failed(f"{claim.task!r:.100} is not an endpoint", permanent=True), WEBHOOKS
        endpoint = await self.endpoints.get(id)
        if isinstance(endpoint, Unusable):
            if endpoint.for_ever:
                return Failed(endpoint.why, permanent=True), endpoint.retry
            return Snoozed(UNUSABLE_DELAY, endpoint.why), endpoint.retry
        if endpoint.tenant != claim.tenant:
            # Nothing makes such a job; something that did would be a way to another's secrets.
            return Failed("its endpoint is another tenant's", permanent=True), WEBHOOKS
        try:
            if self._several():
                outcome = await self._in_its_share(job, claim, endpoint, ahead)
            else:
                outcome = await self._when_there_is_room(job, claim, endpoint, ahead)
        except Busy as busy:
            outcome = Snoozed(busy.delay, str(busy))
        return outcome, endpoint.retry

    async def policy(self, claim: Claim) -> Retry:
        """The endpoint's, for an attempt that was ended before there was an answer."""
        id = _endpoint_id(claim)
        return WEBHOOKS if id is None else await self.endpoints.policy(id)

    async def _in_its_share(
        self, job: Job, claim: Claim, endpoint: Endpoint, ahead: float
    ) -> Outcome:
        share = self._shares.of(endpoint.tenant, "its tenant")
        await share.enter()
        began = time.monotonic()
        try:
            outcome = await self._when_there_is_room(job, claim, endpoint, ahead)
        except BaseException:
            share.abandoned()
            raise
        share.answered(time.monotonic() - began)
        return outcome

    async def _when_there_is_room(
        self, job: Job, claim: Claim, endpoint: Endpoint, ahead: float
    ) -> Outcome:
        host = self.hosts.of(endpoint.tenant, endpoint.to.place)
        await host.enter()
        return await self._attempt(job, claim, endpoint, host, ahead)

    async def _attempt(
        self, job: Job, claim: Claim, endpoint: Endpoint, host: Host, ahead: float
    ) -> Outcome:
        began = time.monotonic()
        FOR_TENANT.set(endpoint.tenant)
        try:
            answer = await self._post(job, claim, endpoint, ahead)
        except Forbidden as error:
            host.abandoned()
            return Failed(str(error), permanent=True)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            host.failed()
            return Failed(_said(error, endpoint))
        except BaseException:
            host.abandoned()
            raise
        ended = time.monotonic()
        now, took = ahead + ended, ended - began
        if answer.status == TOO_MANY:
            host.answered(took, quiet_for=retry_after(answer.headers, now) or 0.0)
        elif answer.alive:
            host.answered(took)
        else:
            host.failed()
        if answer.gone and job.fire is not None:
            why = f"endpoint {endpoint.name!r} answered 410: it is gone"
            await self._on_gone(endpoint.tenant, job.fire.schedule, claim.task, why)
        return outcome(
            answer,
            accepted_for=endpoint.accepted_for,
            limit=self._limits.max_result_bytes,
            now=now,
            backoff=endpoint.retry.delay(claim.tries, random.random()),
            hiding=endpoint.hiding,
        )

    async def _post(self, job: Job, claim: Claim, endpoint: Endpoint, ahead: float) -> Answer:
        body = claim.payload.encode()
        began = time.monotonic()
        try:
            return await self._send(body, _headers(job, claim, endpoint, ahead, body), endpoint)
        except (aiohttp.ServerDisconnectedError, ConnectionResetError):
            if time.monotonic() - began > AT_ONCE:
                raise
            # Most likely a connection that it had closed while we were about to use it. The key
            # says that it is the same job, if it did get through after all.
            return await self._send(body, _headers(job, claim, endpoint, ahead, body), endpoint)

    async def _send(self, body: bytes, headers: dict[str, str], endpoint: Endpoint) -> Answer:
        response = await self._open().post(
            endpoint.to.url,
            data=body,
            headers=headers,
            timeout=endpoint.timeout,
            allow_redirects=False,
        )
        try:
            kept, size = await _read(response, max(LEAST_KEPT, self._limits.max_result_bytes))
        except BaseException:
            response.close()
            raise
        if size > MOST_READ:
            response.close()  # whatever else there is, nobody wants it
        else:
            response.release()
        cut = size > len(kept)
        return Answer(response.status, response.reason or "", response.headers, kept, cut)

    def _open(self) -> aiohttp.ClientSession:
        """One session for all: connections are kept alive, cookies are not kept at all."""
        if self._session is None:
            resolver = CheckedResolver(self._limits.allowed, self._lookup)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=resolver, use_dns_cache=False, limit=0, keepalive_timeout=KEEP_ALIVE
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                raise_for_status=False,
                max_headers=MOST_HEADERS,
            )
        return self._session

    async def close(self) -> None:
        self.endpoints.close()
        if self._session is not None:
            await self._session.close()


def _endpoint_id(claim: Claim) -> int | None:
    number = claim.task.removeprefix(PREFIX)
    return int(number) if number.isdecimal() and len(number) <= 9 else None


async def _read(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, int]:
    """At most so many bytes, as they were sent; and how many there were, as far as was read."""
    content = response.content
    parts: list[bytes] = []
    size = 0
    while size <= MOST_READ and not content.at_eof():
        part = await content.readany()
        if size < limit:
            parts.append(part[: limit - size])
        size += len(part)
    return b"".join(parts), size


def _headers(
    job: Job, claim: Claim, endpoint: Endpoint, ahead: float, body: bytes
) -> dict[str, str]:
    """The author's own, and ours after them, which they cannot replace."""
    id = job.idempotency_key
    timestamp = str(int(ahead + time.monotonic()))
    headers = {
        **endpoint.headers,
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": _AGENT,
        "Idempotency-Key": id,
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "Sexton-Job": str(claim.id),
        "Sexton-Fence": str(claim.fence),
        "Sexton-Attempt": str(claim.attempt),
    }
    if endpoint.keys:
        headers["webhook-signature"] = signature(endpoint.keys, id, timestamp, body)
    if job.fire is not None:
        headers["Sexton-Schedule"] = quote(job.fire.schedule, safe=_PLAIN)
        headers["Sexton-Fire-At"] = _iso(job.fire.fire_at.timestamp())
    return headers


_AGENT = f"Sexton/{__version__}"
_PLAIN = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def _iso(seconds: float) -> str:
    at = instant(seconds)
    whole = at - timedelta(microseconds=at.microsecond) == at
    return at.strftime("%Y-%m-%dT%H:%M:%SZ" if whole else "%Y-%m-%dT%H:%M:%S.%fZ")


def _said(error: Exception, endpoint: Endpoint) -> str:
    """What went wrong, in words of ours: those of the library may show the whole URL."""
    place, timeout = endpoint.to.place, endpoint.timeout
    match error:
        case aiohttp.ConnectionTimeoutError():
            return f"no connection to {place} within {timeout.sock_connect:g} s"
        case TimeoutError():
            return f"no answer from {place} within {timeout.total:g} s"
        case aiohttp.ClientConnectorDNSError():
            return f"{endpoint.to.host} cannot be looked up: {_os_error(error.os_error)}"
        case aiohttp.ClientConnectorCertificateError():
            return f"the certificate of {place} is not good: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return f"no connection to {place}: {_os_error(error.os_error)}"
        case aiohttp.ServerDisconnectedError():
            return f"{place} closed the connection without an answer"
        case aiohttp.ClientPayloadError() | aiohttp.ClientResponseError():
            return f"{place} answered with something that is not HTTP"
        case OSError():
            return f"the connection to {place} broke: {_os_error(error)}"
        case _:
            return f"the request to {place} failed: {type(error).__name__}"


def _os_error(error: OSError) -> str:
    return clean(error.strerror or str(error) or type(error).__name__, 300)
