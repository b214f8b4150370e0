"""Shell completion: commands, options, and the names that there are, or nothing at all."""

import shutil
import subprocess
import time

import pytest

from .conftest import PATIENCE, PROGRAM, Cli

BASH = shutil.which("bash")
ANSWERS = """\
sexton() {{ {program} "$@"; }}
. ./completion
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_sexton
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(cli: Cli, *words: str, **more: str) -> list[str]:
    """What the program offers a shell for the last word."""
    said = cli(*words, _SEXTON_COMPLETE="1", **more)
    assert (said.code, said.err) == (0, "")
    return said.out.splitlines()


def named(cli: Cli, *words: str) -> list[str]:
    """The same, for names: a machine that is busy may not have them in time."""
    deadline = time.monotonic() + PATIENCE
    while not (found := completed(cli, *words)):
        assert time.monotonic() < deadline
    return found


def test_commands_options_and_names_are_completed(cli: Cli) -> None:
    for name in ("nightly", "noon", "two words"):
        cli.json("schedule", "add", name, "--every", "1h", "--task", "add")
    cli.json("job", "enqueue", "ring", "--queue", "tower")
    assert sorted(completed(cli, "sche")) == ["schedule", "scheduler"]
    assert named(cli, "schedule", "show", "n") == ["nightly", "noon"]
    assert named(cli, "schedule", "pause", "two") == ["two words"]
    assert named(cli, "job", "ls", "--queue", "") == ["tower"]
    assert named(cli, "job", "ls", "--task", "") == ["add", "ring"]
    assert "--server" in completed(cli, "--s")
    assert completed(cli, "job", "ls", "--state", "su") == ["succeeded"]
    assert completed(cli, "schedule", "show", "--tenant", "nobody", "n") == []


def test_trouble_is_silent_and_short(embedded_cli: Cli) -> None:
    began = time.monotonic()
    assert embedded_cli("--version").code == 0
    usual = time.monotonic() - began
    for place in ("postgresql://127.0.0.1:1/x", "postgresql://192.0.2.1/x"):
        began = time.monotonic()
        words = ("schedule", "show", "--database-url", place, "n")
        assert completed(embedded_cli, *words) == []
        assert time.monotonic() - began < 3 * usual + 3
    assert completed(embedded_cli, "schedule", "show", "n") == []
    nowhere = {"SEXTON_SERVER": "http://127.0.0.1:1"}
    assert completed(embedded_cli, "schedule", "show", "n", **nowhere) == []
    assert not list(embedded_cli.folder.iterdir()), "nobody starts a PostgreSQL for it"


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_bash_completes_with_the_script(cli: Cli) -> None:
    for name in ("two words", "eu:paris", "eu:berlin:east"):
        cli.json("schedule", "add", name, "--every", "1h", "--task", "add")
    (cli.folder / "completion").write_text(cli("completion", "bash").out)
    for words, offered in (
        ("sexton calen", ["calendar"]),
        ("sexton schedule show tw", [r"two\ words"]),
        ("sexton schedule show ''", ["eu:berlin:east", "eu:paris", r"two\ words"]),
        # As bash gives them, which breaks words at colons, and what it wants in return.
        ("sexton schedule show eu", ["eu:berlin:east", "eu:paris"]),
        ("sexton schedule show eu :", ["berlin:east", "paris"]),
        ("sexton schedule show eu : pa", ["paris"]),
        ("sexton schedule show eu : berlin : e", ["east"]),
    ):
        script = ANSWERS.format(program=" ".join(PROGRAM), words=words)
        deadline = time.monotonic() + PATIENCE
        while (said := _in_bash(cli, script)) == ["''"] or not said:
            assert time.monotonic() < deadline, words
        assert said == offered, words


def _in_bash(cli: Cli, script: str) -> list[str]:
    assert BASH is not None
    done = subprocess.run(
        [BASH, "--norc", "-c", script],
        cwd=cli.folder,
        env=cli.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_that_they_can_read(embedded_cli: Cli, shell: str) -> None:
    script = embedded_cli("completion", shell).out
    assert "_SEXTON_COMPLETE=1" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)
