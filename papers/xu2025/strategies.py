"""Figures 5 and 17: the denominator of precision, separate or combined."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, get_args

import numpy as np

from discreet.published.xu2025.fedcurve import FedCurve, Strategy
from papers.data import Data
from papers.figures import Figure, Series, Style
from papers.fits import geometric_mean
from papers.registry import Measured, Report, Runs
from papers.tables import Table, check_that, shown
from papers.xu2025.curves import QUANTILES, paper_errors, simulate_tree, summed_errors
from papers.xu2025.over_sets import (
    EPSILONS,
    LEVELS,
    SETS,
    Model,
    figure_item,
    log_panels,
    sources,
)

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)


def measure(model: Model, data: Data, rng: np.random.Generator) -> Measured:
    """Return PR area errors; both strategies read the same release."""
    found = {}
    for name in SETS[model]:
        scored = data.scored(name)
        methods = {
            s: [FedCurve(quantiles=q, strategy=s) for q in QUANTILES]
            for s in STRATEGIES
        }
        for s in STRATEGIES:
            exact = [summed_errors(scored, m)[1] for m in methods[s]]
            found[f"{name}/SA/{s}"] = np.array(exact)
        for epsilon in EPSILONS:
            trees = [
                simulate_tree(scored, FedCurve(quantiles=q), epsilon, rng)
                for q in QUANTILES
            ]
            for s in STRATEGIES:
                noisy = [
                    paper_errors(scored, method, tree)[1]
                    for method, tree in zip(methods[s], trees, strict=True)
                ]
                found[f"{name}/eps={epsilon:g}/{s}"] = np.array(noisy)
    return found


def report(model: Model, first: str, data: Data, runs: Runs) -> Report:
    """Show both strategies over Q."""
    cells = [f"{name}/{level}" for name in SETS[model] for level in LEVELS]
    picked = [QUANTILES.index(q) for q in (16, 128, 1024)]
    rows: list[tuple[str | float, ...]] = [
        (*cell.split("/"), s, *(float(runs.mean(f"{cell}/{s}")[k]) for k in picked))
        for cell in cells
        for s in STRATEGIES
    ]
    ratios = [runs.mean(f"{c}/combine") / runs.mean(f"{c}/separate") for c in cells]
    means = [geometric_mean(r) for r in ratios]
    return Report(
        (
            Table(
                first,
                f"Area error of the PR curve, {len(runs)} runs",
                ("data", "privacy", "strategy", "Q 16", "Q 128", "Q 1024"),
                tuple(rows),
            ),
        ),
        (
            check_that(
                "separate has the lower area error",
                min(means) > 1.0,
                paper="consistently lower and more stable",
                ours=f"combine / separate {shown(min(means))} to {shown(max(means))} "
                "(means over Q)",
                better="no quantiles at all: precision from the two classes' counts",
                reason="it is lower in most cells and on average, not in all: where "
                "leaves are the larger error, both share them",
            ),
        ),
        (_figure(model, first, runs),),
        sources(model, data),
    )


def _figure(model: Model, first: str, runs: Runs) -> Figure:
    x = np.array(QUANTILES, dtype=np.float64)
    styles: tuple[tuple[Strategy, Style], ...]
    styles = (("separate", "line"), ("combine", "dashed"))

    def lines(name: str) -> Iterator[Series]:
        for k, level in enumerate(LEVELS):
            for s, style in styles:
                found = runs.mean(f"{name}/{level}/{s}")
                yield Series(x, found, f"{level}, {s}", style, k)

    panels = log_panels(model, lines, "quantiles Q")
    return Figure(first, f"Xu 2025, {first}: strategies for PR", panels)


_item: Final = partial(figure_item, "separate and combine", measure, report)
FIGURE_5: Final = _item("xgb", "figure-5")
FIGURE_17: Final = _item("lr", "figure-17")
