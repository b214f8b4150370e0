"""What an answer means for its job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec

from sexton.domain.outcome import PLAIN_SUCCESS, Accepted, Failed, Outcome, Succeeded
from sexton.domain.text import clean
from sexton.targets.http.headers import Hiding
from sexton.targets.verdict import returned

AGAIN = frozenset({408, 425, 429})
TOO_MANY = 429
GONE = 410
# Whoever asks us to come back later than this is asked before that all the same.
LONGEST_RETRY_AFTER = 86_400.0
MOST_SAID = 1000


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, as far as it was kept, and never unpacked."""

    status: int
    reason: str
    headers: Mapping[str, str]  # whatever the case of the name
    body: bytes
    cut: bool = False  # there was more

    @property
    def alive(self) -> bool:
        """The host does what it should, even if it does not like this job."""
        return self.status < 500

    @property
    def gone(self) -> bool:
        return self.status == GONE


def outcome(
    answer: Answer,
    *,
    accepted_for: float,
    limit: int,
    now: float,
    backoff: float,
    hiding: Hiding,
) -> Outcome:
    """2xx settles, 202 promises to; 408, 425, 429 and 5xx are tried again, the rest never.

    `now` is the database's clock, for a Retry-After that names an instant. It asks not to be
    tried sooner: who says 0 or 1 every time must not use up all attempts in a few seconds, so it
    is tried no sooner than after `backoff` either.
    """
    status = answer.status
    if status == HTTPStatus.ACCEPTED and accepted_for > 0:
        return Accepted(accepted_for)
    if 200 <= status < 300:
        return _succeeded(answer, limit, hiding)
    said = _say(answer, hiding)
    if status in AGAIN or status >= 500:
        asked = retry_after(answer.headers, now)
        return Failed(said, retry_in=None if asked is None else max(asked, backoff))
    if 300 <= status < 400:
        where = clean(hiding.text(answer.headers.get("Location", "nowhere")), 300)
        said = f"{said}\nredirects are not followed, and this one leads to {where}"
    return Failed(said, permanent=True)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds, or an instant; by the clock of who wrote it, if it says what that is."""
    text = headers.get("Retry-After", "").strip()
    if not text:
        return None
    try:
        delay = float(text)
    except ValueError:
        at = _instant(text)
        if at is None:
            return None
        since = _instant(headers.get("Date", ""))
        delay = at - (now if since is None else since)
    if not math.isfinite(delay):
        return None
    return min(max(delay, 0.0), LONGEST_RETRY_AFTER)


def _instant(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _succeeded(answer: Answer, limit: int, hiding: Hiding) -> Succeeded:
    """JSON is the job's result; anything else was for nobody in particular."""
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not answer.body or not (kind == "application/json" or kind.endswith("+json")):
        return PLAIN_SUCCESS
    if answer.headers.get("Content-Encoding", "identity").strip().lower() not in ("identity", ""):
        return Succeeded(note="the answer was not kept: it was compressed, which nobody asked for")
    if answer.cut or len(answer.body) > limit:
        return Succeeded(note=f"the answer was not kept: it has more than {limit:,} bytes")
    try:
        value = msgspec.json.decode(answer.body)
        return returned(hiding.value(value) if hiding else value, limit)
    except (ValueError, RecursionError) as error:
        return Succeeded(note=clean(f"the answer was not kept: {error}", 300))


def _say(answer: Answer, hiding: Hiding) -> str:
    """The status and the beginning of what was said, without the secrets that it was sent."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = hiding.text(answer.reason)
    line = f"HTTP {answer.status} {phrase}".strip()
    compressed = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if not answer.body or compressed not in ("identity", ""):
        return clean(line, MOST_SAID)
    # All of it is searched before it is cut: what is left over could be half of a secret.
    text = hiding.text(answer.body.decode("utf-8", "replace")).strip()
    return clean(f"{line}: {text[: MOST_SAID // 4]}", MOST_SAID)
