"""The kinds of problems: a title for each document, and the page that its type leads to."""

# kind: (title, what it means and what to do)
KINDS: dict[str, tuple[str, str]] = {
    "bad_path": (
        "The path cannot be read",
        "A path is UTF-8, percent-encoded, without a NUL. Encode each name in it by itself.",
    ),
    "bad_request": (
        "The request cannot be read",
        "It is not HTTP/1.1, or has more than a hundred headers or 64 KB before its body.",
    ),
    "conflict": (
        "It is not in a state for that",
        "What is there stands in the way; `detail` says how. Nothing was changed.",
    ),
    "cross_site": (
        "The request comes from another site",
        "As long as there is no key, the service answers programs on its own host and pages that "
        "it serves itself, not what a browser sends for another site. Make a key with "
        "`sexton key create` and send it.",
    ),
    "exists": (
        "There is one already",
        "The name is taken. Use PUT to make it what you say, or PATCH to change some of it.",
    ),
    "forbidden": (
        "The key may not do that",
        "Each key has a role: viewer reads, operator also changes, worker claims and settles jobs, "
        "admin does everything, keys and the audit log included. Tenants and the cluster are for "
        "keys of the tenant `default`.",
    ),
    "idempotency_key_reused": (
        "The Idempotency-Key was used for another request",
        "A key stands for one request: the same method, path and body. Take a new one for each.",
    ),
    "internal": (
        "Something is wrong in the service",
        "Nothing was changed. Its log says more, under the request's id, which is `instance`.",
    ),
    "interval_too_short": (
        "It fires more often than the tenant may",
        "The tenant's quota `min_interval` is the shortest time between two fires of a schedule.",
    ),
    "invalid": (
        "Something in the request cannot be right",
        "`field` names it, `errors` all of them if there are several. Nothing was changed.",
    ),
    "malformed": (
        "The body cannot be read",
        "A body is JSON in UTF-8, without NUL characters and halves of surrogate pairs, nested no "
        "deeper than 100, with numbers that are finite.",
    ),
    "method_not_allowed": (
        "There is something, but not with this method",
        "The header Allow has the methods that there are.",
    ),
    "no_secret_key": (
        "Secrets cannot be kept here",
        "They are kept encrypted, and the service has no key for that: set SEXTON_SECRET_KEY, "
        "which `sexton secret-key` prints, on the service and on the workers.",
    ),
    "not_acceptable": (
        "The answer would be JSON",
        "Send Accept: application/json, or none.",
    ),
    "not_found": (
        "There is no such thing",
        "Neither here nor, as far as this key can tell, anywhere: what belongs to another tenant "
        "is not found either.",
    ),
    "precondition_failed": (
        "It has changed meanwhile",
        "If-Match names a version that is not the one it has now. Read it again, then decide.",
    ),
    "quota_exceeded": (
        "The tenant has as much as it may",
        "`quota` names which: the operator sets them with PUT /v1/tenants/{name}.",
    ),
    "rate_limited": (
        "Too many requests",
        "The tenant's quota `requests_per_second` is used up. Retry-After says when to come back.",
    ),
    "stale_fence": (
        "The attempt is no longer yours",
        "The job was claimed again since, or is settled. Drop what you did, and claim anew.",
    ),
    "timeout": (
        "The body did not arrive in time",
        "Send it again.",
    ),
    "too_large": (
        "The body is too large",
        "SEXTON_MAX_BODY_BYTES is the limit; many schedules or jobs go to /v1/schedules/bulk and "
        "/v1/jobs/bulk, line by line.",
    ),
    "unauthenticated": (
        "Who are you?",
        "Send a key: Authorization: Bearer sxn_… Keys are made with `sexton key create`, or by an "
        "admin with POST /v1/keys.",
    ),
    "unavailable": (
        "Not at this moment",
        "The database does not answer, or there is too much to do. Nothing was acknowledged; send "
        "it again after Retry-After, with the same Idempotency-Key.",
    ),
    "unsupported_media_type": (
        "The body is not of a kind that is read here",
        "Send application/json in UTF-8, uncompressed; application/x-ndjson where it says bulk.",
    ),
    "worker_gone": (
        "The worker is gone",
        "It has left, or was silent for longer than its lease: its jobs run elsewhere. Register "
        "again with POST /v1/workers.",
    ),
}


def title(kind: str) -> str:
    """In a document; kinds that have no page are told by their names."""
    found = KINDS.get(kind)
    return kind.replace("_", " ").capitalize() if found is None else found[0]
