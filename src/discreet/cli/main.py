"""The commands of ``discreet``, by who uses them; each is loaded when it is called.

``discreet --help`` prints names and one line each; what a command computes with
(Arrow, SciPy, Flower) takes seconds to load and is loaded by that command alone.

Newer versions of typer carry their own copy of click and older ones import it. Neither
is imported here: where a type would be click's, it is ``Any``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, Final, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import discreet
from discreet.cli.entry import OPTION_NAMES, SYNONYMS, run
from discreet.errors import InputError

_PANELS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Analyst: whoever wants the numbers": {
        "demo": (
            "discreet.cli.demo:demo",
            "Measure a real model at twelve simulated hospitals that cannot pool data.",
        ),
        "evaluate": (
            "discreet.cli.evaluate:evaluate",
            "Evaluate the pooled data of files, as if they could not be pooled.",
        ),
        "compare": (
            "discreet.cli.evaluate:compare",
            "Compare two models on the same examples of several files: one release.",
        ),
        "plan": (
            "discreet.cli.plan:plan",
            "Choose a plan from public facts and predict its errors, without data.",
        ),
        "score": (
            "discreet.cli.score:score",
            "Score rows of features with an ONNX file, here.",
        ),
        "phone": (
            "discreet.cli.collect:app",
            "Let phones and browsers send private reports of single examples.",
        ),
        "collect": (
            "discreet.cli.collect:collect",
            "Count the reports of phones and browsers, and print the evaluation.",
        ),
        "collect serve": (
            "discreet.cli.collect:serve",
            "Receive reports over HTTPS and append them durably, until it is interrupted.",
        ),
        "exact": (
            "discreet.mpc.commands:app",
            "Exact AUC, average precision and AUPR by three compute parties.",
        ),
    },
    "Site: whoever holds data": {
        "join": (
            "discreet.cli.keys:join",
            "Set up this site, once: keys, trust, ledger, starter policy, a check.",
        ),
        "preview": (
            "discreet.cli.preview:preview",
            "Show what would leave this site: shapes, sizes, the claim, the charge.",
        ),
        "query": (
            "discreet.cli.preview:query",
            "Print the query that counts a plan's rows in a database, to run by hand.",
        ),
        "site": (
            "discreet.cli.site:site",
            "Take part in a plan with this site's data, once.",
        ),
        "site fetch": (
            "discreet.cli.site:fetch",
            "Fetch the plan that the coordinator runs, to read before taking part.",
        ),
        "site doctor": (
            "discreet.cli.site:doctor",
            "Check everything that could fail when this site joins.",
        ),
        "site own": (
            "discreet.cli.site:own",
            "Compare this site's own values with the revealed result; nothing leaves.",
        ),
        "keys": (
            "discreet.cli.keys:app",
            "Make, trust, renew, rotate and revoke keys; private halves stay where they are.",
        ),
        "policy": (
            "discreet.cli.policy:app",
            "Say what a site's policy allows, and whether it allows a plan.",
        ),
        "ledger": (
            "discreet.cli.ledger:app",
            "Make and read a site's record of all its releases.",
        ),
    },
    "Coordinator: whoever runs the session": {
        "consortium": (
            "discreet.cli.keys:consortium",
            "Rehearse: make everybody's keys, policies and ledgers in one place.",
        ),
        "roster": (
            "discreet.cli.keys:roster",
            "Put the sites' public files into a plan's roster; print the fingerprints.",
        ),
        "coordinate": (
            "discreet.cli.coordinate:coordinate",
            "Run a plan over the sites that connect, and print the evaluation.",
        ),
        "coordinate doctor": (
            "discreet.cli.coordinate:doctor",
            "Check everything that could fail when the coordinator starts.",
        ),
        "coordinate purge": (
            "discreet.cli.coordinate:purge",
            "Delete saved sessions that nobody went on with.",
        ),
    },
    "Reviewer: whoever signs for the privacy": {
        "verify": (
            "discreet.cli.reviewer:verify",
            "Compute a report again, compare all words and numbers, check who signed.",
        ),
        "attack": (
            "discreet.cli.reviewer:app",
            "Show what a release gives away about one person.",
        ),
    },
}
"""Who uses a command, where it is ("module:name"), and its line in the help."""
_TARGETS: Final = {
    name: target for panel in _PANELS.values() for name, (target, _) in panel.items()
}


class _Commands(TyperGroup):
    """Every command of the table, imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(_TARGETS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a stand-in for a command: enough for help and completion."""
        for panel, commands in _PANELS.items():
            if cmd_name in commands:
                line = commands[cmd_name][1]
                return TyperCommand(cmd_name, help=line, rich_help_panel=panel)
        return super().get_command(ctx, cmd_name)  # hidden, not in the table

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        """Load the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        longer = f"{name} {rest[0]}" if rest else ""
        if longer in _TARGETS:  # such as "site doctor", beside "site"
            name, rest = longer, rest[1:]
        if name in _TARGETS:
            command = _load(name)
        return name, command, rest


def _load(name: str) -> Any:
    """Import a command: a function, or a Typer app with commands."""
    module, _, attribute = _TARGETS[name].partition(":")
    target = getattr(import_module(module), attribute)
    if not isinstance(target, typer.Typer):
        function = with_option_groups(target)
        target = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        target.command(name)(function)
    command = get_command(target)
    command.name = name
    return command


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: parameters whose type is a dataclass.

    The command line has an option for each field; the command gets the group. A group
    whose options are not known beforehand has a class method ``options`` instead. The
    help of an option is its entry in the docstring of its command or group.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, tuple[Any, list[inspect.Parameter]]] = {
        name: (p.annotation, list(_options(p.annotation)))
        for name, p in own.items()
        if is_dataclass(p.annotation) or hasattr(p.annotation, "options")
    }

    def shown() -> Iterator[inspect.Parameter]:
        for name, parameter in own.items():
            if name in groups:
                yield from groups[name][1]
            else:
                yield _described(parameter, command)

    @wraps(command)
    def called(**given: Any) -> None:
        for name, (group, options) in groups.items():
            given[name] = group(**{o.name: given.pop(o.name) for o in options})
        command(**given)

    called.__doc__ = (inspect.getdoc(command) or "").partition("\n\nOptions:")[0]
    called.__signature__ = inspect.Signature(list(shown()))  # type: ignore[attr-defined]
    return called


