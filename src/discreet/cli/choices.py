"""Options that several commands offer, in the same words."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer


class Unit(StrEnum):
    """Whom distributed differential privacy protects."""

    example = "example"
    subject = "subject"
    client = "client"


class Kind(StrEnum):
    """Kinds of scores."""

    probability = "probability"
    logit = "logit"
    other = "other"


Delta: TypeAlias = Annotated[
    str, typer.Option(help="0 for pure differential privacy, or a small number.")
]
UnitChoice: TypeAlias = Annotated[
    Unit, typer.Option(help="Who is protected, for distributed.")
]
MaxExamples: TypeAlias = Annotated[
    int | None, typer.Option(help="Most examples of one subject or client that count.")
]
MinSurvivors: TypeAlias = Annotated[
    int | None, typer.Option(help="Sites that must be in the sum; by default all.")
]
Colluders: TypeAlias = Annotated[
    int, typer.Option(help="Sites that may tell the coordinator their noise.")
]
Prevalence: TypeAlias = Annotated[
    float | None, typer.Option(help="Public: roughly which share of them is positive.")
]
Thresholds: TypeAlias = Annotated[
    list[float] | None,
    typer.Option(help="Decision threshold to report; repeat for more."),
]
Bins: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Number of warped bins; by default from the public facts."),
]
Classes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--class", help="A class of a multi-class problem; repeat for each."),
]
Groups: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--in-group", help="A declared group; repeat for each."),
]
KindOfScores: TypeAlias = Annotated[
    Kind, typer.Option(help="What the scores are; 'other' needs --low, --high.")
]
Low: TypeAlias = Annotated[
    float | None, typer.Option(help="Public lower limit of the scores.")
]
High: TypeAlias = Annotated[
    float | None, typer.Option(help="Public upper limit of the scores.")
]
Wide: TypeAlias = Annotated[
    bool, typer.Option("--wide", help="Print the interval of every rate.")
]
