"""Figures 4, 10, 15, 16: exact quantiles, exact sums, and noise over eps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from discreet.published.xu2025.fedcurve import FedCurve
from papers.data import Data
from papers.figures import Figure, Series, Style
from papers.fits import each, geometric_mean
from papers.registry import Measured, Report, Runs
from papers.tables import Check, Table, check_ours, check_that, shown
from papers.xu2025.curves import (
    CURVES,
    exact_errors,
    our_errors,
    paper_errors,
    simulate_tree,
    summed_errors,
)
from papers.xu2025.over_sets import SETS, Model, figure_item, log_panels, sources

EPSILONS: Final = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
QUANTILES: Final = (32, 128, 1024)


def measure(model: Model, data: Data, rng: np.random.Generator) -> Measured:
    """Return area errors over eps at three Q, and of one flat histogram."""
    found = {}
    for name in SETS[model]:
        scored = data.scored(name)
        ours = np.array([our_errors(scored, e, rng) for e in EPSILONS])
        for q in QUANTILES:
            method = FedCurve(quantiles=q)
            trees = [simulate_tree(scored, method, e, rng) for e in EPSILONS]
            noisy = np.array([paper_errors(scored, method, tree) for tree in trees])
            references = {
                "EQ": exact_errors(scored, method),
                "SA": summed_errors(scored, method),
            }
            for c, curve in enumerate(CURVES):
                key = f"{name}/{curve}"
                found[f"{key}/DDP/{q}"] = noisy[:, c]
                for word, value in references.items():
                    found[f"{key}/{word}/{q}"] = value[c : c + 1]
        for c, curve in enumerate(CURVES):
            found[f"{name}/{curve}/ours"] = ours[:, c]
    return found


def report(model: Model, first: str, data: Data, runs: Runs) -> Report:
    """Show errors over eps with the two references."""
    picked = [EPSILONS.index(e) for e in (0.1, 0.3, 1.0, 3.0, 10.0)]
    rows = []
    for name in SETS[model]:
        for curve in CURVES:
            key = f"{name}/{curve}"
            for q in QUANTILES:
                exact, summed = (
                    float(runs.mean(f"{key}/{word}/{q}")[0]) for word in ("EQ", "SA")
                )
                noisy = runs.mean(f"{key}/DDP/{q}")
                cells = [float(noisy[k]) for k in picked]
                rows.append((name, curve, f"Q = {q}", exact, summed, *cells))
            ours = runs.mean(f"{key}/ours")
            cells = [float(ours[k]) for k in picked]
            rows.append((name, curve, "ours", np.nan, np.nan, *cells))
    return Report(
        (
            Table(
                first,
                f"Area error over eps, {len(runs)} runs",
                (
                    *("data", "curve", "method", "EQ", "SA"),
                    *(f"eps {EPSILONS[k]:g}" for k in picked),
                ),
                tuple(rows),
            ),
        ),
        _checks(model, runs),
        tuple(_figure(model, curve, first, runs) for curve in CURVES),
        sources(model, data),
    )


def _checks(model: Model, runs: Runs) -> tuple[Check, ...]:
    at_one = EPSILONS.index(1.0)
    small, large = SETS[model][0], SETS[model][2]
    rising = all(
        float(runs.mean(f"{name}/{c}/DDP/1024")[0])
        > float(runs.mean(f"{name}/{c}/DDP/1024")[at_one])
        > float(runs.mean(f"{name}/{c}/DDP/1024")[-1])
        for name in SETS[model]
        for c in CURVES
    )
    strong = {
        name: float(runs.mean(f"{name}/ROC/DDP/128")[at_one]) for name in SETS[model]
    }
    noise = {
        name: float(runs.mean(f"{name}/ROC/DDP/1024")[at_one])
        for name in (small, large)
    }
    gaps = {
        name: float(
            runs.mean(f"{name}/ROC/SA/1024")[0] / runs.mean(f"{name}/ROC/EQ/1024")[0]
        )
        for name in SETS[model]
    }
    ratios = []
    for name in SETS[model]:
        for c in CURVES:
            best = np.min([runs.mean(f"{name}/{c}/DDP/{q}") for q in QUANTILES], axis=0)
            ratios.append((runs.mean(f"{name}/{c}/ours") / best)[: at_one + 1])
    mean = geometric_mean(np.concatenate(ratios))
    return (
        check_that(
            "a smaller eps has a larger error",
            rising,
            paper="smaller eps, higher area error",
            ours="eps .1, 1, 10: falls on every set and curve (Q = 1024)",
            reason="not where Q is the larger error",
        ),
        check_that(
            "the error stays low at eps <= 1",
            max(strong.values()) < 5e-3,
            paper="ROC often close to 1e-3 at Q of about 100",
            ours=each(strong),
            better=each(
                {n: float(runs.mean(f"{n}/ROC/ours")[at_one]) for n in SETS[model]}
            ),
        ),
        check_that(
            "a larger set has less error from noise",
            noise[large] < noise[small],
            paper="Cover is smaller by 1/(n eps)",
            ours=each(noise) + " at Q = 1024, eps 1",
        ),
        check_that(
            "SA is further from EQ on Cover than on the others",
            gaps[large] > max(v for n, v in gaps.items() if n != large),
            paper="noticeable on Cover, negligible on Adult and Bank",
            ours="SA / EQ at Q = 1024: " + each(gaps),
            reason="the gap is the leaf width 1/(4Q) beside how densely scores crowd "
            "at the ends, which is the model's doing and not the set's: the same "
            "set has it under another model's scores",
        ),
        check_ours(
            "one flat histogram beats the tree at the best of three Q, eps <= 1",
            mean < 0.7,
            ours=f"geometric mean of the ratios {shown(mean)}",
        ),
    )


def _figure(model: Model, curve: str, first: str, runs: Runs) -> Figure:
    x = np.array(EPSILONS)
    styles: tuple[tuple[str, Style], ...] = (("EQ", "dotted"), ("SA", "dashed"))

    def lines(name: str) -> Iterator[Series]:
        key = f"{name}/{curve}"
        for k, q in enumerate(QUANTILES):
            yield Series(x, runs.mean(f"{key}/DDP/{q}"), f"Q {q}", "line", k)
            for word, style in styles:
                level = np.full(2, runs.mean(f"{key}/{word}/{q}")[0])
                yield Series(x[[0, -1]], level, "", style, k)
        yield Series(x, runs.mean(f"{key}/ours"), "ours", "line", 6)

    title = f"Xu 2025, {first}: {curve}; dotted: exact quantiles, dashed: exact sums"
    panels = log_panels(model, lines, "eps")
    return Figure(f"{first}-{curve.lower()}", title, panels)


_item: Final = partial(figure_item, "effect of eps", measure, report)
FIGURE_4: Final = _item("xgb", "figure-4", "figure-10")
FIGURE_15: Final = _item("lr", "figure-15", "figure-16")
