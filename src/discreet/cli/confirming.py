"""What is odd about a site's own rows, confirmed by its operator or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, TypeAlias

import typer

Confirmed: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--confirmed",
        help="This site's own rows are right, although their prevalence is far from the "
        "plan's or their AUC below one half.",
    ),
]


def asking(confirmed: bool) -> Callable[[str], bool]:
    """Return what asks the operator: the option, or a question on a terminal."""

    def agrees(text: str) -> bool:
        if confirmed:
            return True
        if not sys.stdin.isatty():
            return False
        typer.echo(text, err=True)
        return typer.confirm("Are these the rows that you mean?", err=True)

    return agrees
