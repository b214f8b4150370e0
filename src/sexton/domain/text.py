"""Text that PostgreSQL will take, whatever a task's exception carried."""

MAX_ERROR_BYTES = 8192
_CUT = "\n… (cut: {} bytes in all) …\n"


def clean(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """Without NUL bytes and lone surrogates, and at most `limit` bytes: both ends are kept,
    because a traceback says where at its end and what at its beginning."""
    if len(text) > 4 * limit:
        size = len(text)
        text = text[: 2 * limit] + text[-2 * limit :]
    else:
        size = 0
    raw = text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "backslashreplace")
    if len(raw) <= limit and not size:
        return raw.decode("utf-8")
    mark = _CUT.format(max(size, len(raw)))
    half = (limit - len(mark.encode())) // 2
    head = raw[:half].decode("utf-8", "ignore")
    tail = raw[-half:].decode("utf-8", "ignore")
    return head + mark + tail
