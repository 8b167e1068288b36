r"""Table 1: the bounds as measured slopes, with Theorem 5 corrected.

Equal classes, binormal scores of AUC .8, buckets at the exact quantiles. The bounds are
upper ones, so a measured slope may be steeper; where it is shallower, the bound is
wrong.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.published.cormode2023 import (
    BucketRule,
    EquiDepth,
    auc_noise_variance,
    histogram_auc,
)
from papers.cormode2023.models import (
    rates,
    simulate_local_cells,
    simulate_tree,
)
from papers.data import Data, Facts, Scored, simulate_binormal
from papers.figures import Figure, Panel, Series
from papers.fits import slope
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Check, Table, check_number, check_that, shown

BUCKETS: Final = (8, 16, 32, 64, 128, 256)
FEW_BUCKETS: Final = (4, 8, 16, 32)
NOISE_BUCKETS: Final = (8, 32, 128, 512, 2048)
SIZES: Final = (3_000, 10_000, 30_000, 100_000, 300_000)
ROWS: Final = 300_000
REPEATS: Final = 40
"""Draws of cheap noise in one run."""
LOCAL: Final = Fraction(1)


def population(rows: int, rng: np.random.Generator) -> Scored:
    """Draw equal classes with an AUC of .8, calibrated."""
    scores, labels = simulate_binormal(Facts(rows, 0.5, 0.8), rng)
    order = np.argsort(scores)
    return Scored("binormal", scores[order], labels[order], simulated=True)


def equal_buckets(data: Scored, buckets: int) -> tuple[IntVector, IntVector]:
    """Count negatives and positives in buckets of equal depth (sorted scores)."""
    place = np.arange(data.labels.size) * buckets // data.labels.size
    positives = np.bincount(place, data.labels, buckets).astype(np.int64)
    return np.bincount(place, minlength=buckets) - positives, positives


def rate_error(
    data: Scored, noisy: tuple[FloatVector, FloatVector], ranks: IntVector
) -> float:
    """Return the mean error of the three rates at thresholds given as ranks."""
    n, p = noisy
    buckets, rows = p.size, data.labels.size
    cut = np.rint(ranks * buckets / rows).astype(np.intp)
    tp, fp = (np.append(np.cumsum(c[::-1])[::-1], 0.0)[cut] for c in (p, n))
    found = rates(tp, fp, max(float(p.sum()), 1.0), max(float(n.sum()), 1.0))
    below = np.append(0, np.cumsum(data.labels))[ranks]
    whole = float(data.labels.sum())
    true_tp = whole - below
    true_fp = rows - ranks - true_tp
    right = rates(
        true_tp.astype(np.float64), true_fp.astype(np.float64), whole, rows - whole
    )
    return float(np.abs(found - right).mean())


def thresholds(data: Scored, rng: np.random.Generator) -> IntVector:
    """Draw thresholds as ranks in the middle of the scores."""
    rows = data.labels.size
    return rng.integers(rows // 10, rows * 9 // 10, 200)


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Return the errors behind every cell of the table."""
    large = population(data.rows(ROWS), rng)
    found = _over_buckets(large, rng) | _noise_over_buckets(large, rng)
    several = [population(data.rows(size), rng) for size in SIZES]
    found["rates/DistDP"] = np.array([_dist_rates(s, rng) for s in several])
    found["rates/LocalDP"] = np.array([_local_rates(s, rng) for s in several])
    found["auc/DistDP/M"] = np.array([_dist_auc(s, 32, rng) for s in several])
    found["auc/LocalDP"] = np.array([_local_auc(s, rng) for s in several])
    for trust in ("Federated", "DistDP", "LocalDP"):
        found[f"ece/{trust}"] = np.array([_map_error(s, trust, rng) for s in several])
    return found


def _over_buckets(data: Scored, rng: np.random.Generator) -> dict[str, FloatVector]:
    ranks = thresholds(data, rng)
    exact = [
        tuple(c.astype(np.float64) for c in equal_buckets(data, b)) for b in BUCKETS
    ]
    return {
        "rates/Federated": np.array(
            [rate_error(data, (n, p), ranks) for n, p in exact]
        ),
        "auc/Federated": np.array(
            [
                abs(histogram_auc(*map(_floats, equal_buckets(data, b))) - data.auc)
                for b in FEW_BUCKETS
            ]
        ),
    }


def _floats(counts: IntVector) -> FloatVector:
    return counts.astype(np.float64)


