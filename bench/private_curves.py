"""Private curves from a noisy class histogram, beside the papers' method.

Five score sets at three eps: mean area errors of the ROC and PR curves and mean
absolute errors of AUC and average precision, over the anchors' column of the
papers' own code (with its noise made independent) at its best Q. One setting for
every metric and cell: spread edges, ``bins_under_noise`` of the minority count
rounded to a power of ten, the estimator ``Smooth``; ``Flat`` reads the same
releases for comparison.

    python bench/private_curves.py [--seeds 100] [--sets NAME ...]
        [--tables goals guesses hard thresholds]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from datasets import ERRORS, Scored, load, needs, read_anchors
from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges
from discreet.data.prior_spread import PriorSpread
from discreet.estimate.areas import area_error
from discreet.estimate.fit import Estimator, Fit, Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.curve_points import drawn_points
from discreet.metrics.errors import measures
from discreet.metrics.thresholds import AtThreshold, at_threshold
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.plan.bins import bins_under_noise
from discreet.statistic.observed import NoisyHistogram

SETS: Final = ("adult-xgb", "adult-xgb-oof", "bank-xgb", "bank-xgb-oof", "cover-xgb")
EPSILONS: Final = (1.0, 0.3, 0.1)
HEADER: Final = f"{'ROC':>6}{'PR':>6}{'AUC':>6}{'AP':>6}"
USUAL: Final = np.array([0.50, 0.55, 0.80, 0.80])
WORST: Final = np.array([0.62, 0.72, 1.05, np.inf])
MEAN: Final = np.array([0.42, 0.45, 0.60, 0.60])
"""Goals: the usual ratio in 12 cells of 15, the worst in all, the geometric mean."""
ODD: Final = ("adult-knn5-oof", "adult-lr", "adult-xgb", "bank-xgb")
DISTORTIONS: Final[dict[str, Callable[[FloatVector], FloatVector]]] = {
    "s^4": lambda s: s**4,
    ".45 + .1 s": lambda s: 0.45 + 0.1 * s,
}
THRESHOLDS: Final = tuple(k / 11 for k in range(1, 11))


@dataclass(frozen=True, eq=False)
class Histogram:
    """The exact counts of one data set over public edges."""

    name: str
    edges: Edges
    negatives: FloatVector
    positives: FloatVector

    @classmethod
    def of(cls, data: Scored, bins: int, thresholds: Sequence[float] = ()) -> Histogram:
        """Count a data set."""
        rule = PriorSpread(bins, float(data.labels.mean()))
        edges = Edges.realise(rule, thresholds=thresholds)
        negatives, positives = np.split(data.cells(edges).astype(np.float64), 2)
        return cls(data.name, edges, negatives, positives)

    def releases(self, epsilon: float, seeds: int) -> Iterator[NoisyHistogram]:
        """Simulate releases: discrete Laplace of scale 1/eps in every cell."""
        key = len(self.edges), *self.name.encode()
        for seed in range(seeds):
            rng = np.random.default_rng([seed, round(1000 * epsilon), *key])
            noise = simulate_discrete_laplace(1 / epsilon, (2, len(self.edges)), rng)
            yield NoisyHistogram(
                self.edges,
                self.negatives + noise[0],
                self.positives + noise[1],
                LaplaceNoise(1 / epsilon),
            )


def _as_it_is(observed: NoisyHistogram) -> Fit:
    """Read a release without doing anything to its counts."""
    return replace(Flat().fit(observed), counts=observed)


def minority_guess(data: Scored) -> float:
    """Round the minority count to a power of ten: a public guess."""
    positives = float(data.labels.sum())
    minority = min(positives, data.labels.size - positives)
    return float(10 ** round(np.log10(minority)))


def errors(data: Scored, observed: NoisyHistogram, estimator: Estimator) -> FloatVector:
    """Return the errors of one release in the order of ERRORS."""
    fit = estimator.fit(observed)
    found = measures(fit, ("auc", "average_precision"))
    roc, pr = drawn_points(fit)
    return np.array(
        [
            area_error(data.roc, roc),
            area_error(data.pr, pr),
            abs(found["auc"].value - data.auc),
            abs(found["average_precision"].value - data.average_precision),
        ]
    )


def mean_errors(
    data: Scored,
    epsilon: float,
    estimators: Sequence[Estimator],
    *,
    bins: int,
    seeds: int,
) -> tuple[FloatArray, float]:
    """Return the mean errors, a row for each estimator, and seconds a release."""
    histogram = Histogram.of(data, bins)
    total = np.zeros((len(estimators), len(ERRORS)))
    start = time.process_time()
    for observed in histogram.releases(epsilon, seeds):
        estimators[0].fit(observed)
    seconds = (time.process_time() - start) / seeds
    for observed in histogram.releases(epsilon, seeds):
        total += [errors(data, observed, estimator) for estimator in estimators]
    return total / seeds, seconds


def numbers(ratios: FloatVector) -> str:
    return "".join(f"{r:6.2f}" for r in ratios)


def verdict(title: str, ratios: Sequence[FloatVector]) -> None:
    """Print geometric means, worst cells and how many cells reach the goals."""
    table = np.array(ratios)
    means = np.exp(np.log(table).mean(axis=0))
    print(f"{title}: geometric means  {numbers(means)}   (goals {numbers(MEAN)})")
    print(f"{title}: worst cells      {numbers(table.max(axis=0))}")
    reached = (table <= USUAL).sum(axis=0)
    counts = "  ".join(f"{r} of {len(table)}" for r in reached)
    print(f"{title}: cells within {numbers(USUAL)}: {counts}")
    good = means <= MEAN, table.max(axis=0) <= WORST, reached >= 0.8 * len(table)
    print(f"{title}: {'all goals reached' if np.all(good) else 'GOALS MISSED'}")


def goals(chosen: Sequence[str], seeds: int) -> None:
    reference = read_anchors()
    estimators: tuple[Estimator, ...] = (Smooth(), Flat())
    rows: tuple[list[FloatVector], ...] = ([], [])
    print(f"ratio of mean errors to the papers', {seeds} seeds")
    print(f"{'':22}{'bins':>5}  {'Smooth':24}  {'Flat':24}  {'ms a curve':>10}")
    print(f"{'':27}  {HEADER}  {HEADER}")
    for name in chosen:
        data = load(name)
        for epsilon in EPSILONS:
            bins = bins_under_noise(minority_guess(data), epsilon)
            found, seconds = mean_errors(
                data, epsilon, estimators, bins=bins, seeds=seeds
            )
            ratios = found / reference[name, epsilon]
            for row, ratio in zip(rows, ratios, strict=True):
                row.append(ratio)
            shown = "  ".join(numbers(r) for r in ratios)
            cell = f"{name:14} eps {epsilon:<4g}{bins:5}"
            print(f"{cell}  {shown}  {1e3 * seconds:10.0f}", flush=True)
    verdict("Smooth", rows[0])
    verdict("Flat  ", rows[1])


def guesses(chosen: Sequence[str], seeds: int) -> None:
    reference = read_anchors()
    for words, factor in (("3 x too low", 1 / 3), ("3 x too high", 3.0)):
        print(f"\nminority guess {words}\n{'':27}  {HEADER}")
        rows = []
        for name in chosen:
            data = load(name)
            for epsilon in EPSILONS:
                bins = bins_under_noise(factor * minority_guess(data), epsilon)
                found, _ = mean_errors(
                    data, epsilon, (Smooth(),), bins=bins, seeds=seeds
                )
                rows.append(found[0] / reference[name, epsilon])
                cell = f"{name:14} eps {epsilon:<4g}{bins:5}"
                print(f"{cell}  {numbers(rows[-1])}", flush=True)
        verdict("Smooth", rows)


def hard(chosen: Sequence[str], seeds: int) -> None:
    """Ties and distorted scores: how they are read, and what is noted."""
    del chosen
    print("\nties and distortions: errors x 1e-4, and what is noted")
    print(f"{'':38}{HEADER.replace('    ', '      ')}  read as, noted")
    words = ("ties", "logistic regression")
    cases = [(load(name), word) for name, word in zip(ODD[:2], words, strict=True)]
    for name in ODD[2:]:
        data = load(name)
        cases += [
            (Scored(name, bend(data.scores), data.labels), word)
            for word, bend in DISTORTIONS.items()
        ]
    for data, word in cases:
        for epsilon in EPSILONS:
            bins = bins_under_noise(minority_guess(data), epsilon)
            histogram = Histogram.of(data, bins)
            found, ways = [], set()
            for observed in histogram.releases(epsilon, seeds):
                fit = Smooth().fit(observed)
                ways.add(fit.way + (", few bins" if fit.notes else ""))
                if fit.way != "unusable":
                    found.append(errors(data, observed, Smooth()))
            means = 1e4 * np.mean(found or [np.full(len(ERRORS), np.nan)], axis=0)
            shown = "".join(f"{e:8.1f}" for e in means)
            cell = f"{data.name:14} {word:19}eps {epsilon:<4g}"
            print(f"{cell}{shown}  {'; '.join(sorted(ways))}", flush=True)


def thresholds(chosen: Sequence[str], seeds: int) -> None:
    """Precision, recall and accuracy at 1/11 .. 10/11: sums or the model's counts."""
    print("\nmean error x 1e-4 at 1/11 .. 10/11: released sums, projected, model")
    print(f"{'':27}{'precision':>24}{'recall':>24}{'accuracy':>24}")

    def rates(observed: NoisyHistogram) -> FloatArray:
        def three(found: AtThreshold) -> list[float]:
            return [found.precision.value, found.recall.value, found.accuracy.value]

        fit = _as_it_is(observed)
        return np.array([three(at_threshold(fit, t)) for t in THRESHOLDS])

    for name in chosen:
        data = load(name)
        for epsilon in EPSILONS:
            bins = bins_under_noise(minority_guess(data), epsilon)
            truth = Histogram.of(data, bins, THRESHOLDS)
            without_noise = NoisyHistogram(
                truth.edges, truth.negatives, truth.positives, LaplaceNoise(1.0)
            )
            right = rates(without_noise)
            wrong = np.zeros((3, 3))
            for observed in truth.releases(epsilon, seeds):
                fits = (
                    observed,
                    observed.projected(),
                    Smooth().fit(observed).counts,
                )
                wrong += [np.abs(rates(r) - right).mean(axis=0) for r in fits]
            shown = "".join(f"{e:8.2f}" for e in (1e4 * wrong / seeds).T.ravel())
            print(f"{name:14} eps {epsilon:<4g}{bins:5}{shown}", flush=True)


TABLES: Final = {
    "goals": goals,
    "guesses": guesses,
    "hard": hard,
    "thresholds": thresholds,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Private curves beside the papers'.")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--sets", nargs="*", choices=SETS, default=SETS)
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    needs(*options.sets, *ODD, anchors=True)
    for name in options.tables:
        TABLES[name](options.sets, options.seeds)


if __name__ == "__main__":
    main()
