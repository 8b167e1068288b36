"""Theorems 4.2 to 4.5: the bounds as measured slopes."""

from __future__ import annotations

from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.published.xu2025.fedcurve import FedCurve
from papers.data import Data, Facts, Scored, simulate_binormal
from papers.figures import Figure, Panel, Series
from papers.fits import slope
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Table, check_that, shown
from papers.xu2025.curves import (
    CURVES,
    exact_errors,
    our_errors,
    paper_errors,
    simulate_tree,
    summed_errors,
)

QUANTILES: Final = (8, 16, 32, 64, 128, 256)
SIZES: Final = (3_000, 10_000, 30_000, 100_000, 300_000)
EPSILONS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ROWS: Final = 200_000
NOISY_Q: Final = 256


def population(data: Data, rows: int, rng: np.random.Generator) -> Scored:
    """Draw a smooth, mildly imbalanced set: binormal, 30% positive, AUC .85."""
    scores, labels = simulate_binormal(Facts(data.rows(rows), 0.3, 0.85), rng)
    return Scored("binormal", scores, labels, simulated=True)


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Return errors over Q without noise, and over M and eps with it."""
    found: dict[str, FloatVector] = {}
    large = population(data, ROWS, rng)
    methods = [FedCurve(quantiles=q) for q in QUANTILES]
    exact = np.array([exact_errors.__wrapped__(large, m) for m in methods])
    summed = np.array([summed_errors.__wrapped__(large, m) for m in methods])
    noisy = FedCurve(quantiles=NOISY_Q)
    over_m, our_m = [], []
    for size in SIZES:
        scored = population(data, size, rng)
        tree = simulate_tree(scored, noisy, 0.3, rng)
        over_m.append(paper_errors(scored, noisy, tree))
        our_m.append(our_errors(scored, 0.3, rng))
    middle = population(data, 30_000, rng)
    over_eps = [
        paper_errors(middle, noisy, simulate_tree(middle, noisy, e, rng))
        for e in EPSILONS
    ]
    for c, curve in enumerate(CURVES):
        found[f"{curve}/EQ"] = exact[:, c]
        found[f"{curve}/SA"] = summed[:, c]
        found[f"{curve}/M"] = np.array(over_m)[:, c]
        found[f"{curve}/M/ours"] = np.array(our_m)[:, c]
        found[f"{curve}/eps"] = np.array(over_eps)[:, c]
    return found


def report(data: Data, runs: Runs) -> Report:
    """Show the slopes beside the bounds' exponents."""
    del data
    q, m, e = (np.array(v, dtype=np.float64) for v in (QUANTILES, SIZES, EPSILONS))
    slopes = {
        (curve, word): slope(x, runs.mean(f"{curve}/{word}"))
        for curve in CURVES
        for word, x in (("EQ", q), ("SA", q), ("M", m), ("eps", e))
    }
    ours = slope(m, runs.mean("ROC/M/ours"))
    roc, pr = runs.mean("ROC/EQ"), runs.mean("PR/EQ")
    bound = 1 / (q - 1)
    pr_bound = (2 + np.log(q)) / q
    rows = [
        (
            {"EQ": "4.2, 4.3", "SA": "4.4", "M": "4.5", "eps": "4.5"}[word],
            curve,
            {"EQ": "Q, exact quantiles", "SA": "Q, exact sums"}.get(word, word),
            -1.0,
            found,
        )
        for (curve, word), found in slopes.items()
    ]
    noise = [slopes[c, w] for c in CURVES for w in ("M", "eps")]
    return Report(
        (
            Table(
                "theorems",
                f"Slope of log error, {len(runs)} runs, binormal scores",
                ("theorem", "curve", "over", "bound", "measured"),
                tuple(rows),
            ),
            Table(
                "theorems-bounds",
                "Errors with exact quantiles beside equation 12 and equation 33",
                ("Q", "ROC", "1/(Q-1)", "PR", "(2 + log Q)/Q"),
                tuple(
                    (int(k), float(a), float(b), float(c), float(d))
                    for k, a, b, c, d in zip(q, roc, bound, pr, pr_bound, strict=True)
                ),
            ),
        ),
        (
            check_that(
                "Theorem 4.2: ROC error at most 1/(Q-1)",
                bool((roc <= bound).all()),
                paper="O(1/Q), equation 12",
                ours=f"holds, slope {shown(slopes['ROC', 'EQ'])}: far below",
                better="smooth scores: PCHIP gains further powers of Q until the "
                "sample's own roughness stops it",
            ),
            check_that(
                "Theorem 4.3: PR error at most (2 + log Q)/Q",
                bool((pr <= pr_bound).all()),
                paper="O(log Q/Q), equation 33",
                ours=f"holds, slope {shown(slopes['PR', 'EQ'])}",
            ),
            check_that(
                "Theorem 4.4: exact sums fall at least like 1/Q",
                max(slopes["ROC", "SA"], slopes["PR", "SA"]) < -0.7,
                paper="O(1/Q)",
                ours=f"slopes {shown(slopes['ROC', 'SA'])}, {shown(slopes['PR', 'SA'])}",
            ),
            check_that(
                "Theorem 4.5: noise falls like 1/(n eps)",
                all(-1.25 < s < -0.6 for s in noise),
                paper="slope -1 in n and in eps",
                ours=", ".join(shown(s) for s in noise) + f" at Q = {NOISY_Q}",
                better=f"flat histogram over n: {shown(ours)}, from a lower level",
                reason="the slope flattens where 1/Q takes over",
            ),
        ),
        (_figure(runs, q, m),),
    )


def _figure(runs: Runs, q: FloatVector, m: FloatVector) -> Figure:
    over_q = [
        Series(
            q, runs.mean(f"{c}/{w}"), f"{c}, {w}", "line" if w == "EQ" else "dashed", k
        )
        for k, c in enumerate(CURVES)
        for w in ("EQ", "SA")
    ]
    over_q.append(Series(q, 1 / (q - 1), "1/(Q-1)", "dotted", 6))
    over_m = [
        Series(m, runs.mean(f"{c}/M"), f"{c}, tree, Q {NOISY_Q}", "line", k)
        for k, c in enumerate(CURVES)
    ]
    over_m += [
        Series(m, runs.mean(f"{c}/M/ours"), f"{c}, flat", "dashed", k)
        for k, c in enumerate(CURVES)
    ]
    guide = runs.mean("ROC/M")[0] * m[0] / m
    over_m.append(Series(m, guide, "1/n", "dotted", 6))
    return Figure(
        "theorems",
        "Xu 2025, theorems 4.2 to 4.5 as slopes",
        (
            Panel("without noise", tuple(over_q), "Q", "area error", "log", "log"),
            Panel("eps .3", tuple(over_m), "examples", "area error", "log", "log"),
        ),
    )


THEOREMS: Final = Item(
    "theorems", "Theorems 4.2 to 4.5: slopes", measure, report, runs=10
)
