"""Scripts by which shells complete ``kvtop``: tables of what can follow, and the few lines that look it up.

Everything but names of running engines and of profiles stands in the script; for those it asks kvtop. bash and zsh get
one script in the part of their languages that both have, apart from how what was found is handed to them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kvtop.commands.tree import Argument, Command

_ASKED: Final = {"engines": "kvtop ls --names 2>/dev/null", "profiles": "kvtop config --profiles 2>/dev/null"}
"""What tells the names that are not known in advance."""

_ABOUT: Final = "# Completion of kvtop for {shell}, printed by: kvtop completion {shell}"


def _quoted(text: str) -> str:
    """``text`` as one word of fish, where nothing in single quotes is expanded; of any shell where it has no quotes itself."""
    plain = re.sub(r"[^ -~]", " ", text).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{plain}'"


def _flags_with_values(command: Command) -> dict[str, Argument]:
    return {flag: argument for argument in command.options if argument.count for flag in argument.flags}


def _first(argument: Argument) -> str:
    """The help up to its first colon, semicolon or bracket: a list of words is read at a glance."""
    return re.split(r"[:;(]", argument.help, maxsplit=1)[0].strip()


# bash and zsh


def _entries(tree: Command) -> Iterator[str]:
    """Of ``case`` statements by the path of the command: `_kvtop_commands`, `_kvtop_options`, `_kvtop_takes`."""
    commands = list(tree.all())
    yield "_kvtop_commands() { case $1 in"
    for command in commands:
        if command.commands:
            yield f"  ({_quoted(' '.join(command.path))}) echo {' '.join(inner.path[-1] for inner in command.commands)} ;;"
    yield "esac; }\n"
    yield "_kvtop_options() { case $1 in"
    for command in commands:
        flags = [flag for option in command.options for flag in option.flags]
        if flags:
            yield f"  ({_quoted(' '.join(command.path))}) echo {' '.join(flags)} ;;"
    yield "esac; }\n"
    yield "# How many values an option takes, and of what kind they are; the option - is what is known by its place."
    yield "_kvtop_takes() { case $1 in"
    for command in commands:
        path = " ".join(command.path)
        for flag, argument in _flags_with_values(command).items():
            yield f"  ({_quoted(f'{path} {flag}'.strip())}) echo {' '.join([str(argument.count), argument.kind, *argument.words])} ;;"
        for argument in command.places[:1]:
            yield f"  ({_quoted(f'{path} -'.strip())}) echo {' '.join(['1', argument.kind, *argument.words])} ;;"
    yield "esac; }\n"


_LOOK: Final = r"""
# Sets _kvtop_found (lines) for the word $1, the words before it being the others; 1: the shell may propose files.
_kvtop_look() {
  local current=$1 at= skip=0 option= word= takes= kind=
  shift 2
  for word in "$@"; do
    if [ "$word" = "=" ]; then continue; fi
    if [ $skip -gt 0 ]; then skip=$((skip - 1)); continue; fi
    case $word in
      (--*=*) ;;
      (-*) takes=$(_kvtop_takes "${at:+$at }$word")
           if [ -n "$takes" ]; then option=$word; skip=${takes%% *}; fi ;;
      (*) case " $(_kvtop_commands "$at") " in
            (*" $word "*) at=${at:+$at }$word ;;
          esac ;;
    esac
  done
  _kvtop_found=
  if [ $skip -gt 0 ]; then
    takes=$(_kvtop_takes "${at:+$at }$option")
  else
    case $current in
      (--*=*) _kvtop_prefix=${current%%=*}=
              takes=$(_kvtop_takes "${at:+$at }${current%%=*}") ;;
      (-*) _kvtop_found=$(_kvtop_options "$at" | tr ' ' '\n'); return 0 ;;
      (*) _kvtop_found=$(_kvtop_commands "$at" | tr ' ' '\n')
          if [ -n "$_kvtop_found" ]; then return 0; fi
          takes=$(_kvtop_takes "${at:+$at }-") ;;
    esac
  fi
  takes=${takes#* }
  kind=${takes%% *}
  case $kind in
    (words) _kvtop_found=$(echo ${takes#* } | tr ' ' '\n') ;;
    (engines) _kvtop_found=$(ENGINES) ;;
    (profiles) _kvtop_found=$(PROFILES) ;;
    (files) return 1 ;;
  esac
  return 0
}
""".replace("ENGINES", _ASKED["engines"]).replace("PROFILES", _ASKED["profiles"])

_BASH: Final = r"""
_kvtop() {
  local current=${COMP_WORDS[COMP_CWORD]} word= _kvtop_found= _kvtop_prefix=
  COMPREPLY=()
  if _kvtop_look "$current" "${COMP_WORDS[@]:0:COMP_CWORD}"; then
    if [ "$current" = "=" ]; then current=; fi
    while IFS= read -r word; do
      case $word in
        (?*) case $word in ("${current#"$_kvtop_prefix"}"*) COMPREPLY+=("$word") ;; esac ;;
      esac
    done <<< "$_kvtop_found"
    if [ ${#COMPREPLY[@]} -eq 0 ]; then compopt +o default 2>/dev/null; fi
  fi
}
complete -o default -F _kvtop kvtop
"""

_ZSH: Final = r"""
_kvtop() {
  local current=$words[CURRENT] _kvtop_found= _kvtop_prefix=
  if _kvtop_look "$current" "${(@)words[1,CURRENT-1]}"; then
    if [ -n "$_kvtop_prefix" ]; then compset -P '*='; fi
    compadd -- "${(@f)_kvtop_found}"
  else
    if [ -n "$_kvtop_prefix" ]; then compset -P '*='; fi
    _files
  fi
}
if [ "$funcstack[1]" = "_kvtop" ]; then _kvtop "$@"
elif (( $+functions[compdef] )); then compdef _kvtop kvtop
else echo "completion of kvtop needs compinit before it" >&2; fi
"""


def bash(tree: Command) -> str:
    """For ``eval "$(kvtop completion bash)"``, or a file in bash-completion's folder."""
    return "\n".join([_ABOUT.format(shell="bash"), "", *_entries(tree)]) + _LOOK + _BASH


def zsh(tree: Command) -> str:
    """For ``eval "$(kvtop completion zsh)"`` after ``compinit``, or a file ``_kvtop`` in a folder of ``$fpath``."""
    return "\n".join(["#compdef kvtop", _ABOUT.format(shell="zsh"), "", *_entries(tree)]) + _LOOK + _ZSH


# fish


def _fish_lines(command: Command) -> Iterator[str]:
    at = f"-n '__kvtop_at {' '.join(command.path)}'" if command.path else "-n '__kvtop_at'"
    for inner in command.commands:
        yield f"complete -c kvtop {at} -f -a {inner.path[-1]} -d {_quoted(inner.help)}"
    for option in command.options:
        names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        yield f"complete -c kvtop {at} {names}{_fish_values(option, option.count > 0)} -d {_quoted(_first(option))}"
    for argument in command.places[:1]:
        yield f"complete -c kvtop {at}{_fish_values(argument, False)} -d {_quoted(_first(argument))}"


def _fish_values(argument: Argument, required: bool) -> str:
    how = {"files": " -F", "other": " -f", "none": " -f"}.get(argument.kind, " -f")
    if argument.kind in _ASKED:
        how += f" -a {_quoted(f'({_ASKED[argument.kind]})')}"
    elif argument.words:
        how += f" -a {_quoted(' '.join(argument.words))}"
    return how + (" -r" if required else "")


def fish(tree: Command) -> str:
    """For ``kvtop completion fish | source``, or a file in fish's folder ``completions``."""
    with_values = sorted({flag for command in tree.all() for flag in _flags_with_values(command)})
    paths = " ".join(_quoted(" ".join(command.path)) for command in tree.all() if command.path)
    head = [
        _ABOUT.format(shell="fish"),
        "",
        "# Whether the words typed so far lead to the command that is named.",
        "function __kvtop_at",
        f"    set -l paths {paths}",
        f"    set -l values {' '.join(with_values)}",
        "    set -l at",
        "    set -l skip 0",
        "    for word in (commandline -opc)[2..-1]",
        "        if test $skip -eq 1",
        "            set skip 0",
        "        else if contains -- $word $values",
        "            set skip 1",
        "        else if contains -- (string join ' ' $at $word) $paths",
        "            set -a at $word",
        "        end",
        "    end",
        '    test "$at" = "$argv"',
        "end",
        "",
        "complete -c kvtop -f",
    ]
    return "\n".join([*head, *(line for command in tree.all() for line in _fish_lines(command))]) + "\n"


SCRIPTS: Final[Mapping[str, Callable[[Command], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
