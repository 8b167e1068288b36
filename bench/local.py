"""Local privacy, one example a client: the arc randomiser beside the papers' way.

    python bench/local.py [--seeds 30] [--epsilons 1 2 5]

The papers' way is Cormode (2023), section 2.3: clients split over the levels of
a binary hierarchy of height 8 (the height that their figure 2 finds best under
local privacy), optimized unary encoding over class and segment, equi-depth
buckets by binary search on prefixes, equation 5. Its number of buckets B is the
best one for each metric, data set and epsilon, chosen with the truth in hand.
It is shown as printed (prefixes added up greedily) and with the mean
consistency of Hay (2010), which the paper does not ask for; beside them flat
unary encoding on warped bins with PCHIP. All three get an isotonic projection.
Noise is simulated: the tests show that it has the mechanisms' distribution.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from scipy.optimize import isotonic_regression

from datasets import Scored, load, needs
from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.edges import Edges, Listed, Uniform, Warped
from discreet.estimate.areas import area_error, roc_area
from discreet.estimate.curves import Interpolation, Polyline, PrPath, RocPath
from discreet.estimate.fit import Flat
from discreet.metrics.thresholds import at_threshold
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram
from evidence import FITS, Evidence, Figure

SETS: Final = ("adult-xgb", "adult-xgb-oof", "bank-xgb-oof", "cover-xgb")
EPSILONS: Final = (1, 2, 5)
METRICS: Final = ("AUC", "ROC", "PR", "precision", "recall", "accuracy")
GOALS: Final = {"AUC": 0.40, "ROC": 0.40, "PR": 0.60}
THRESHOLDS: Final = tuple(k / 11 for k in range(1, 11))
HEIGHT: Final = 8
BUCKETS: Final = (4, 6, 10, 20, 32, 64)
ARC_BINS: Final = 32
LABELS: Final = {
    "arc": "arc",
    "printed": "paper, printed",
    "consistent": "paper + Hay",
    "flat": "flat unary",
}
_POINTS: Final = 8000
"""Knots kept of a true curve, twice: the first ones, and evenly."""


class Truth(Scored):
    """A scored data set and its exact metrics."""

    @cached_property
    def drawn(self) -> tuple[Polyline, Polyline]:
        """The curves that errors are measured against, through some of the points."""
        tp, fp = self.above
        # All of the first points: precision is rough where few are predicted.
        head = np.arange(min(_POINTS, tp.size))
        tail = np.linspace(0, tp.size - 1, _POINTS).round().astype(np.intp)
        keep = np.unique(np.append(head, tail))
        tp, fp = tp[keep], fp[keep]
        precision = np.append(1.0, tp[1:] / (tp[1:] + fp[1:]))
        recall = tp / tp[-1]
        return Polyline(fp / fp[-1], recall), Polyline.steps(recall, precision)

    @cached_property
    def rates(self) -> FloatArray:
        """Precision, recall, accuracy at each threshold."""
        found = []
        for t in THRESHOLDS:
            chosen = self.scores >= t
            tp = float(self.labels[chosen].sum())
            right = float((chosen == (self.labels == 1)).mean())
            found.append((tp / chosen.sum(), tp / self.labels.sum(), right))
        return np.array(found)


def errors(truth: Truth, counts: NoisyHistogram, kind: Interpolation) -> FloatVector:
    """Return the absolute error of each metric."""
    p, n = counts.total_positives, counts.total_negatives
    if counts.missing_class is not None:  # a failed run is worth a coin's guess
        return np.array([abs(truth.auc - 0.5), 0.5, 0.5, 0.5, 0.5, 0.5])
    tpr = np.append(0.0, np.cumsum(counts.positives[::-1])) / p
    fpr = np.append(0.0, np.cumsum(counts.negatives[::-1])) / n
    path = RocPath(fpr, tpr, kind)
    fit = replace(Flat().fit(counts), counts=counts)
    roc, pr = truth.drawn
    found = [at_threshold(fit, t) for t in THRESHOLDS]
    rates = np.array(
        [(f.precision.value, f.recall.value, f.accuracy.value) for f in found]
    )
    rates = np.nan_to_num(rates, nan=1.0)  # nothing predicted: precision 1
    return np.array(
        [
            abs(roc_area(path) - truth.auc),
            area_error(roc, path, tolerance=1e-5),
            area_error(pr, PrPath(path, p, n), tolerance=1e-5),
            *np.abs(rates - truth.rates).mean(axis=0),
        ]
    )


def histogram(edges: Edges, counts: FloatVector) -> NoisyHistogram:
    """Project each class on counts that are not negative."""
    negatives, positives = (_rising(half) for half in np.split(counts, 2))
    return NoisyHistogram(edges, negatives, positives, NoNoise())


def _rising(counts: FloatVector) -> FloatVector:
    running = np.cumsum(counts)
    top = max(float(running[-1]), 0.0)
    return np.diff(np.clip(isotonic_regression(running).x, 0.0, top), prepend=0.0)


def simulate_unary(
    exact: IntVector, epsilon: float, rng: np.random.Generator
) -> FloatVector:
    """Draw the debiased totals of optimized unary encoding: two binomials a bit.

    A one is sent with probability 1/2 for a one and q = 1/(e^eps + 1) for a zero
    (Wang 2017); every client holds one of the cells.
    """
    clients, q = exact.sum(), 1 / (math.exp(epsilon) + 1)
    ones = rng.binomial(exact, 0.5) + rng.binomial(clients - exact, q)
    found: FloatVector = (ones - clients * q) / (0.5 - q)
    return found


def simulate_tree(
    leaves: IntVector, epsilon: float, rng: np.random.Generator
) -> list[FloatArray]:
    """Split the clients over the levels; return class by segment, scaled to all."""
    rest, levels = leaves, []
    clients = int(leaves.sum())
    for level in range(1, HEIGHT + 1):
        share = clients // HEIGHT if level < HEIGHT else int(rest.sum())
        group = rng.multivariate_hypergeometric(rest, share, method="marginals")
        rest = rest - group
        segments = group.reshape(2 * 2**level, -1).sum(axis=1)
        found = simulate_unary(segments, epsilon, rng) * (clients / share)
        levels.append(found.reshape(2, -1))
    return levels


def greedy_prefixes(levels: Sequence[FloatArray]) -> FloatArray:
    """Add up the segments that make each prefix, at most one a level."""
    ends = np.arange(2**HEIGHT + 1)
    prefixes = np.zeros((2, ends.size))
    for level, counts in enumerate(levels, start=1):
        segment = ends >> (HEIGHT - level)
        used = (segment % 2 == 1) & (ends < 2**HEIGHT)
        prefixes[:, used] += counts[:, segment[used] - 1]
    prefixes[:, -1] = levels[0].sum(axis=1)
    return prefixes


def consistent_prefixes(levels: Sequence[FloatArray]) -> FloatArray:
    """Average each node with its children, then make children add up (Hay 2010)."""
    up, variance = [levels[-1]], 1.0
    for counts in levels[-2::-1]:
        children = up[-1].reshape(2, -1, 2).sum(axis=2)
        weight = 2 * variance / (1 + 2 * variance)
        up.append(weight * counts + (1 - weight) * children)
        variance = weight
    up.reverse()
    down = up[0]
    for counts in up[1:]:
        gap = (down - counts.reshape(2, -1, 2).sum(axis=2)) / 2
        down = counts + np.repeat(gap, 2, axis=1)
    return np.concatenate([np.zeros((2, 1)), np.cumsum(down, axis=1)], axis=1)


def equi_depth(prefixes: FloatArray, buckets: int) -> NoisyHistogram:
    """Find the quantiles by binary search on the noisy prefixes, and count."""
    whole = prefixes.sum(axis=0)
    cuts = [0, 2**HEIGHT]
    for k in range(1, buckets):
        low, high, wanted = 0, 2**HEIGHT, k * whole[-1] / buckets
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if whole[middle] < wanted else (low, middle)
        cuts.append(min((low, high), key=lambda end: abs(whole[end] - wanted)))
    kept = np.unique(cuts)
    edges = Edges.realise(Listed(tuple((kept / 2**HEIGHT).tolist())))
    return histogram(edges, np.diff(prefixes[:, kept], axis=1).ravel())


Runs: TypeAlias = dict[str, list[FloatArray]]
"""Errors of each method: one array (choices of B, metrics) a seed."""


class Bench:
    """All methods on one data set."""

    def __init__(self, name: str) -> None:
        data = load(name)
        self.truth = Truth(name, data.scores, data.labels)
        leaves = Edges.realise(Uniform(2**HEIGHT))
        self.leaves = self.truth.cells(leaves)
        self.warped = {b: Edges.realise(Warped(b)) for b in (*BUCKETS, ARC_BINS)}
        self.cells = {b: self.truth.cells(e) for b, e in self.warped.items()}
        self.refused = 0
        self.seconds: list[float] = []

    def run(self, epsilon: int, seeds: int) -> dict[str, FloatVector]:
        """Return the mean error of each metric at each method's best B."""
        runs: Runs = {"arc": [], "printed": [], "consistent": [], "flat": []}
        for seed in range(seeds):
            rng = np.random.default_rng([epsilon, seed])
            runs["arc"].append(np.array([self.arc(epsilon, rng)]))
            tree = simulate_tree(self.leaves, epsilon, rng)
            for name, prefixes in (
                ("printed", greedy_prefixes(tree)),
                ("consistent", consistent_prefixes(tree)),
            ):
                found = [equi_depth(prefixes, b) for b in BUCKETS]
                each = [errors(self.truth, counts, "linear") for counts in found]
                runs[name].append(np.array(each))
            runs["flat"].append(np.array([self.flat(b, epsilon, rng) for b in BUCKETS]))
        return {name: np.mean(each, axis=0).min(axis=0) for name, each in runs.items()}

    def arc(self, epsilon: int, rng: np.random.Generator) -> FloatVector:
        """One run of the arc randomiser, whether or not it calls itself usable."""
        randomiser = CircularArc(Fraction(epsilon), self.warped[ARC_BINS])
        total = simulate_arc_counts(randomiser, self.cells[ARC_BINS], rng)
        start = time.perf_counter()
        found = decode(total, randomiser)
        self.seconds.append(time.perf_counter() - start)
        self.refused += found.refusal is not None
        negatives, positives = np.split(found.counts, 2)
        edges = self.warped[ARC_BINS]
        counts = NoisyHistogram(edges, negatives, positives, NoNoise())
        return errors(self.truth, counts, "pchip")

    def flat(self, bins: int, epsilon: int, rng: np.random.Generator) -> FloatVector:
        """One run of flat unary encoding."""
        found = simulate_unary(self.cells[bins], epsilon, rng)
        return errors(self.truth, histogram(self.warped[bins], found), "pchip")


