"""Every statement Sexton runs, one to a file, with the installation's schema put in its place."""

import functools
import re
from importlib import resources

_SCHEMA = re.compile(r"\bsexton\.(?=[a-z%])")


@functools.cache
def statement(name: str, schema: str) -> str:
    """The text of `name`.sql for one installation; its first line tells who looks at a server's
    activity what it is, and `evict` that it is ours."""
    text = resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return f"-- {schema}.{name}\n{for_schema(text, schema)}"


def for_schema(text: str, schema: str) -> str:
    """Files are written for a schema named `sexton`; an installation may be called otherwise."""
    return _SCHEMA.sub(f"{schema}.", text)


def names() -> list[str]:
    """Every statement there is, for the test that prepares them all."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))
