"""Lines of the audit log: what was changed, as it was and as it is."""

from typing import Any

import msgspec

from sexton.domain.text import clean
from sexton.store.service import LogLine

LONGEST_SUBJECT = 500


def line(tenant_id: int, action: str, subject: str, before: Any, after: Any) -> LogLine:
    """Written as JSON at once: what was given may change until the transaction is over."""
    return LogLine(
        tenant_id, action, clean(subject, LONGEST_SUBJECT), _written(before), _written(after)
    )


def _written(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
