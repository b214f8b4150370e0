"""The peers' own environments, made on first use. What cannot be had is said, not left out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from bench.contenders import CONTENDERS, Contender
from bench.driver import CACHE, HERE

REQUIREMENTS = HERE / "contenders" / "requirements.txt"
PACKAGE_JSON = HERE / "contenders" / "package.json"
PYTHON, NODE = CACHE / "venv", CACHE / "node"


class NotAvailable(Exception):
    """A peer cannot be had here; the message is the reason."""


def run(*command: str | Path, cwd: Path, path: str | None = None) -> None:
    environment = {**os.environ, **({"PATH": path} if path else {})}
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    except FileNotFoundError:
        raise NotAvailable(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if "rror" in line]
        raise NotAvailable(said[0].strip() if said else f"{command[0]} failed")


def made(stamp: Path, recipe: Path, make: Callable[[], None]) -> None:
    """Make an environment once per version of its recipe."""
    wanted = hashlib.sha256(recipe.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"making {stamp.parent.relative_to(HERE.parent)} from {recipe.name} …", flush=True)
    make()
    stamp.write_text(wanted)


def make_python() -> None:
    venv.create(PYTHON, with_pip=True, clear=True)
    pip = (PYTHON / "bin" / "python", "-m", "pip", "install", "--quiet")
    wanted = [
        line.strip() for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")
    ]
    peers = {contender.package for contender in CONTENDERS if contender.runtime == "peers"}
    shared = [line for line in wanted if line.split("==")[0] not in peers]
    run(*pip, *shared, cwd=HERE)
    reasons: dict[str, str] = {}
    for line in wanted:
        if line in shared:
            continue
        try:
            run(*pip, line, cwd=HERE)
        except NotAvailable as reason:
            reasons[line.split("==")[0]] = str(reason)
    (PYTHON / "missing.json").write_text(json.dumps(reasons))


def make_node() -> None:
    """npm chooses versions by the Node that runs it: so Node first, then the peers with it."""
    shutil.rmtree(NODE, ignore_errors=True)
    NODE.mkdir(parents=True)
    recipe = json.loads(PACKAGE_JSON.read_text())
    peers = recipe["dependencies"]
    newer_node = f"{NODE / 'node_modules' / '.bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    npm = ("npm", "install", "--no-audit", "--no-fund")
    reasons: dict[str, str] = {}
    recipe["dependencies"] = {"node": peers.pop("node")}
    (NODE / "package.json").write_text(json.dumps(recipe))
    run(*npm, cwd=NODE)
    for package, version in peers.items():
        try:
            run(*npm, f"{package}@{version}", cwd=NODE, path=newer_node)
        except NotAvailable as reason:
            reasons[package] = str(reason)
    (NODE / "missing.json").write_text(json.dumps(reasons))


def ensure(contender: Contender) -> None:
    """Have the contender's environment, or raise the reason why not."""
    CACHE.mkdir(exist_ok=True)
    if contender.runtime == "ours":
        if contender.package and not importable(contender.package):
            raise NotAvailable(f"`import {contender.package}` fails in this environment")
        return
    if contender.runtime == "peers":
        made(PYTHON / "stamp", REQUIREMENTS, make_python)
        missing = PYTHON / "missing.json"
    else:
        made(NODE / "stamp", PACKAGE_JSON, make_node)
        missing = NODE / "missing.json"
    reasons: dict[str, str] = json.loads(missing.read_text())
    if contender.package in reasons:
        raise NotAvailable(reasons[contender.package])


def importable(package: str) -> bool:
    code = f"from {package} import Sexton"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def version(contender: Contender) -> str:
    """The installed version of a peer, for the record."""
    if contender.runtime == "node":
        about = NODE / "node_modules" / contender.package / "package.json"
        return str(json.loads(about.read_text())["version"])
    if not contender.package:
        return ""
    python = sys.executable if contender.runtime == "ours" else PYTHON / "bin" / "python"
    code = f"from importlib.metadata import version; print(version({contender.package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
