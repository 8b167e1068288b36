"""Figures 12 and 20: PR curves when positives are rare, beside 1/(Qr)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.published.xu2025.fedcurve import FedCurve
from papers.data import Data, Scored
from papers.figures import Figure, Series
from papers.fits import slope
from papers.registry import Measured, Report, Runs
from papers.tables import Table, check_that, shown
from papers.xu2025.curves import our_exact_errors, summed_errors
from papers.xu2025.over_sets import SETS, Model, figure_item, log_panels, sources

RATIOS: Final = (0.001, 0.003, 0.01, 0.03, 0.1)
QUANTILES: Final = (16, 64, 256, 1024)
_FEWEST: Final = 10
"""Positives below which there is no curve to speak of."""


def subsample(data: Scored, ratio: float, rng: np.random.Generator) -> Scored | None:
    """Keep all negatives and so many positives; None when there are too few."""
    count = round(ratio * data.negatives.size)
    if not _FEWEST <= count <= data.positives.size:
        return None
    chosen = rng.choice(data.positives, count, replace=False)
    scores = np.concatenate([data.negatives, chosen])
    labels = (np.arange(scores.size) >= data.negatives.size).astype(np.int64)
    return Scored(data.name, scores, labels, data.simulated)


def measure(model: Model, data: Data, rng: np.random.Generator) -> Measured:
    """Return the PR area error over r under exact sums."""
    found = {}
    for name in SETS[model]:
        rows = [subsample(data.scored(name), r, rng) for r in RATIOS]
        for q in QUANTILES:
            method = FedCurve(quantiles=q)
            # Not the cached functions: these sets are drawn anew in every run.
            papers, ours = summed_errors.__wrapped__, our_exact_errors.__wrapped__
            found[f"{name}/paper/{q}"] = np.array(
                [np.nan if s is None else papers(s, method)[1] for s in rows]
            )
            found[f"{name}/ours/{q}"] = np.array(
                [np.nan if s is None else ours(s, 4 * q)[1] for s in rows]
            )
    return found


def report(model: Model, first: str, data: Data, runs: Runs) -> Report:
    """Show errors over r, and their slope beside the bound's."""
    rows = []
    for name in SETS[model]:
        for q in QUANTILES:
            for who in ("paper", "ours"):
                found = runs.mean(f"{name}/{who}/{q}")
                rows.append((name, q, who, *(float(v) for v in found)))
            rows.append((name, q, "1/(Qr)", *(1 / (q * r) for r in RATIOS)))
    x = np.array(RATIOS)
    falls = [
        float(runs.mean(f"{name}/paper/{q}")[-1] / runs.mean(f"{name}/paper/{q}")[1])
        for name in SETS[model]
        for q in QUANTILES
    ]
    slopes = [
        slope(x, runs.mean(f"{name}/paper/{q}"))
        for name in SETS[model]
        for q in QUANTILES
    ]
    bounded = all(
        bool((np.nan_to_num(runs.mean(f"{n}/paper/{q}")) <= _bound(q, x)).all())
        for n in SETS[model]
        for q in QUANTILES
    )
    every = np.concatenate(
        [
            runs.mean(f"{n}/ours/{q}") / runs.mean(f"{n}/paper/{q}")
            for n in SETS[model]
            for q in QUANTILES
        ]
    )
    ratios = every[np.isfinite(every)]
    known = [f for f in falls if np.isfinite(f)]
    share = sum(f < 1.0 for f in known) / max(len(known), 1)
    return Report(
        (
            Table(
                first,
                f"Area error of the PR curve under exact sums, {len(runs)} subsamples",
                ("data", "Q", "who", *(f"r = {r:g}" for r in RATIOS)),
                tuple(rows),
            ),
        ),
        (
            check_that(
                "the error grows as r falls",
                share >= 0.6,
                paper="in most cases",
                ours=f"in {share:.0%} of the cells from r = .1 to .003; slopes "
                f"{shown(min(slopes))} to {shown(max(slopes))}, the bound's is -1",
                better=f"as many bins: {shown(float(ratios.min()))} to "
                f"{shown(float(ratios.max()))} times the error",
                reason="with few positives the true curve is nearly level, and "
                "any approximation of it is close",
            ),
            check_that(
                "Theorem 4.3 holds",
                bounded,
                paper="2a/r + (a/r) log(r/a), a = 1/Q, at most 1",
                ours="every cell is below it",
            ),
        ),
        (_figure(model, first, runs),),
        sources(model, data),
    )


def _bound(q: int, ratio: FloatVector) -> FloatVector:
    """Return equation 50 with alpha = 1/Q, cut at 1."""
    scaled = 1.0 / (q * ratio)
    return np.asarray(
        np.minimum(2 * scaled + scaled * np.log(np.maximum(1 / scaled, 1.0)), 1.0)
    )


def _figure(model: Model, first: str, runs: Runs) -> Figure:
    x = np.array(RATIOS)

    def lines(name: str) -> Iterator[Series]:
        for k, q in enumerate(QUANTILES):
            yield Series(x, runs.mean(f"{name}/paper/{q}"), f"Q {q}", "line", k)
            yield Series(x, runs.mean(f"{name}/ours/{q}"), "", "dashed", k)
            yield Series(x, np.minimum(1 / (q * x), 1.0), "", "dotted", k)

    panels = log_panels(model, lines, "positives / negatives")
    return Figure(first, f"Xu 2025, {first}: dashed ours, dotted 1/(Qr)", panels)


_item: Final = partial(figure_item, "rare positives", measure, report)
FIGURE_12: Final = _item("xgb", "figure-12")
FIGURE_20: Final = _item("lr", "figure-20")
