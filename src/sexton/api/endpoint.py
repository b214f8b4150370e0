"""An endpoint in a request: read, sealed, compared with what it was, told without secrets."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from yarl import URL

from sexton.api.desk import Desk
from sexton.api.models.endpoints import (
    LONGEST_ACCEPTED,
    LONGEST_TIMEOUT,
    MOST_SECRETS,
    EndpointChangeIn,
    EndpointIn,
    HttpTargetIn,
    RetryIn,
)
from sexton.api.problems import Problem
from sexton.api.service import Service
from sexton.domain.address import Allowed
from sexton.domain.duration import seconds
from sexton.domain.retry import Retry
from sexton.errors import ConfigurationError
from sexton.store.endpoints import EndpointRow, NewEndpoint
from sexton.targets.http import PREFIX
from sexton.targets.http.endpoint import (
    WEBHOOKS,
    headers_purpose,
    open_headers,
    open_secrets,
    secret_purpose,
)
from sexton.targets.http.headers import checked
from sexton.targets.http.seal import CannotOpen, Seal
from sexton.targets.http.sign import fresh_secret, secret_bytes
from sexton.targets.http.url import destination

WRITTEN_OUT = "~"


@dataclass(frozen=True, slots=True)
class Tools:
    """What the operator has set about endpoints."""

    seal: Seal
    allowed: Allowed


_tools: WeakKeyDictionary[Service, Tools] = WeakKeyDictionary()


def tools(desk: Desk) -> Tools:
    found = _tools.get(desk.service)
    if found is None:
        settings = desk.settings
        found = Tools(Seal(settings.secret_keys), Allowed.read(settings.http_allow))
        _tools[desk.service] = found
    return found


def demand(row: EndpointRow | None, name: str) -> EndpointRow:
    if row is None:
        raise Problem(404, "not_found", f"no endpoint {name!r}")
    return row


# ── making ──────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Draft:
    """An endpoint to be, its secrets still open; None: sealed, as they were before."""

    url: str
    timeout: float
    accepted_for: float
    retry: Retry
    headers: dict[str, str] | None
    secrets: list[str] | None
    shown: str | None = None  # a secret that was made just now

    def sealed(self, desk: Desk, name: str, before: EndpointRow | None) -> NewEndpoint:
        return NewEndpoint(
            name=name,
            url=self.url,
            timeout=self.timeout,
            accepted_for=self.accepted_for,
            retry=self.retry,
            headers=self._sealed_headers(desk, name, before),
            secrets=self._sealed_secrets(desk, name, before),
        )

    def _sealed_headers(self, desk: Desk, name: str, before: EndpointRow | None) -> bytes | None:
        if self.headers is None:
            return None if before is None else before.headers
        if not self.headers:
            return None
        return _close(desk, msgspec.json.encode(self.headers), headers_purpose(name), "headers")

    def _sealed_secrets(
        self, desk: Desk, name: str, before: EndpointRow | None
    ) -> tuple[bytes, ...]:
        if self.secrets is None:
            return () if before is None else before.secrets
        purpose = secret_purpose(name)
        return tuple(_close(desk, each.encode(), purpose, "secrets") for each in self.secrets)

    def says(self, desk: Desk, row: EndpointRow) -> bool:
        """Whether an endpoint is this already."""
        plain = (self.url, self.timeout, self.accepted_for, self.retry)
        if plain != (row.url, row.timeout, row.accepted_for, row.retry):
            return False
        seal = tools(desk).seal
        try:
            return (self.headers is None or self.headers == open_headers(row, seal)) and (
                self.secrets is None or self.secrets == open_secrets(row, seal)
            )
        except CannotOpen:
            return False


def _close(desk: Desk, secret: bytes, purpose: str, field: str) -> bytes:
    try:
        return tools(desk).seal.close(secret, desk.tenant_id, purpose)
    except ConfigurationError as error:
        raise Problem(422, "no_secret_key", f"{field}: {error}", field=field) from None


def put(desk: Desk, body: EndpointIn, before: EndpointRow | None) -> Draft:
    """As a whole, but for what cannot be read back."""
    headers = None if body.headers is None else checked(body.headers)
    secrets = None if body.secrets is None else _checked_secrets(body.secrets)
    has_none = not secrets if secrets is not None else before is None or not before.secrets
    made = fresh_secret() if body.generate and has_none else None
    url = _url(desk, body.url)
    if headers is None and before is not None:
        _demand_same_place(desk, url, before, set())
    return Draft(
        url=url,
        timeout=_length("timeout", body.timeout, 1.0, LONGEST_TIMEOUT),
        accepted_for=_length("accepted_for", body.accepted_for, 0.0, LONGEST_ACCEPTED),
        retry=_retry(body.retry),
        headers=headers,
        secrets=secrets if made is None else [made],
        shown=made,
    )


def patch(desk: Desk, body: EndpointChangeIn, before: EndpointRow) -> Draft:
    """Only what is said; the rest as it is."""
    url = before.url if body.url is None else _url(desk, body.url)
    _demand_same_place(desk, url, before, {name.lower() for name in body.headers or ()})
    return Draft(
        url=url,
        timeout=before.timeout
        if body.timeout is None
        else _length("timeout", body.timeout, 1.0, LONGEST_TIMEOUT),
        accepted_for=before.accepted_for
        if body.accepted_for is None
        else _length("accepted_for", body.accepted_for, 0.0, LONGEST_ACCEPTED),
        retry=_retry(body.retry) if "retry" in body.model_fields_set else before.retry,
        headers=_merged(desk, body.headers, before),
        **_rotated(desk, body, before),
    )


def written_out(desk: Desk, body: HttpTargetIn) -> Draft:
    return Draft(
        url=_url(desk, body.url),
        timeout=_length("timeout", body.timeout, 1.0, LONGEST_TIMEOUT),
        accepted_for=_length("accepted_for", body.accepted_for, 0.0, LONGEST_ACCEPTED),
        retry=_retry(body.retry),
        headers=checked(body.headers or {}),
        secrets=[] if body.secret is None else _checked_secrets([body.secret]),
    )


def names_of(desk: Desk, draft: Draft) -> list[str]:
    """What a written-out target is called: the same for the same, and telling nothing of it.

    With every key that there is, the first being the one to use: it may have been made before.
    """
    retry = draft.retry
    text = msgspec.json.encode(
        [
            *(draft.url, draft.timeout, draft.accepted_for),
            *(retry.max_attempts, retry.base, retry.factor, retry.cap, retry.max_age),
            *(sorted((draft.headers or {}).items()), draft.secrets),
        ]
    )
    return [
        WRITTEN_OUT + base64.b32encode(digest[:15]).decode().lower()
        for digest in tools(desk).seal.digests(text)
    ]


def _url(desk: Desk, text: str) -> str:
    return str(destination(text, tools(desk).allowed).url)


def _demand_same_place(desk: Desk, url: str, before: EndpointRow, said: set[str]) -> None:
    """Headers go in and never come out: nor to whoever has them sent to a host of its own."""
    if before.headers is None or URL(url).origin() == URL(before.url).origin():
        return
    names = _header_names(desk, before)
    if names is None or any(name.lower() not in said for name in names):
        detail = "headers: the URL leads to another place: say each of them again, or take it away"
        raise Problem(422, "invalid", detail, field="headers")


def _length(field: str, value: Any, least: float, most: float) -> float:
    try:
        length = seconds(value)
    except ValueError as error:
        raise Problem(422, "invalid", f"{field}: {error}", field=field) from None
    if not least <= length <= most:
        detail = f"{field}: {length:g} s is not between {least:g} and {most:g}"
        raise Problem(422, "invalid", detail, field=field)
    return round(length, 3)


def _retry(body: RetryIn | None) -> Retry:
    given = {} if body is None else body.model_dump(exclude_none=True)
    try:
        return Retry(
            given.get("max_attempts", WEBHOOKS.max_attempts),
            given.get("base", WEBHOOKS.base),
            given.get("cap", WEBHOOKS.cap),
            float(given.get("factor", WEBHOOKS.factor)),
            given.get("max_age"),
        )
    except ValueError as error:
        raise Problem(422, "invalid", f"retry: {error}", field="retry") from None


def _checked_secrets(secrets: Sequence[str]) -> list[str]:
    for each in secrets:
        secret_bytes(each)
    if len(set(secrets)) < len(secrets):
        raise Problem(422, "invalid", "secrets: the same is there twice", field="secrets")
    return list(secrets)


def _merged(
    desk: Desk, changes: Mapping[str, str | None] | None, before: EndpointRow
) -> dict[str, str] | None:
    if changes is None:
        return None
    small = {name.lower() for name in changes}
    kept = {
        name: value
        for name, value in _opened_headers(desk, before).items()
        if name.lower() not in small
    }
    return checked(kept | {name: value for name, value in changes.items() if value is not None})


def _opened_headers(desk: Desk, row: EndpointRow) -> dict[str, str]:
    try:
        return open_headers(row, tools(desk).seal)
    except CannotOpen as error:
        raise Problem(422, "no_secret_key", f"headers: {error}", field="headers") from None


def _rotated(desk: Desk, body: EndpointChangeIn, before: EndpointRow) -> dict[str, Any]:
    """The newest first: it is the one that signs first, and that stays."""
    if body.generate and body.add_secret is not None:
        detail = "generate: give a secret or have one made, not both"
        raise Problem(422, "invalid", detail, field="generate")
    made = fresh_secret() if body.generate else None
    added = made or body.add_secret
    if added is None and body.keep_secrets is None:
        return {"secrets": None, "shown": None}
    try:
        secrets = open_secrets(before, tools(desk).seal)
    except CannotOpen as error:
        raise Problem(422, "no_secret_key", f"secrets: {error}", field="secrets") from None
    secrets = _checked_secrets([*([] if added is None else [added]), *secrets])
    secrets = secrets[: body.keep_secrets]
    if len(secrets) > MOST_SECRETS:
        detail = f"keep_secrets: {MOST_SECRETS} are the most; say how many are to stay"
        raise Problem(422, "invalid", detail, field="keep_secrets")
    return {"secrets": secrets, "shown": made if made in secrets else None}


# ── telling ─────────────────────────────────────────────────────────────────


def told(desk: Desk, row: EndpointRow) -> dict[str, Any]:
    """For answers and for the audit log."""
    retry = row.retry
    return {
        "name": row.name,
        "url": row.url,
        "headers": {"set": row.headers is not None, "names": _header_names(desk, row)},
        "secrets": {"set": bool(row.secrets), "count": len(row.secrets)},
        "timeout": row.timeout,
        "accepted_for": row.accepted_for,
        "retry": {
            "max_attempts": retry.max_attempts,
            "base": retry.base,
            "factor": retry.factor,
            "cap": retry.cap,
            "max_age": retry.max_age,
        },
        "task": f"{PREFIX}{row.id}",
        "version": row.version,
        "created_at": row.created_at,
        "changed_at": row.changed_at,
    }


def _header_names(desk: Desk, row: EndpointRow) -> list[str] | None:
    try:
        return sorted(open_headers(row, tools(desk).seal))
    except CannotOpen:
        return None
