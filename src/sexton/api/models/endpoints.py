"""Endpoints as requests say them, and as they are read back: their secrets only ever go in."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from sexton.api.models.common import DURATION, Body, Duration
from sexton.targets.http.headers import MOST as MOST_HEADERS
from sexton.targets.http.url import LONGEST as LONGEST_URL

MOST_SECRETS = 5
LONGEST_TIMEOUT = 900.0
LONGEST_ACCEPTED = 30 * 86_400.0
LONGEST_VALUE = 8192

Url = Annotated[
    StrictStr,
    Field(min_length=1, max_length=LONGEST_URL, examples=["https://hooks.example.com/invoices"]),
]
# Checked where they are read; the patterns are for whoever reads the description.
HeaderValue = Annotated[
    StrictStr,
    Field(max_length=LONGEST_VALUE, json_schema_extra={"pattern": "^([!-~]([ -~]*[!-~])?)?$"}),
]
Secret = Annotated[
    StrictStr,
    Field(
        min_length=1,
        max_length=200,
        json_schema_extra={"writeOnly": True, "pattern": "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$"},
    ),
]
_headers = Field(
    max_length=MOST_HEADERS,
    examples=[{"Authorization": "Bearer 3f9c"}],
    json_schema_extra={
        "writeOnly": True,
        "propertyNames": {"pattern": "^[A-Za-z0-9-]{1,100}$"},
    },
)
Headers = Annotated[dict[str, HeaderValue], _headers]
HeaderChanges = Annotated[dict[str, HeaderValue | None], _headers]
_URL = "Where jobs are sent, as a POST with the payload as JSON."
_TIMEOUT = f"How long an answer may take, from 1 s to 15 minutes; 30. {DURATION}"
_ACCEPTED = (
    "Who answers 202 has so long to settle the job through this API, up to 30 days; 3600. "
    f"0: 202 settles like any other 2xx. {DURATION}"
)


class RetryIn(Body):
    """When a delivery that failed is tried again; what is left out is as usual."""

    max_attempts: StrictInt | None = Field(None, ge=1, le=1000, description="Attempts in all; 12.")
    base: Duration | None = Field(None, description=f"The first delay, at most; 10. {DURATION}")
    factor: StrictFloat | StrictInt | None = Field(
        None, ge=1, le=100, description="How the delay grows with each attempt; 3."
    )
    cap: Duration | None = Field(None, description=f"The longest delay; 6 hours. {DURATION}")
    max_age: Duration | None = Field(
        None, description=f"Not tried again so long after it was enqueued; no limit. {DURATION}"
    )


class EndpointIn(Body):
    """An endpoint. Headers and secrets that are left out stay as they are: nobody can read them."""

    url: Url = Field(description=_URL)
    headers: Headers | None = Field(
        None, description="Sent with every delivery. Encrypted at rest, never shown."
    )
    secrets: list[Secret] | None = Field(
        None,
        max_length=MOST_SECRETS,
        description="What deliveries are signed with, by the Standard Webhooks scheme: whsec_ and "
        "base64 of 24 to 64 bytes. All of them sign.",
        json_schema_extra={"writeOnly": True},
    )
    generate: StrictBool = Field(
        False, description="Make a signing secret, shown this once, if there is none yet."
    )
    timeout: Duration = Field("30s", description=_TIMEOUT)
    accepted_for: Duration = Field("1h", description=_ACCEPTED)
    retry: RetryIn | None = Field(None, description="When a failed delivery is tried again.")


class EndpointChangeIn(Body):
    """What is to change."""

    url: Url | None = Field(None, description=_URL)
    headers: HeaderChanges | None = Field(
        None, description="These change, null takes one away; the others stay."
    )
    add_secret: Secret | None = Field(
        None, description="One more secret, the first to sign; those before go on signing."
    )
    generate: StrictBool = Field(
        False, description="The same with a secret that is made here, and shown this once."
    )
    keep_secrets: StrictInt | None = Field(
        None, ge=0, le=MOST_SECRETS, description="So many stay, the newest; the others are gone."
    )
    timeout: Duration | None = Field(None, description=_TIMEOUT)
    accepted_for: Duration | None = Field(None, description=_ACCEPTED)
    retry: RetryIn | None = Field(
        None, description="When a failed delivery is tried again, as a whole."
    )


class HttpTargetIn(Body):
    """A target that is written out: it becomes an endpoint with a name of its own making."""

    url: Url = Field(description=_URL)
    headers: Headers | None = Field(None, description="Sent with every delivery.")
    secret: Secret | None = Field(None, description="What deliveries are signed with.")
    timeout: Duration = Field("30s", description=_TIMEOUT)
    accepted_for: Duration = Field("1h", description=_ACCEPTED)
    retry: RetryIn | None = Field(None, description="When a failed delivery is tried again.")


class HeadersOut(BaseModel):
    """That there are headers."""

    set: bool = Field(description="Whether there are any.")
    names: list[str] | None = Field(
        description="Which; null if this process does not have the key to tell."
    )


class SecretsOut(BaseModel):
    """That there are secrets."""

    set: bool = Field(description="Whether deliveries are signed.")
    count: int = Field(description="How many signatures each has.")


class RetryOut(BaseModel):
    """When a failed delivery is tried again."""

    max_attempts: int = Field(description="Attempts in all.")
    base: float = Field(description="The first delay, at most, in seconds.")
    factor: float = Field(description="How the delay grows.")
    cap: float = Field(description="The longest delay, in seconds.")
    max_age: float | None = Field(description="Not tried again after so many seconds.")


class EndpointOut(BaseModel):
    """An endpoint, but for its secrets."""

    name: str = Field(description="Its name; ~ and a hash if it was written out as a target.")
    url: str = Field(description="Where jobs are sent.")
    headers: HeadersOut = Field(description="What is sent along.")
    secrets: SecretsOut = Field(description="What deliveries are signed with.")
    timeout: float = Field(description="How many seconds an answer may take.")
    accepted_for: float = Field(description="How many seconds who answers 202 has to settle.")
    retry: RetryOut = Field(description="When a failed delivery is tried again.")
    task: str = Field(description="The task of its jobs, for enqueueing from SQL.")
    version: int = Field(description="Counted up by every change.")
    created_at: datetime = Field(description="When it was made.")
    changed_at: datetime = Field(description="When it was last changed.")


class EndpointMade(EndpointOut):
    """An endpoint, with the secret that was made for it."""

    secret: str | None = Field(
        None,
        description="A signing secret that was made just now. It is shown this once: null when a "
        "request is sent again with its Idempotency-Key.",
    )


class TestOut(BaseModel):
    """A delivery that is on its way."""

    __test__ = False  # whatever its name suggests to a test runner

    job: int = Field(description="The job that carries it: read it to see what came of it.")
