"""docs/cli.md has every command, an example of it that parses, and JSON of its very shape."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from sexton.cli.main import app
from sexton.domain.job import Enqueued
from sexton.remote import admin, views
from sexton.store.migrations import migrations

from .pages import ROOT

PAGE = ROOT / "docs" / "cli.md"
_SECTION = re.compile(r"^### sexton (.+?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
_JSON = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a command's JSON has, in its envelope or as a whole.
SHAPES: dict[str, tuple[str | None, type[Any]]] = {
    "schedule ls": ("schedules", views.Schedule),
    "schedule show": (None, views.Schedule),
    "schedule versions": ("versions", views.Version),
    "schedule preview": ("fires", views.Planned),
    "schedule explain": (None, views.Explanation),
    "schedule fires": ("fires", views.Decision),
    "schedule backfill": (None, views.Backfill),
    "schedule backfills": ("backfills", views.Backfill),
    "calendar ls": ("calendars", views.Calendar),
    "calendar show": (None, views.Calendar),
    "job ls": ("jobs", views.JobLine),
    "job show": (None, views.Job),
    "job progress": (None, views.Progress),
    "job enqueue": (None, Enqueued),
    "dead ls": ("dead", views.DeadLine),
    "dead show": (None, views.Dead),
    "dead redrive": (None, views.Redrive),
    "queues": ("queues", views.Queue),
    "workers": ("workers", views.Worker),
    "endpoint ls": ("endpoints", admin.Endpoint),
    "endpoint show": (None, admin.Endpoint),
    "tenant ls": ("tenants", admin.Tenant),
    "tenant show": (None, admin.Tenant),
    "key ls": ("keys", admin.Key),
    "key show": (None, admin.Key),
    "audit-log": ("lines", admin.LogLine),
    "cluster": (None, admin.Cluster),
}


def paths(command: Any, *before: str) -> Iterator[str]:
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from paths(each, *before, name)
        else:
            yield " ".join((*before, name))


def sections(page: Path = PAGE) -> dict[str, str]:
    return {found[1]: found[2] for found in _SECTION.finditer(page.read_text())}


def test_every_command_has_its_section_with_an_example() -> None:
    found = sections()
    assert sorted(found) == sorted(paths(get_command(app)))
    for path, text in found.items():
        example = text.partition("```sh\n")[2].partition("\n```")[0]
        assert example.startswith(f"sexton {path}"), path


def test_the_version_of_the_schema_is_the_one_that_a_migration_ends_at() -> None:
    shown = _JSON.search(sections()["migrate"])
    assert shown is not None
    said = json.loads(shown[1])
    assert said["version"] == said["wanted"] == migrations()[-1].version


@pytest.mark.parametrize("path", SHAPES)
def test_the_json_of_a_command_is_what_its_page_says(path: str) -> None:
    envelope, kind = SHAPES[path]
    shown = _JSON.search(sections()[path])
    assert shown is not None
    said = json.loads(shown[1])
    assert envelope is None or envelope in said
    [value] = [said] if envelope is None else said[envelope]
    made = msgspec.convert(value, kind)
    assert msgspec.to_builtins(made).keys() == value.keys()
