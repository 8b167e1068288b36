"""The commands of ``discreet``, by who uses them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import typer

import discreet
from discreet.cli.entry import run
from discreet.cli.loading import LaterGroup, Place
from discreet.errors import InputError

_ANALYST: Final = "Analyst: whoever wants the numbers"
_SITE: Final = "Site: whoever holds data"
_COORDINATOR: Final = "Coordinator: whoever runs the session"
_REVIEWER: Final = "Reviewer: whoever signs for the privacy"


class _Commands(LaterGroup):
    """Every command, where it is written and who uses it."""

    places: ClassVar[dict[str, Place]] = {
        "demo": Place(
            "discreet.cli.demo:demo",
            "Measure a real model at twelve simulated hospitals that cannot pool data.",
            _ANALYST,
        ),
        "evaluate": Place(
            "discreet.cli.evaluate:evaluate",
            "Evaluate the pooled data of several files, as if they could not be "
            "pooled.",
            _ANALYST,
        ),
        "compare": Place(
            "discreet.cli.compare:compare",
            "Compare two models on the same examples of several files: one release.",
            _ANALYST,
        ),
        "plan": Place(
            "discreet.cli.plan:plan",
            "Choose a plan from public facts and predict its errors; no data is "
            "touched.",
            _ANALYST,
        ),
        "exact": Place(
            "discreet.mpc.commands:app",
            "Exact AUC, average precision and AUPR by three compute parties.",
            _ANALYST,
        ),
        "preview": Place(
            "discreet.cli.preview:preview",
            "Show what would leave this site: shapes, sizes, the claim, the charge.",
            _SITE,
        ),
        "query": Place(
            "discreet.cli.query:query",
            "Print the query that counts a plan's rows in a database, to run by hand.",
            _SITE,
        ),
        "site": Place(
            "discreet.cli.site:site",
            "Take part in a plan with this site's data, once.",
            _SITE,
        ),
        "site doctor": Place(
            "discreet.cli.site:doctor",
            "Look at everything that could fail when this site joins.",
            _SITE,
        ),
        "site own": Place(
            "discreet.cli.own:own",
            "Compare this site's own values with the opened result; nothing leaves.",
            _SITE,
        ),
        "keys": Place(
            "discreet.cli.keys:app",
            "Make, renew and trust keys; private halves stay where they are made.",
            _SITE,
        ),
        "ledger": Place(
            "discreet.cli.ledger:app",
            "Make and read a site's record of all that it gave away.",
            _SITE,
        ),
        "consortium": Place(
            "discreet.cli.keys:consortium",
            "Rehearse: make everybody's keys, certificates and policies in one place.",
            _COORDINATOR,
        ),
        "roster": Place(
            "discreet.cli.keys:roster",
            "Put the sites' public files into a plan's roster; print the fingerprints.",
            _COORDINATOR,
        ),
        "coordinate": Place(
            "discreet.cli.coordinate:coordinate",
            "Run a plan over the sites that connect, and print the evaluation.",
            _COORDINATOR,
        ),
        "coordinate doctor": Place(
            "discreet.cli.coordinate:doctor",
            "Look at everything that could fail when the coordinator starts.",
            _COORDINATOR,
        ),
        "verify": Place(
            "discreet.cli.verify:verify",
            "Compute a report again, compare every word and number, check who signed "
            "it.",
            _REVIEWER,
        ),
        "attack": Place(
            "discreet.cli.attack:app",
            "Show what a release gives away about one person.",
            _REVIEWER,
        ),
    }


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
    asked = " ".join(names or ["NAME"])
    raise InputError(
        f"the papers left the package: run python -m papers {asked} from a clone"
    )


def main() -> None:
    """Run the command line; see ``discreet.cli.entry`` for how it ends."""
    run(app)