def _options(group: Any) -> Iterator[inspect.Parameter]:
    if hasattr(group, "options"):
        yield from group.options()
        return
    types = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        parameter = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=types[field.name],
        )
        yield _described(parameter, *group.__mro__)


def _described(parameter: inspect.Parameter, *owners: Any) -> inspect.Parameter:
    """Return a parameter as an option, unless it is one or an argument already."""
    parameter = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    name, kind = parameter.name, parameter.annotation
    if get_origin(kind) is Annotated:
        return parameter
    text = next(filter(None, (documented(owner, name) for owner in owners)), "")
    # A flag that is off has no --no-flag beside it.
    own = OPTION_NAMES.get(name, name if parameter.default is False else "")
    names: tuple[str, ...] = (f"--{own.replace('_', '-')}",) if own else ()
    if name in SYNONYMS:
        names = (f"--{name}", SYNONYMS[name])
    return parameter.replace(
        annotation=Annotated[kind, typer.Option(*names, help=text)]
    )


def documented(owner: object, name: str) -> str:
    """Return the entry of a docstring about one name, "" where there is none."""
    doc = inspect.getdoc(owner) or ""
    entry = re.search(rf"^    {name}: (.*(?:\n {{8,}}.*)*)", doc, re.MULTILINE)
    return " ".join(entry.group(1).split()).replace("``", "") if entry else ""


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would show data
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"discreet {discreet.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Measure a classifier on data you may not see."""


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
def reproduce(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Say where the papers went."""
    items = " ".join(names or ["NAME"])
    raise InputError(
        f"the papers left the package: run python -m papers {items} from a clone"
    )


def main() -> None:
    """Run the command line; see ``discreet.cli.entry`` for how it ends."""
    run(app)