def _noise_over_buckets(
    data: Scored, rng: np.random.Generator
) -> dict[str, FloatVector]:
    return {
        "auc/DistDP/B": np.array([_dist_auc(data, b, rng) for b in NOISE_BUCKETS]),
        "auc/DistDP/law": np.array([_corrected_law(data, b) for b in NOISE_BUCKETS]),
    }


def _corrected_law(data: Scored, buckets: int) -> float:
    n, p = equal_buckets(data, buckets)
    return auc_noise_variance(_floats(n), _floats(p), LaplaceNoise(1.0).variance)


def _dist_auc(data: Scored, buckets: int, rng: np.random.Generator) -> float:
    """Return the root mean square noise of equation 5 at eps 1."""
    n, p = map(_floats, equal_buckets(data, buckets))
    exact = histogram_auc(n, p)
    noise = simulate_discrete_laplace(1.0, (REPEATS, 2, buckets), rng)
    off = [histogram_auc(n + e[0], p + e[1]) - exact for e in noise]
    return float(np.sqrt(np.mean(np.square(off))))


def _dist_rates(data: Scored, rng: np.random.Generator) -> float:
    rows = data.labels.size
    buckets = BucketRule.RATES_DISTRIBUTED.buckets(rows, 1.0)
    n, p = map(_floats, equal_buckets(data, min(buckets, rows)))
    off = []
    for noise in simulate_discrete_laplace(1.0, (10, 2, n.size), rng):
        ranks = thresholds(data, rng)
        off.append(rate_error(data, (n + noise[0], p + noise[1]), ranks))
    return float(np.mean(off))


def _local_rates(data: Scored, rng: np.random.Generator) -> float:
    buckets = BucketRule.RATES_LOCAL.buckets(data.labels.size, float(LOCAL))
    off = []
    for _ in range(10):
        n, p = _local_counts(data, buckets, rng)
        off.append(rate_error(data, (n, p), thresholds(data, rng)))
    return float(np.mean(off))


def _local_counts(
    data: Scored, buckets: int, rng: np.random.Generator
) -> tuple[FloatVector, FloatVector]:
    cells = np.concatenate(equal_buckets(data, buckets))
    found, _ = simulate_local_cells(cells, rng, LOCAL)
    return found[:buckets], found[buckets:]


def _local_auc(data: Scored, rng: np.random.Generator) -> float:
    """Return the error on a tree of height 8 at eps 5, 20 buckets."""
    off = []
    for _ in range(3):
        tree = simulate_tree(data, "LocalDP", 8, rng)
        off.append(abs(EquiDepth.from_tree(tree, 20).auc - data.auc))
    return float(np.mean(off))


def _map_error(data: Scored, trust: str, rng: np.random.Generator) -> float:
    """Return E|c(s) - estimate| of a binned map; here c(s) = s, calibrated."""
    rows = data.labels.size
    rule = (
        BucketRule.CALIBRATION_LOCAL if trust == "LocalDP" else BucketRule.CALIBRATION
    )
    buckets = rule.buckets(rows, float(LOCAL))
    n, p = map(_floats, equal_buckets(data, buckets))
    if trust == "DistDP":
        noise = simulate_discrete_laplace(1.0, (2, buckets), rng)
        n, p = n + noise[0], p + noise[1]
    if trust == "LocalDP":
        n, p = _local_counts(data, buckets, rng)
    total = np.maximum(n + p, 1.0)
    rate = np.clip(p / total, 0.0, 1.0)
    place = np.arange(rows) * buckets // rows
    return float(np.abs(rate[place] - data.scores).mean())


