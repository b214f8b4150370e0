"""Names in paths: whatever a name consists of, it is one segment of the path.

Servers decode a path before it is matched with the routes, and %2F becomes a slash like any other.
Here it becomes a NUL, which no name can hold, until the name is read.
"""

from urllib.parse import quote, unquote

from starlette.types import Scope

from sexton.api.problems import Problem

SLASH = "\x00"


def keep_segments(scope: Scope) -> None:
    """Before the routes are asked: each segment is decoded by itself."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return
    if b"%00" in raw:
        raise Problem(400, "bad_path", "the path holds a NUL character, which no name can")
    try:
        segments = [unquote(each, errors="strict") for each in raw.decode("ascii").split("/")]
    except UnicodeDecodeError:
        raise Problem(400, "bad_path", "the path is not UTF-8") from None
    scope["path"] = "/".join(each.replace("/", SLASH) for each in segments)


def name_in(segment: str) -> str:
    return segment.replace(SLASH, "/")


def segment_of(name: str) -> str:
    """A name as it stands in a path, for Location."""
    return quote(name, safe="")
