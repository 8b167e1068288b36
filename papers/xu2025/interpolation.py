"""Figures 3, 9, 13, 14: linear interpolation and PCHIP over the number of quantiles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, get_args

import numpy as np

from discreet.arrays import FloatVector
from discreet.estimate.curves import Interpolation
from discreet.published.xu2025.fedcurve import FedCurve
from papers.data import Data
from papers.figures import Figure, Series
from papers.fits import geometric_mean, slope
from papers.registry import Measured, Report, Runs
from papers.tables import Check, Table, check_ours, check_that, shown
from papers.xu2025.curves import (
    CURVES,
    QUANTILES,
    our_errors,
    our_exact_errors,
    paper_errors,
    simulate_tree,
    summed_errors,
)
from papers.xu2025.over_sets import (
    EPSILONS,
    LEVELS,
    SETS,
    Model,
    figure_item,
    log_panels,
    sources,
)

KINDS: Final[tuple[Interpolation, ...]] = get_args(Interpolation)


def measure(model: Model, data: Data, rng: np.random.Generator) -> Measured:
    """Return area errors over Q; both interpolations read the same release."""
    found = {}
    for name in SETS[model]:
        scored = data.scored(name)
        for kind in KINDS:
            methods = [FedCurve(quantiles=q, interpolation=kind) for q in QUANTILES]
            exact = np.array([summed_errors(scored, m) for m in methods])
            for c, curve in enumerate(CURVES):
                found[f"{name}/{curve}/SA/{kind}"] = exact[:, c]
        ours = np.array([our_exact_errors(scored, 4 * q) for q in QUANTILES])
        for c, curve in enumerate(CURVES):
            found[f"{name}/{curve}/SA/ours"] = ours[:, c]
        for epsilon in EPSILONS:
            both: dict[Interpolation, list[FloatVector]] = {k: [] for k in KINDS}
            for q in QUANTILES:
                tree = simulate_tree(scored, FedCurve(quantiles=q), epsilon, rng)
                for kind in KINDS:
                    method = FedCurve(quantiles=q, interpolation=kind)
                    both[kind].append(paper_errors(scored, method, tree))
            flat = our_errors(scored, epsilon, rng)
            for c, curve in enumerate(CURVES):
                key = f"{name}/{curve}/eps={epsilon:g}"
                for kind in KINDS:
                    found[f"{key}/{kind}"] = np.array(both[kind])[:, c]
                found[f"{key}/ours"] = np.array([flat[c]])
    return found


def report(model: Model, first: str, data: Data, runs: Runs) -> Report:
    """Show the curves over Q and check what the text reads off them."""
    shown_q = [QUANTILES.index(q) for q in (32, 128, 1024)]
    rows = []
    for name in SETS[model]:
        for curve in CURVES:
            for level in LEVELS:
                key = f"{name}/{curve}/{level}"
                ours = runs.mean(f"{key}/ours")
                for kind in KINDS:
                    found = runs.mean(f"{key}/{kind}")
                    cells = [float(found[k]) for k in shown_q]
                    rows.append((name, curve, level, kind, *cells, float(ours[-1])))
    return Report(
        (
            Table(
                first,
                f"Area error, {len(runs)} runs; ours: as many exact bins (SA, Q = 1024) "
                "or one flat histogram",
                ("data", "curve", "privacy", "join", "Q 32", "Q 128", "Q 1024", "ours"),
                tuple(rows),
            ),
        ),
        _checks(model, runs),
        tuple(_figure(model, curve, first, runs) for curve in CURVES),
        sources(model, data),
    )


def _checks(model: Model, runs: Runs) -> tuple[Check, ...]:
    cells = [
        f"{name}/{curve}/{level}"
        for name in SETS[model]
        for curve in CURVES
        for level in LEVELS
    ]
    ratios = [
        geometric_mean(runs.mean(f"{c}/pchip") / runs.mean(f"{c}/linear"))
        for c in cells
    ]
    exact = [
        slope(np.array(QUANTILES, float), runs.mean(f"{n}/{c}/SA/pchip"))
        for n in SETS[model]
        for c in CURVES
    ]
    flat = [
        float(runs.mean(f"{n}/ROC/eps=0.3/pchip")[-1])
        / float(runs.mean(f"{n}/ROC/eps=0.3/pchip")[3])
        for n in SETS[model][:2]
    ]
    noisy = [
        float(runs.mean(f"{c}/ours")[0] / runs.mean(f"{c}/pchip").min())
        for c in cells
        if "eps" in c
    ]
    sums = [
        geometric_mean(runs.mean(f"{c}/ours") / runs.mean(f"{c}/pchip"))
        for c in cells
        if c.endswith("SA")
    ]
    worst = max(ratios)
    return (
        check_that(
            "PCHIP is no worse than linear interpolation",
            worst < 1.03,
            paper="consistently better, sometimes by little",
            ours=f"ratio {shown(min(ratios))} to {shown(worst)}, mean over Q",
            reason=f"better in {sum(r < 1 for r in ratios)} of {len(ratios)} cells, not in "
            "all: where scores thin out at the top, a cubic through few quantiles bends "
            "the PR curve more than a straight line does",
        ),
        check_that(
            "SA: the error falls with Q",
            max(exact) < -0.5,
            paper="decreases as Q increases",
            ours=f"slopes {', '.join(shown(s) for s in exact)}",
            better=f"as many bins, PCHIP of T and F: {shown(geometric_mean(np.array(sums)))} "
            "times the error",
        ),
        check_that(
            "DDP: a plateau from noise",
            min(flat) > 0.6,
            paper="plateau in Q",
            note="it rises again: noise grows with the height of the tree",
            ours=f"eps .3, error at Q 1024 over Q 128: "
            f"{', '.join(shown(v) for v in flat)} (the two smaller sets)",
        ),
        check_ours(
            "one flat histogram beats the tree at its best Q",
            geometric_mean(np.array(noisy)) < 0.75,
            ours=f"ratio {shown(min(noisy))} to {shown(max(noisy))}, geometric mean "
            f"{shown(geometric_mean(np.array(noisy)))}",
            better="one histogram, whole eps, smooth model",
        ),
    )


def _figure(model: Model, curve: str, first: str, runs: Runs) -> Figure:
    x = np.array(QUANTILES, dtype=np.float64)

    def lines(name: str) -> Iterator[Series]:
        for k, level in enumerate(LEVELS):
            key = f"{name}/{curve}/{level}"
            ours = np.broadcast_to(runs.mean(f"{key}/ours"), x.shape)
            yield Series(x, runs.mean(f"{key}/pchip"), level, "line", k)
            yield Series(x, runs.mean(f"{key}/linear"), "", "dashed", k)
            yield Series(x, ours, "", "dotted", k)

    title = f"Xu 2025, {first}: {curve}; solid PCHIP, dashed linear, dotted ours"
    panels = log_panels(model, lines, "quantiles Q")
    return Figure(f"{first}-{curve.lower()}", title, panels)


_item: Final = partial(figure_item, "interpolation over Q", measure, report)
FIGURE_3: Final = _item("xgb", "figure-3", "figure-9")
FIGURE_13: Final = _item("lr", "figure-13", "figure-14")
