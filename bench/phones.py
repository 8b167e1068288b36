"""Reports of phones: how errors fall from ten thousand to ten million clients.

    python bench/phones.py [--seeds 20] [--save]

Errors of AUC, ROC and average precision beside the papers' hierarchy of optimized unary
encoding (Cormode 2023, as ``bench/local.py`` has it: printed, and with Hay's consistency; its
number of buckets is the best for each metric, chosen with the truth in hand), on samples of the
same clients.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from datasets import load, needs
from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges, Uniform, Warped
from discreet.estimate.fit import Flat
from discreet.metrics.table import METRICS
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.mechanism import NoNoise
from discreet.statistic.observed import NoisyHistogram
from evidence import FITS, Cell, Evidence, Figure
from local import (
    ARC_BINS,
    BUCKETS,
    HEIGHT,
    Truth,
    consistent_prefixes,
    equi_depth,
    errors,
    greedy_prefixes,
    simulate_tree,
)

SETS: Final = ("adult-xgb-oof", "bank-xgb-oof")
CLIENTS: Final = (10**4, 10**5, 10**6, 10**7)
EPSILONS: Final = (1, 2, 5)
SHOWN: Final = {"AUC": 0, "ROC": 1, "AP": 3}
"""Places of what is shown among the errors of AUC, ROC, PR and average precision."""
METHODS: Final = ("arcs", "paper", "paper + Hay")


def growth(seeds: int, clients: Sequence[int], epsilons: Sequence[int]) -> Evidence:
    """Return a table of errors for each data set, and of ratios over all of them."""
    settings = {"seeds": seeds, "sets": SETS, "bins": ARC_BINS, "height": HEIGHT}
    evidence = Evidence("phones", FITS, settings)
    means: dict[str, list[FloatVector]] = {method: [] for method in METHODS}
    print(f"mean absolute errors x 1e4 over {seeds} seeds, ± their standard errors")
    for name in SETS:
        data = load(name)
        rows: list[list[Cell]] = []
        truth = Truth(name, data.scores, data.labels)
        for epsilon in epsilons:
            shown: dict[str, list[Cell]] = {m: [f"eps {epsilon}, {m}"] for m in METHODS}
            for many in clients:
                runs = [_run(truth, epsilon, many, seed) for seed in range(seeds)]
                for method in METHODS:
                    each = np.array([run[method] for run in runs])  # seed, B, metric
                    best = each.mean(axis=0).argmin(axis=0)
                    cells = each[:, best, np.arange(each.shape[2])] * 1e4
                    means[method].append(cells.mean(axis=0))
                    shown[method].append(_cell(cells))
                print(name, epsilon, many, [s[-1] for s in shown.values()], flush=True)
            rows += shown.values()
        columns = (name, *(f"{many:,} clients" for many in clients))
        evidence.table(name, columns, rows)
    evidence.table("ratios", ("beside", *SHOWN, "errors of it below"), _ratios(means))
    return evidence


def _cell(errors: FloatVector) -> str:
    """Return mean errors, and beside them what a mean of so many seeds may be off."""
    off = errors.std(axis=0, ddof=1) / math.sqrt(len(errors)) if len(errors) > 1 else 0
    mean, off = errors.mean(axis=0), np.broadcast_to(off, errors.shape[1])
    digits = [0 if m >= 10 else 1 for m in mean]
    return " / ".join(
        f"{mean[k]:.{digits[k]}f} ± {off[k]:.{digits[k]}f}" for k in SHOWN.values()
    )


def _ratios(means: Mapping[str, Sequence[FloatVector]]) -> list[list[Cell]]:
    own = np.array(means["arcs"])[:, list(SHOWN.values())]
    rows: list[list[Cell]] = []
    for method in METHODS[1:]:
        ratio = own / np.array(means[method])[:, list(SHOWN.values())]
        overall = np.exp(np.log(ratio).mean(axis=0))
        below = f"{int((ratio > 1).sum())} of {ratio.size}"
        rows.append([method, *(Figure(float(r)) for r in overall), below])
    return rows


def _run(truth: Truth, epsilon: int, clients: int, seed: int) -> dict[str, FloatVector]:
    """Return errors by method: a row for each number of buckets."""
    rng = np.random.default_rng([epsilon, clients, seed])
    size = truth.scores.size
    drawn = rng.multinomial(clients, np.full(size, 1 / size))

    def cells(edges: Edges) -> IntVector:
        place = edges.bins_of(truth.scores) + len(edges) * truth.labels
        return np.bincount(place, drawn, 2 * len(edges)).astype(np.int64)

    edges = Edges.realise(Warped(ARC_BINS))
    arc = CircularArc(Fraction(epsilon), edges)
    negatives, positives = np.split(
        decode(simulate_arc_counts(arc, cells(edges), rng), arc).counts, 2
    )
    own = NoisyHistogram(edges, negatives, positives, NoNoise())
    tree = simulate_tree(cells(Edges.realise(Uniform(2**HEIGHT))), epsilon, rng)
    found = {"arcs": np.array([_errors(truth, own, linear=False)])}
    for method, prefixes in (
        ("paper", greedy_prefixes(tree)),
        ("paper + Hay", consistent_prefixes(tree)),
    ):
        found[method] = np.array(
            [_errors(truth, equi_depth(prefixes, b), linear=True) for b in BUCKETS]
        )
    return found


def _errors(truth: Truth, counts: NoisyHistogram, *, linear: bool) -> FloatVector:
    auc, roc, pr = errors(truth, counts, "linear" if linear else "pchip")[:3]
    if counts.missing_class is not None:
        return np.array([auc, roc, pr, 0.5])
    tp, fp = truth.above
    exact = float((np.diff(tp) * tp[1:] / (tp[1:] + fp[1:])).sum() / tp[-1])
    fit = Flat("linear" if linear else "pchip").fit(counts)
    own = METRICS["average_precision"].measure.value(fit)
    return np.array([auc, roc, pr, abs(own - exact)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--epsilons", type=int, nargs="+", default=EPSILONS)
    parser.add_argument("--save", action="store_true", help="keep it in results/")
    given = parser.parse_args()
    needs(*SETS)
    evidence = growth(given.seeds, given.clients, given.epsilons)
    if given.save:
        evidence.save()


if __name__ == "__main__":
    main()
