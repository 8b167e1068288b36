"""Commands that are loaded when they are called, and options that they share.

``discreet --help`` prints names and one line each; what a command computes with
(Arrow, SciPy, Flower) takes seconds to load and is loaded by that command alone.

Newer versions of typer carry their own copy of click and older ones import it. Neither
is imported here: where a type would be click's, it is ``Any``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is written, and what help says of it.

    ``target`` is "module:name", of a function or of a Typer app with commands.
    """

    target: str
    help: str
    panel: str

    def load(self, name: str) -> Any:
        """Import the command."""
        module, _, attribute = self.target.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            app.command(name)(found)
            found = app
        command = get_command(found)
        command.name = name
        return command

    def promise(self, name: str) -> TyperCommand:
        """Return what stands for the command in help."""
        return TyperCommand(name, help=self.help, rich_help_panel=self.panel)


class LaterGroup(TyperGroup):
    """A group whose commands are places; subclass it with a table of them."""

    places: ClassVar[dict[str, Place]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the promise of a command: enough for help and completion."""
        place = self.places.get(cmd_name)
        if place is None:  # a hidden command, written beside the table
            return super().get_command(ctx, cmd_name)
        return place.promise(cmd_name)

    def resolve_command(
        self, ctx: Any, args: list[str]
    ) -> tuple[str | None, Any, list[str]]:
        """Load the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        longer = f"{name} {rest[0]}" if rest else ""
        if longer in self.places:  # such as "site doctor", beside "site"
            name, rest = longer, rest[1:]
        if name in self.places:
            command = self.places[name].load(name)
        return name, command, rest


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: parameters whose type is a dataclass.

    On the command line stands an option for each field; the command gets the group.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: p.annotation for name, p in own.items() if is_dataclass(p.annotation)
    }

    def shown() -> Iterator[inspect.Parameter]:
        for name, parameter in own.items():
            if name in groups:
                yield from _fields_as_options(groups[name])
            else:
                yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        command(**given)

    called.__signature__ = inspect.Signature(list(shown()))  # type: ignore[attr-defined]
    return called


def _fields_as_options(kind: Any) -> Iterator[inspect.Parameter]:
    types = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=types[field.name],
        )
