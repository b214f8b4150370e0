"""The documentation as the tests read it: blocks of code, commands, settings, links."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "bench" / "README.md",
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_INLINE = re.compile(r"`(sexton [^`]+)`")
_NAMED_FILE = re.compile(r"`((?:[\w.]+/)+\w+\.(?:py|sql|md|mjs))`")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page where it begins."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name in its first line, if it is the content of a file."""
        named = _FILE.match(self.text)
        return named[1] if named else None


def blocks(page: Path, *languages: str) -> list[Block]:
    text = page.read_text()
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        for found in _BLOCK.finditer(text)
        if found[1] in languages
    ]


def commands(page: Path) -> Iterator[list[str]]:
    """Every `sexton …` that the page shows, in blocks and in its text, as words."""
    whole = [block.text.replace("\\\n", " ") for block in blocks(page, "sh")]
    lines = [line for text in whole for line in text.splitlines()]
    for line in [*lines, *_INLINE.findall(_BLOCK.sub("", page.read_text()))]:
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            del words[0]
        if words[:1] == ["sexton"]:
            yield words[1:]


def settings(page: Path) -> set[str]:
    return set(re.findall(r"\bSEXTON_[A-Z_]+[A-Z]\b", page.read_text()))


def links(page: Path) -> list[str]:
    """Those that stay in the repository."""
    found = _LINK.findall(_BLOCK.sub("", page.read_text()))
    return [link for link in found if not re.match(r"\w+:", link)]


def files(page: Path) -> list[str]:
    """Files of the repository that the text names, by a path."""
    return _NAMED_FILE.findall(_BLOCK.sub("", page.read_text()))


def anchors(page: Path) -> set[str]:
    """What a link's fragment may name, as the usual hosts make it of a heading."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {each.strip().replace(" ", "-") for each in plain}
