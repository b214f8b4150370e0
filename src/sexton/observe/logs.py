"""Logs for machines: one JSON object a line, whatever is logged by whom."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from sexton.flow.current import about_current

# What a record may say besides its message; others of the same name are somebody else's.
FIELDS = ("job", "task", "queue", "tenant", "attempt", "fence", "schedule", "node", "worker")
LONGEST = 20_000


class JsonLines(logging.Formatter):
    """ASCII only: no terminal is moved by it, no line broken, and every parser reads it."""

    def __init__(self, **always: Any) -> None:
        super().__init__()
        self._always = {name: value for name, value in always.items() if value is not None}

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(_message(record)),
            **self._always,
            **about_current(),
        }
        for name in FIELDS:
            value = record.__dict__.get(name)
            if isinstance(value, str | int | float):
                said[name] = value
        if record.exc_info:
            said["exception"] = _cut(self.formatException(record.exc_info))
        if record.stack_info:
            said["stack"] = _cut(record.stack_info)
        return json.dumps(said, ensure_ascii=True, default=str)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit: the line is still worth something
        return f"{record.msg!r} with {record.args!r:.1000}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + f"… and {len(text) - LONGEST} more"
