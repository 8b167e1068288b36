"""Figure 6: symmetric binormal curves from one private AUC."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.areas import area_error
from discreet.estimate.curves import Polyline
from discreet.published.boyd2015 import binormal_tpr
from papers.boyd2015.pool import Sample, simulate_ours, simulate_paper
from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_ours, check_that, shown

SIZE: Final = 1000
DRAWS: Final = 2000
SPREADS: Final = {"N(1, 1)": 1.0, "N(1, 0.5)": 0.5, "N(1, 1.5)": 1.5}
"""Standard deviations of the positives; negatives are N(0, 1)."""
PANELS: Final = (*SPREADS, "adult-lr")
GRID: Final = np.linspace(0.0, 1.0, 201)
LEVELS: Final = (0.025, 0.5, 0.975)


def sample(data: Data, name: str) -> Sample:
    """Return the one data set of a panel."""
    rng = np.random.default_rng([6, PANELS.index(name)])
    if name in SPREADS:
        return Sample(rng.normal(1.0, SPREADS[name], SIZE), rng.normal(0.0, 1.0, SIZE))
    return Sample.draw(data.scored(name), SIZE, SIZE, rng)


def roc(rows: Sample) -> Polyline:
    """Return the data set's own ROC curve."""
    cuts = np.sort(np.append(rows.positives, rows.negatives))[::-1]
    p, n = np.sort(rows.positives), np.sort(rows.negatives)
    tpr = 1.0 - np.searchsorted(p, cuts) / p.size
    fpr = 1.0 - np.searchsorted(n, cuts) / n.size
    return Polyline(np.append(0.0, fpr), np.append(0.0, tpr))


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Draw private AUCs; each is a whole curve."""
    found = {}
    for name in PANELS:
        value = sample(data, name).value("AUC")
        counts = (SIZE, SIZE)
        papers = simulate_paper(
            value, "AUC", counts, epsilon="0.1", delta="0.01", draws=DRAWS, rng=rng
        )
        ours = simulate_ours(value, "AUC", counts, epsilon="0.1", draws=DRAWS, rng=rng)
        found[f"{name}/paper"] = np.quantile(papers, LEVELS)
        found[f"{name}/ours"] = np.quantile(ours, LEVELS)
    return found


def misfit(data: Data, name: str) -> float:
    """Return the area between a data set's ROC and the binormal one of its AUC."""
    rows = sample(data, name)
    curve = Polyline(GRID, binormal_tpr(rows.value("AUC"), GRID))
    return area_error(roc(rows), curve)


def report(data: Data, runs: Runs) -> Report:
    """Show the bands, and how far the symmetric form itself is off."""
    rows = []
    for name in PANELS:
        low, _, high = runs.mean(f"{name}/paper")
        own_low, _, own_high = runs.mean(f"{name}/ours")
        value = sample(data, name).value("AUC")
        rows.append(
            (
                name,
                value,
                misfit(data, name),
                float(low),
                float(high),
                float(own_low),
                float(own_high),
            )
        )
    off = {row[0]: row[2] for row in rows}
    width = float(np.mean([row[4] - row[3] for row in rows]))
    narrower = float(np.mean([row[6] - row[5] for row in rows]))
    return Report(
        (
            Table(
                "figure-6",
                "Binormal curves from a private AUC, n = m = 1000, eps .1",
                (
                    "positives",
                    "AUC",
                    "area to the binormal curve",
                    "paper 2.5%",
                    "paper 97.5%",
                    "weighted count 2.5%",
                    "weighted count 97.5%",
                ),
                tuple(rows),
            ),
        ),
        (
            check_that(
                "equal spreads: the form fits",
                off["N(1, 1)"] < 0.015,
                paper="the assumed form",
                ours=f"area {shown(off['N(1, 1)'])} at the exact AUC",
            ),
            check_that(
                "unequal spreads: it does not",
                min(off["N(1, 0.5)"], off["N(1, 1.5)"]) > 1.5 * off["N(1, 1)"],
                paper="two misspecifications",
                ours=f"{shown(off['N(1, 0.5)'])} and {shown(off['N(1, 1.5)'])}",
                better="the noisy histogram's curve, which follows any shape",
            ),
            check_that(
                "adult is fitted well",
                off["adult-lr"] < 0.02,
                paper="a good approximation",
                ours=f"area {shown(off['adult-lr'])}",
            ),
            check_ours(
                "the weighted count's band is narrower, without delta",
                narrower < width,
                ours=f"95% band of AUC {shown(width)} wide",
                better=f"{shown(narrower)} (weighted count, delta 0)",
            ),
        ),
        (_figure(data, runs),),
        (
            data.scored("adult-lr").source,
            "The second parameter of N(1, .) is taken as a standard deviation.",
        ),
    )


def _curve(auc: float) -> FloatVector:
    return binormal_tpr(auc, GRID)


def _figure(data: Data, runs: Runs) -> Figure:
    panels = []
    for name in PANELS:
        low, middle, high = (float(v) for v in runs.mean(f"{name}/paper"))
        own_low, _, own_high = (float(v) for v in runs.mean(f"{name}/ours"))
        truth = roc(sample(data, name))
        panels.append(
            Panel(
                name,
                (
                    Series(GRID, _curve(high), low=_curve(low)),
                    Series(GRID, _curve(middle), "paper: median, 95% band", "step", 0),
                    Series(GRID, _curve(own_low), "weighted count, 95%", "dotted", 1),
                    Series(GRID, _curve(own_high), "", "dotted", 1),
                    Series(truth.x, truth.y, "true", "step", 6),
                ),
                "false positive rate",
                "true positive rate",
            )
        )
    return Figure("figure-6", "Boyd 2015, figure 6: eps .1", tuple(panels), across=4)


FIGURE_6: Final = Item(
    "figure-6",
    "Figure 6: symmetric binormal curves",
    measure,
    report,
    needs=("adult-lr",),
    runs=10,
)
