"""Figure 4: what private releases of one data set look like."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from papers.boyd2015.pool import (
    METRICS,
    Metric,
    Sample,
    simulate_ours,
    simulate_paper,
)
from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_that, shown

SIZES: Final = (100, 1000)
DRAWS: Final = 2000
PAPER_AP: Final = 0.75
BINS: Final = np.linspace(0.0, 1.0, 51)


def sample(data: Data, size: int) -> Sample:
    """Return the one private data set that all releases are made from.

    Of 40 draws the one whose average precision is nearest to the paper's.
    """
    rng = np.random.default_rng([4, size])
    pool = data.scored("diabetes")
    drawn = [Sample.draw(pool, size, size, rng) for _ in range(40)]
    return min(drawn, key=lambda rows: abs(rows.value("AP") - PAPER_AP))


def histogram(values: FloatVector) -> FloatVector:
    """Return shares in 50 bins of 0 .. 1."""
    return np.histogram(values, BINS)[0] / values.size


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Draw 2,000 releases of each kind."""
    found = {}
    for size in SIZES:
        rows = sample(data, size)
        for metric in METRICS:
            value, counts = rows.value(metric), (size, size)
            drawn = {
                "paper": simulate_paper(
                    value,
                    metric,
                    counts,
                    epsilon="1",
                    delta="0.01",
                    draws=DRAWS,
                    rng=rng,
                ),
                "ours": simulate_ours(
                    value, metric, counts, epsilon="1", draws=DRAWS, rng=rng
                ),
            }
            for who, values in drawn.items():
                key = f"{metric}/{size}/{who}"
                found[key] = histogram(values)
                found[f"{key}/error"] = np.array([np.abs(values - value).mean()])
                found[f"{key}/cut"] = np.array([(values >= 1.0).mean()])
    return found


def report(data: Data, runs: Runs) -> Report:
    """Show the histograms, their spread and how much is cut at 1."""
    rows = []
    panels = []
    for metric in METRICS:
        for size in SIZES:
            value = sample(data, size).value(metric)
            for who in ("paper", "ours"):
                key = f"{metric}/{size}/{who}"
                error = float(runs.mean(f"{key}/error")[0])
                cut = float(runs.mean(f"{key}/cut")[0])
                rows.append((metric, size, who, value, error, cut))
            panels.append(_panel(runs, metric, size, value))
    at_one = float(runs.mean("AP/100/paper/cut")[0])
    modes = {size: _mode(runs.mean(f"AP/{size}/paper")) for size in SIZES}
    value = sample(data, 100).value("AP")
    errors = {size: float(runs.mean(f"AUC/{size}/paper/error")[0]) for size in SIZES}
    better = {size: float(runs.mean(f"AUC/{size}/ours/error")[0]) for size in SIZES}
    return Report(
        (
            Table(
                "figure-4",
                f"Releases of one data set, n = m, {DRAWS * len(runs):,} of each kind",
                ("metric", "n", "who", "true", "mean error", "cut at 1"),
                tuple(rows),
            ),
        ),
        (
            check_that(
                "AP, n = 100: the mode is 1",
                modes[100] > 0.98,
                paper="mode at 1 by cutting, true AP about .75",
                ours=f"mode in [{modes[100] - 0.02:.2f}, {modes[100]:.2f}], "
                f"{at_one:.0%} exactly at 1, true {shown(value)}",
                better=f"weighted count, eps 1, no delta: "
                f"{runs.mean('AP/100/ours/cut')[0]:.0%} at 1",
            ),
            check_that(
                "AUC, n = 1000: clustered tightly",
                errors[1000] < errors[100] / 5,
                paper="far narrower than n = 100",
                ours=f"mean error {shown(errors[1000])} against {shown(errors[100])}",
                better=f"{shown(better[1000])} and {shown(better[100])}, without delta",
            ),
        ),
        (Figure("figure-4", "Boyd 2015, figure 4: eps 1", tuple(panels), across=2),),
        (
            data.scored("diabetes").source + ": the Kaggle set cannot be had any more.",
            "The paper's noise is (1, .01)-DP, ours 1-DP for the same unit.",
        ),
    )


def _mode(shares: FloatVector) -> float:
    """Return the upper end of the fullest bin."""
    return float(BINS[int(np.argmax(shares)) + 1])


def _panel(runs: Runs, metric: Metric, size: int, value: float) -> Panel:
    middle = (BINS[:-1] + BINS[1:]) / 2
    papers, ours = (runs.mean(f"{metric}/{size}/{who}") for who in ("paper", "ours"))
    top = max(float(papers.max()), float(ours.max()))
    return Panel(
        f"{metric}, n = m = {size}",
        (
            Series(middle, papers, "paper, delta .01", "bars", 0),
            Series(BINS, np.append(ours, 0.0), "weighted count", "step", 1),
            Series(np.full(2, value), np.array([0.0, top]), "true", "dotted", 6),
        ),
        "private output",
        "share of releases",
    )


FIGURE_4: Final = Item(
    "figure-4",
    "Figure 4: private outputs",
    measure,
    report,
    runs=10,
    needs=("diabetes",),
)
