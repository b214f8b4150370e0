"""sexton completion bash|zsh|fish"""

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from sexton.cli.output import write

VARIABLE = "_SEXTON_COMPLETE"


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


# Each gives the words until the cursor, the last of them unfinished, and gets one a line.
_SCRIPTS = {
    Shell.bash: """\
_sexton() {
    local IFS=$'\\n' word last= before=
    local -i n=-1
    local -a words=()
    # It breaks words at colons, and gets only what follows the last of them.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ $n -ge 0 && ( $word == :* || $last == *: ) ]]; then
            words[n]+=$word
        else
            n+=1
            words[n]=$word
        fi
        last=$word
    done
    if [[ $COMP_WORDBREAKS == *:* && ${words[n]} == *:* ]]; then before="${words[n]%:*}:"; fi
    COMPREPLY=()
    while read -r word; do
        COMPREPLY+=("$(printf '%q' "${word#"$before"}")")
    done < <(VARIABLE=1 "${COMP_WORDS[0]}" "${words[@]}" 2>/dev/null)
}
complete -o default -F _sexton sexton
""",
    Shell.zsh: """\
#compdef sexton
_sexton() {
    local -a found
    found=("${(@f)$(VARIABLE=1 ${words[1]} "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
if [[ "${funcstack[1]}" == _sexton ]]; then _sexton "$@"; else compdef _sexton sexton; fi
""",
    Shell.fish: """\
function _sexton
    set -l words (commandline -opc)
    VARIABLE=1 $words[1] $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c sexton -f -a '(_sexton)'
""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="For which shell.")],
) -> None:
    """Print what makes a shell complete commands, options and names: eval "$(…)" it."""
    write(_SCRIPTS[shell].replace("VARIABLE", VARIABLE))


def answer(app: typer.Typer, first: Callable[[list[str]], list[str]]) -> None:
    """If a shell asks, complete the last word of the line, and end."""
    if VARIABLE not in os.environ:
        return
    from typer._completion_classes import BashComplete

    *before, incomplete = sys.argv[1:] or [""]
    command: Any = typer.main.get_command(app)
    found: Any = BashComplete(command, {}, "sexton", VARIABLE)
    write("".join(f"{each.value}\n" for each in found.get_completions(first(before), incomplete)))
    sys.exit(0)
