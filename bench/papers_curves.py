"""Run the papers' method (Xu 2025) and compare its errors with the anchors.

Five score sets at three eps: mean area errors of ROC and PR curves and mean
absolute errors of AUC and average precision, each at the best of Q = 32, 128 and
1024 quantiles, and their ratios to the anchors' column of the papers' own code
(with its noise made independent). Ratios near 1 say that the method that other
tables divide by is the papers'.

    python bench/papers_curves.py [--seeds 100] [--data NAME ...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from datasets import ERRORS, Scored, load, needs, read_anchors
from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.estimate.areas import area_error
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.published.xu2025.fedcurve import PAPER_QUANTILES, FedCurve
from discreet.statistic.hierarchy import Hierarchy, NoisyTree

SETS: Final = ("adult-xgb", "adult-xgb-oof", "bank-xgb", "bank-xgb-oof", "cover-xgb")


class Cell(NamedTuple):
    """One score set at one eps, and what the papers' own code reached."""

    number: int
    data: str
    epsilon: float
    anchors: FloatVector


class Setting(NamedTuple):
    """The papers' method at one Q, its tree, and the exact counts."""

    method: FedCurve
    statistic: Hierarchy
    counts: FloatVector


class Subject(NamedTuple):
    """One score set, ready to be measured at any eps."""

    truth: Scored
    settings: tuple[Setting, ...]


def cells(names: Iterable[str]) -> list[Cell]:
    chosen = set(names)
    return [
        Cell(number, data, epsilon, reached)
        for number, ((data, epsilon), reached) in enumerate(read_anchors().items())
        if not chosen or data in chosen
    ]


def subject_of(name: str) -> Subject:
    truth = load(name)
    examples = Examples(truth.scores, truth.labels)
    settings = []
    for quantiles in PAPER_QUANTILES:
        method = FedCurve(quantiles=quantiles)
        statistic = method.hierarchy()
        counts = statistic.count(examples).astype(np.float64)
        settings.append(Setting(method, statistic, counts))
    return Subject(truth, tuple(settings))


def errors(setting: Setting, cell: Cell, truth: Scored, seeds: int) -> FloatVector:
    """Return the errors of each seed, in the order of ERRORS."""
    method, statistic, exact = setting
    distribution = LaplaceNoise(method.height / cell.epsilon)
    found = np.empty((seeds, len(ERRORS)))
    for seed in range(seeds):
        rng = np.random.default_rng([seed, method.quantiles, cell.number])
        noise = simulate_discrete_laplace(distribution.scale, exact.shape, rng)
        tree = NoisyTree.from_release(
            statistic, exact + noise, variance=distribution.variance
        )
        curves = method.curves(tree)
        found[seed] = (
            area_error(truth.roc, curves.roc, tolerance=1e-6),
            area_error(truth.pr, curves.pr, tolerance=1e-5),
            abs(curves.auc - truth.auc),
            abs(curves.average_precision - truth.average_precision),
        )
    return found


class Ratio(NamedTuple):
    """An error at its best Q over the anchor, with the run's standard error."""

    value: float
    standard_error: float
    quantiles: int

    def __str__(self) -> str:
        return f"{self.value:.2f} +-{self.standard_error:.2f} ({self.quantiles:4d})"


def ratios(cell: Cell, subject: Subject, seeds: int) -> list[Ratio]:
    found = np.array([errors(s, cell, subject.truth, seeds) for s in subject.settings])
    means = found.mean(axis=1) / cell.anchors
    spread = found.std(axis=1, ddof=1) / np.sqrt(seeds) / cell.anchors
    best = means.argmin(axis=0)
    return [
        Ratio(float(means[k, m]), float(spread[k, m]), PAPER_QUANTILES[k])
        for m, k in enumerate(best)
    ]


def table(seeds: int, names: Iterable[str]) -> None:
    print(f"{seeds} seeds; ratio to the anchors, its standard error, (best Q)")
    print(f"{'':23s}" + "".join(f"{m:20s}" for m in ("ROC", "PR", "AUC", "AP")))
    every = []
    for data, group in groupby(cells(names), key=lambda cell: cell.data):
        subject = subject_of(data)
        for cell in group:
            start = time.perf_counter()
            found = ratios(cell, subject, seeds)
            every.append([ratio.value for ratio in found])
            shown = "  ".join(str(ratio) for ratio in found)
            seconds = time.perf_counter() - start
            print(
                f"{data:14s} eps {cell.epsilon:<4g} {shown}  {seconds:.0f} s",
                flush=True,
            )
    if every:
        all_cells = np.array(every)
        means = np.exp(np.log(all_cells).mean(axis=0))
        within = (np.abs(all_cells - 1) <= 0.1).sum(axis=0)
        print(f"{'geometric mean':23s}" + "".join(f"{m:<20.3f}" for m in means))
        print(f"{'within 10%':23s}" + "".join(f"{w}/{len(every):<18d}" for w in within))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--data", nargs="*", default=[])
    chosen = parser.parse_args()
    needs(*(chosen.data or SETS), anchors=True)
    table(chosen.seeds, chosen.data)


if __name__ == "__main__":
    main()