def report(data: Data, runs: Runs) -> Report:
    """Show the table's exponents beside the measured slopes."""
    m = np.array([data.rows(size) for size in SIZES], dtype=np.float64)
    b, few, many = (np.array(v, float) for v in (BUCKETS, FEW_BUCKETS, NOISE_BUCKETS))
    cells = (
        ("precision, recall, accuracy", "Federated", "B", -1.0, b, "rates/Federated"),
        ("precision, recall, accuracy", "DistDP", "M", -2 / 3, m, "rates/DistDP"),
        ("precision, recall, accuracy", "LocalDP", "M", -1 / 3, m, "rates/LocalDP"),
        ("AUC", "Federated", "B", -2.0, few, "auc/Federated"),
        ("AUC, noise", "DistDP", "M", -1.0, m, "auc/DistDP/M"),
        ("AUC, noise", "DistDP", "B", 0.0, many, "auc/DistDP/B"),
        ("AUC", "LocalDP", "M", -0.5, m, "auc/LocalDP"),
        ("calibration", "Federated", "M", -1 / 3, m, "ece/Federated"),
        ("calibration", "DistDP", "M", -1 / 3, m, "ece/DistDP"),
        ("calibration", "LocalDP", "M", -0.25, m, "ece/LocalDP"),
    )
    rows, checks = [], []
    for what, trust, over, exponent, x, key in cells:
        found, error = _slope(x, runs, key)
        rows.append((what, trust, over, exponent, found, error))
        if over == "B" and trust == "DistDP":
            checks.append(_theorem_5(found, many, runs))
        else:
            checks.append(
                check_number(
                    f"{what}, {trust}: slope in {over}",
                    paper=exponent,
                    ours=found,
                    error=error,
                    tolerance=0.12,
                    reason="steeper than the bound, which it may be"
                    if found < exponent
                    else "shallower over these sizes: the second term of the bound, "
                    "which the simplified table leaves out, is still visible",
                )
            )
    factor = runs.mean("auc/DistDP/B") * data.rows(ROWS) / np.sqrt(many)
    noise = np.sqrt(runs.mean("auc/DistDP/law")) * data.rows(ROWS) / np.sqrt(many)
    return Report(
        (
            Table(
                "table-1",
                f"Slopes of log error, {len(runs)} runs",
                ("metric", "model", "over", "paper", "measured", "standard error"),
                tuple(rows),
            ),
            Table(
                "table-1-theorem-5",
                "AUC noise x eps M / sqrt(B), P = N, eps 1: constant in B",
                ("B", "measured", "corrected formula"),
                tuple(
                    (int(k), float(f), float(w))
                    for k, f, w in zip(many, factor, noise, strict=True)
                ),
            ),
        ),
        tuple(checks),
        (_figure(runs, m, many),),
        (
            f"Stand-in: binormal scores, AUC .8, up to {data.rows(ROWS):,} examples.",
            "LocalDP at eps 1; its AUC at eps 5 on a tree of height 8.",
        ),
    )


def _slope(x: FloatVector, runs: Runs, key: str) -> tuple[float, float]:
    """Return the slope of the mean, and its standard error by leaving runs out."""
    whole = slope(x, runs.mean(key))
    if len(runs) < 3:
        return whole, float("nan")
    table = runs.all(key)
    left = [
        slope(x, np.delete(table, k, axis=0).mean(axis=0)) for k in range(len(runs))
    ]
    n = len(runs)
    return whole, float(np.sqrt((n - 1) * np.var(left)))


def _theorem_5(found: float, many: FloatVector, runs: Runs) -> Check:
    first, last = runs.mean("auc/DistDP/B")[[0, -1]]
    return check_that(
        "AUC, DistDP: noise does not grow with B (Theorem 5)",
        found < 0.1,
        paper="O(1/(eps M)) at any B",
        ours=f"slope {shown(found)}: {shown(float(last / first))} times from B = "
        f"{many[0]:g} to {many[-1]:g}",
        better="O(1/B^2 + sqrt(B)/(eps M)); few bins with PCHIP inside them",
        wrong=True,
        reason="the proof adds variances of the products p_i n_j and drops their "
        "covariances: all products of a row share p_i, so noise grows like sqrt(B)",
    )


def _figure(runs: Runs, m: FloatVector, many: FloatVector) -> Figure:
    noise = runs.mean("auc/DistDP/B")
    distribution = np.sqrt(runs.mean("auc/DistDP/law"))
    over_b = Panel(
        "AUC noise, DistDP",
        (
            Series(many, noise, "measured", "line", 0),
            Series(many, distribution, "corrected formula", "dashed", 1),
            Series(many, np.full(many.size, noise[0]), "Theorem 5", "dotted", 6),
        ),
        "buckets B",
        "root mean square",
        "log",
        "log",
    )
    over_m = [
        Panel(
            title,
            tuple(
                Series(m, runs.mean(f"{key}/{t}"), t, "line", k)
                for k, t in enumerate(words)
            ),
            "examples M",
            "error",
            "log",
            "log",
        )
        for title, key, words in (
            ("precision, recall, accuracy", "rates", ("DistDP", "LocalDP")),
            ("calibration", "ece", ("Federated", "DistDP", "LocalDP")),
        )
    ]
    return Figure("table-1", "Cormode 2023, table 1 as slopes", (over_b, *over_m))


TABLE_1: Final = Item("table-1", "Table 1: bounds as slopes", measure, report, runs=20)