def row(first: str, values: Iterable[float], form: str) -> str:
    return f"  {first:32}" + "".join(f"{v:>11{form}}" for v in values)


def report(
    epsilon: int, cells: dict[str, dict[str, FloatVector]]
) -> Iterator[list[str | Figure]]:
    """Print errors x 1e4 of each data set, then the ratios, which are returned."""
    print(f"\nepsilon = {epsilon}, mean absolute errors x 1e4")
    print("  " + " " * 32 + "".join(f"{m:>11}" for m in METRICS))
    for name, found in cells.items():
        for method, label in LABELS.items():
            print(row(f"{name:14}{label}", found[method] * 1e4, ".1f"))
    for method in ("printed", "consistent", "flat"):
        logs = [np.log(found["arc"] / found[method]) for found in cells.values()]
        ratios = np.exp(np.mean(logs, axis=0))
        print(row(f"arc / {LABELS[method]}", ratios, ".2f"))
        yield [f"{epsilon}", LABELS[method], *(Figure(float(r)) for r in ratios)]
        if method == "printed":
            met = all(
                r <= GOALS.get(m, math.inf)
                for m, r in zip(METRICS, ratios, strict=True)
            )
            goals = ", ".join(f"{m} {goal:.2f}" for m, goal in GOALS.items())
            print(f"  goals ({goals}): {'met' if met else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--epsilons", type=int, nargs="+", default=EPSILONS)
    parser.add_argument("--save", action="store_true", help="into results/")
    asked = parser.parse_args()
    seeds: int = asked.seeds
    needs(*SETS)
    print(f"{seeds} seeds; geometric means over {len(SETS)} score sets")
    print(f"bits a client: arc {math.ceil(math.log2(2 * ARC_BINS))}, ", end="")
    print(f"tree 4 to {2 ** (HEIGHT + 1)}, flat {2 * BUCKETS[0]} to {2 * BUCKETS[-1]}")
    benches = {name: Bench(name) for name in SETS}
    for name, bench in benches.items():
        truth = bench.truth
        whole = (truth.roc, truth.pr)
        moved = [area_error(*pair) for pair in zip(whole, truth.drawn, strict=True)]
        print(
            f"  {name:14} {truth.labels.size:>7} clients; thinning moves "
            f"ROC by {moved[0] * 1e4:.2f}e-4, PR by {moved[1] * 1e4:.2f}e-4"
        )
    evidence = Evidence(
        "local",
        FITS,
        {"seeds": seeds, "sets": SETS, "bins": ARC_BINS},
    )
    rows: list[list[str | Figure]] = []
    for epsilon in asked.epsilons:
        cells = {name: bench.run(epsilon, seeds) for name, bench in benches.items()}
        rows += report(epsilon, cells)
    evidence.table("ratios", ("epsilon", "arc over", *METRICS), rows)
    if asked.save:
        evidence.save()
    spent = [s for bench in benches.values() for s in bench.seconds]
    refused = sum(bench.refused for bench in benches.values())
    print(
        f"\ndecoder: {1e3 * np.mean(spent):.0f} ms a fit (most {1e3 * max(spent):.0f}); "
        f"refused {refused} of {len(spent)} runs as too little data"
    )


if __name__ == "__main__":
    main()
