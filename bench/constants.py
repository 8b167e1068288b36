"""What each fitted constant of the intervals does: coverage and width without it.

Where no theorem gives an interval, a constant was chosen by measurement. Here each of them
is replaced by its neutral value and by another one, and the same releases are asked again:
mean coverage (least) and median width of the metrics that it concerns, on held-out cells.

    python bench/constants.py [--repetitions 100] [--only TEXT] [--save]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from evidence import FITS, Evidence, Figure
from hard_coverage import Cell, Target, made, measure
from real_sets import real_sets

REAL: Final = ("affairs-bayes", "visits-10-forest", "death-5-years-logistic")
EXAMPLES: Final = 5_000
FEWEST: Final = 25


class Constant(NamedTuple):
    """A fitted constant, what it is for, and values to compare it with."""

    module: str
    name: str
    meaning: str
    others: tuple[float, ...]
    asked: tuple[str, ...]
    noise: tuple[str, ...] = ("1",)


AREAS: Final = ("auc", "average_precision")
CONSTANTS: Final = (
    Constant(
        "estimate.intervals",
        "_PRIOR_EXAMPLES",
        "examples by which DeLong's variance is drawn towards Newcombe's",
        (0.0, 20.0),
        ("auc",),
        ("exact", "1"),
    ),
    Constant(
        "metrics.ranking",
        "_POWER",
        "power of theta (1 - theta) in the variance of areas under the PR curve",
        (1.0, 2.0),
        ("average_precision",),
        ("exact", "1"),
    ),
    Constant(
        "metrics.errors",
        "_UNSEEN",
        "expected positives above all that were seen (Jeffreys' prior)",
        (0.0, 1.0),
        ("average_precision",),
        ("exact", "1"),
    ),
    Constant(
        "estimate.smooth_fit",
        "_MODEL_COST",
        "share of the distance to the flat fit that counts as the model's bias",
        (0.0, 1.0),
        (*AREAS, "brier"),
    ),
    Constant(
        "estimate.smooth_fit",
        "_END_COST",
        "the same for ties beyond the farthest edge",
        (0.0, 3.0),
        AREAS,
    ),
    Constant(
        "estimate.spline_model",
        "_COST",
        "evidence that a step of the model's floor or ceiling costs",
        (0.0, 1.0),
        AREAS,
    ),
    Constant(
        "estimate.fit",
        "_DECODED_COST",
        "share of the distance to the other decoding of arcs",
        (0.0, 2.0),
        AREAS,
        ("local",),
    ),
    Constant(
        "noise.arc_decoder",
        "INFLATION",
        "factor on the decoder's standard deviations",
        (1.0, 1.3),
        AREAS,
        ("local",),
    ),
    Constant(
        "metrics.calibration",
        "_BELOW",
        "share of the scatter that the model took off, at the lower end",
        (0.0, 0.5),
        ("ece",),
    ),
    Constant(
        "metrics.calibration",
        "_ABOVE",
        "the same at the upper end",
        (0.0, 0.5),
        ("ece",),
    ),
    Constant(
        "metrics.calibration",
        "_DRAWN",
        "share of what uneven bins may cost, where a model draws their shape",
        (0.0, 0.5),
        ("ece",),
    ),
    Constant(
        "metrics.calibration",
        "_LEANING",
        "the same where neighbouring bins say how they lean",
        (0.0, 1.0),
        ("ece",),
        ("exact",),
    ),
    Constant(
        "metrics.calibration",
        "_DECODED",
        "share of the scatter that decoded arcs still show",
        (0.0, 1.0),
        ("ece",),
        ("local",),
    ),
)


@contextmanager
def set_to(constant: Constant, value: float) -> Iterator[None]:
    """Give a constant another value for a while."""
    module = import_module(f"discreet.{constant.module}")
    before: Any = getattr(module, constant.name)
    setattr(module, constant.name, value)
    try:
        yield
    finally:
        setattr(module, constant.name, before)


def targets() -> list[Target]:
    real = (data for data in real_sets() if data.name in REAL)
    return [Target(data) for data in (*made(held_out=True), *real)]


def rows(
    constant: Constant, over: list[Target], repetitions: int
) -> Iterator[list[str | Figure]]:
    """Return one row a value and metric, the value in use first."""
    module = import_module(f"discreet.{constant.module}")
    used = float(getattr(module, constant.name))
    for value in (used, *constant.others):
        for noise in constant.noise:
            held: dict[str, list[tuple[float, float]]] = {}
            with set_to(constant, value):
                for target in over:
                    size = min(EXAMPLES, 2 * target.population.examples)
                    cell = Cell(target, size, noise, constant.asked)
                    for asked, tally in measure(cell, repetitions, 2026).items():
                        if len(tally.table) >= FEWEST and tally.usable >= 0.5:
                            pair = (tally.coverage, tally.width)
                            held.setdefault(asked, []).append(pair)
            for asked, pairs in held.items():
                covered, widths = np.array(pairs).T
                yield [
                    f"`{constant.name.lstrip('_').lower()}` = {value:.3g}"
                    + (" (in use)" if value == used else ""),
                    constant.meaning if value == used else "",
                    asked.replace("_", " "),
                    {"exact": "exact sums", "local": "`LocalDP(5)`"}.get(
                        noise, f"eps {noise}"
                    ),
                    Figure(len(pairs), digits=0),
                    f"{100 * covered.mean():.1f} ({100 * covered.min():.1f})",
                    Figure(float(np.median(widths))),
                ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--only", default="", help="constants whose name holds this")
    parser.add_argument("--most", type=int, help="populations")
    parser.add_argument("--save", action="store_true", help="into results/")
    chosen = parser.parse_args()
    over, table = targets()[: chosen.most], []
    for constant in CONSTANTS:
        if chosen.only in constant.name:
            for row in rows(constant, over, chosen.repetitions):
                print(*(f"{cell!s}" for cell in row), sep=" | ", flush=True)
                table.append(row)
    if chosen.save:
        evidence = Evidence(
            "constants",
            FITS,
            {"repetitions": chosen.repetitions, "examples": EXAMPLES},
        )
        columns = ("constant", "what it is", "asked", "noise", "cells")
        evidence.table("ablation", (*columns, "coverage (least)", "width"), table)
        evidence.save()


if __name__ == "__main__":
    main()
