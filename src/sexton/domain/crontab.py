"""Crontab files: what each line would run, and which lines cannot be right. Pure."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from sexton.domain.when.cron import parse_cron
from sexton.domain.when.zone import zone_named
from sexton.errors import InvalidSchedule

FIELDS = 5
LONGEST_SLUG = 60
_VARIABLE = re.compile(r"""\s*(?P<q>["']?)(?P<name>[A-Za-z_]\w*)(?P=q)\s*=\s*(?P<value>.*)""")
_WORD = re.compile(r"\s*(\S+)")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")
_ZONE = "CRON_TZ"


@dataclass(frozen=True, slots=True)
class CronLine:
    """A line that runs something; `stdin` is what follows its first %."""

    line: int
    name: str
    cron: str
    timezone: str | None
    command: str
    user: str | None = None
    stdin: str | None = None


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not understood."""

    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Crontab:
    """A file, read: its lines, those that are wrong, and the variables it sets."""

    lines: tuple[CronLine, ...]
    bad: tuple[BadLine, ...]
    variables: dict[str, str]


def parse_crontab(text: str, *, system: bool = False, prefix: str = "") -> Crontab:
    """A user's crontab, or with `system` one that names the user before the command.

    A name follows from the command, so that the same file gives the same names again, whatever
    has become of its times.
    """
    lines: list[CronLine] = []
    bad: list[BadLine] = []
    variables: dict[str, str] = {}
    zone: str | None = None
    seen: Counter[str] = Counter()
    for number, line in _meant(text):
        try:
            if (variable := _VARIABLE.fullmatch(line)) is not None:
                name, value = variable["name"], _unquoted(variable["value"])
                if name == _ZONE:
                    zone = zone_named(value).key if value else None
                else:
                    variables[name] = value
                continue
            cron, user, rest = _split(line, system)
            parse_cron(cron)
            command, stdin = _command(rest)
            said = command if user is None else f"{user} {command}"
            seen[said] += 1
            name = _name(prefix, command, said, seen[said])
            lines.append(CronLine(number, name, cron, zone, command, user, stdin))
        except InvalidSchedule as error:
            bad.append(BadLine(number, line, str(error)))
    return Crontab(tuple(lines), tuple(bad), variables)


def _meant(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def _split(line: str, system: bool) -> tuple[str, str | None, str]:
    """The expression, the user, and the rest with its blanks as they are."""
    if line.lower().startswith("@reboot"):
        raise InvalidSchedule("@reboot is no instant: start it with the machine instead")
    words: list[str] = []
    at = 0
    wanted = 1 if line.startswith("@") else FIELDS
    for _ in range(wanted + system):
        found = _WORD.match(line, at)
        if found is None:
            break
        words.append(found[1])
        at = found.end()
    rest = line[at:].strip()
    if len(words) < wanted + system or not rest:
        fields = "a word like @daily" if wanted == 1 else "five fields"
        user = ", a user" if system else ""
        raise InvalidSchedule(f"a line has {fields}{user} and a command")
    return " ".join(words[:wanted]), words[wanted] if system else None, rest


def _command(rest: str) -> tuple[str, str | None]:
    r"""Up to the first %, and what comes after with a line for each; \% is a % itself."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", rest)]
    command = parts[0].rstrip()
    if not command:
        raise InvalidSchedule("there is no command before the first %")
    return command, "\n".join(parts[1:]) if len(parts) > 1 else None


def _unquoted(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _name(prefix: str, command: str, said: str, nth: int) -> str:
    slug = _NOT_IN_NAMES.sub("-", command)[:LONGEST_SLUG].strip("-").lower() or "command"
    digest = blake2b(f"{said}\0{nth}".encode(errors="replace"), digest_size=3).hexdigest()
    return f"{prefix}{slug}-{digest}"
