"""How every command begins and ends: guarded, with one sentence and an exit code.

====  ==================================================================
code  meaning
====  ==================================================================
0     done
1     the answer is no: a plan that is no use, a check that fails, a session
      that revealed nothing
2     something given is wrong; the sentence says what to do
3     could not be finished: a report that can be checked only in part, a
      session of exact areas that failed
70    a fault of the program; the sentence names a log without data
130   interrupted
====  ==================================================================
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from importlib import import_module
from typing import Any, Final, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from discreet.failures import EXIT_INTERRUPTED, exit_code, guard, sentence, tell
from discreet.vocabulary import did_you_mean

_CLICK: Final = TyperGroup.__mro__[1].__module__.rpartition(".")[0]
"""Newer typers carry a click of their own; its errors are not those of click."""
_SELDOM: Final = 100_000
"""Objects made between two searches for garbage, 700 by default: loading a command
makes a hundred thousand and hardly any garbage."""
SYNONYMS: Final = {"label": "--y-true", "score": "--y-score"}
"""Options that have a second name: what scikit-learn's users write."""
OPTION_NAMES: Final = {
    "classes": "class",
    "groups": "in-group",
    "thresholds": "threshold",
    "names": "name",
    "multiclass": "ovo",
    "scores": "score",
    "inputs": "input",
    "horizons": "horizon",
    "cuts": "cut",
}
"""Options whose names differ from Python's keywords."""
_KEYWORDS: Final = frozenset(
    (
        *OPTION_NAMES,
        *("score", "label", "positive", "subject", "group", "weight", "max_weight"),
        *("kind", "low", "high", "examples", "prevalence", "bins", "random_groups"),
        *("delimiter", "decimal", "thousands", "encoding", "percent", "sheet"),
        *("table", "where", "query"),
        *("max_examples_per_site", "min_survivors", "colluders", "privacy"),
        *("epsilon", "delta", "mechanism", "unit", "labels", "site", "per_site"),
        *("time", "event", "causes", "intervals"),
    )
)
_ASSIGNED: Final = re.compile(
    r"\b([a-z_]+)=('(?P<text>[^']*)'|"
    r"[\[(](?P<several>[\d., ]*\d|'[^']*'(?:, '[^']*')*)[\])]|\[[^\]]*\]|"
    r"(?P<number>[\d.]*\d)|True)?"
)
_CHOICE: Final = re.compile(r"'([^']*)' is not one of (.*)")
"""How click refuses a value that is none of an option's."""
_BARE: Final = re.compile(r"[\w.@-]+")
"""Values that a shell takes as they are."""
_ERRORS: Final[Any] = import_module(f"{_CLICK}.exceptions")
_CORE: Final[Any] = import_module(f"{_CLICK}.core")


def run(
    app: typer.Typer, *, name: str | None = None, speaker: str = "discreet"
) -> NoReturn:
    """Run an app's command line and leave the process.

    Typer's own call is not used: on an error it would show the frames' variables.
    """
    guard(in_options)
    gc.set_threshold(_SELDOM)
    atexit.register(_freeze)
    command = get_command(app)
    arguments = sys.argv[1:]
    try:
        code = command.main(arguments, name, standalone_mode=False)
    except _ERRORS.ClickException as err:
        from typer.rich_utils import rich_format_error  # noqa: PLC0415 - slow

        if choice := _CHOICE.search(getattr(err, "message", "")):
            known = re.findall(r"'([^']*)'", choice[2])
            err.message += did_you_mean(choice[1], known)
        rich_format_error(err)
        sys.exit(err.exit_code)
    except typer.Abort:
        sys.exit(1)
    except Exception as err:  # noqa: BLE001 - the process ends here in every case
        words = in_options(sentence(err, doing=_path(command, arguments)))
        tell(words, speaker=speaker)
        sys.exit(exit_code(err))
    _flush()
    if code == EXIT_INTERRUPTED:  # click has turned the interrupt into its exit code
        tell(sentence(KeyboardInterrupt()), speaker=speaker)
    sys.exit(code if isinstance(code, int) else 0)


def was_given(option: str) -> bool:
    """Say whether an option of the running command was given, not left at its default."""
    context = import_module(f"{_CLICK}.globals").get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _freeze() -> None:
    """Leave what is in memory to the system, which frees it faster than Python does.

    DuckDB's driver would print all of its own that is never freed, 47 lines of it.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def _flush() -> None:
    """Write what is left now, while a reader that has left can still be ignored."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _path(command: Any, arguments: list[str]) -> str:
    """Return the command's words without options and values: they may be data."""
    words: list[str] = []
    for word in arguments:
        if not hasattr(command, "get_command"):
            break
        following = command.get_command(_CORE.Context(command), word)
        if following is None:
            break
        words.append(word)
        command = following
    return " ".join(words)


def in_options(sentence: str) -> str:
    """Name options instead of keywords: ``--score`` for Python's ``score=``.

    >>> in_options("declare kind='logit', or more classes with classes=")
    'declare --kind logit, or more classes with --class'
    >>> in_options("privacy='distributed' needs epsilon=, for instance epsilon=1")
    '--privacy distributed needs --epsilon, for instance --epsilon 1'
    >>> in_options("declare decimal=',' and percent=True")
    'declare --decimal "," and --percent'
    >>> in_options("for instance horizons=[365, 1825]")
    'for instance --horizon 365 --horizon 1825'
    >>> in_options("for instance names=('new', 'old')")
    'for instance --name new --name old'
    """
    return _ASSIGNED.sub(_option, sentence)


def _option(match: re.Match[str]) -> str:
    word = match.group(1)
    if word not in _KEYWORDS:
        return match.group(0)
    value = match.group("text") or match.group("number")
    option = f"--{OPTION_NAMES.get(word, word).replace('_', '-')}"
    if several := match.group("several"):
        values = [each.strip("'") for each in several.split(", ")]
        return " ".join(_written(option, each) for each in values)
    if not value or word == "multiclass":
        return option
    return _written(option, value)


def _written(option: str, value: str) -> str:
    return f"{option} {value}" if _BARE.fullmatch(value) else f'{option} "{value}"'
