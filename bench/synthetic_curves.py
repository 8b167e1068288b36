"""Private curves on synthetic populations, beside the papers' method in the same run.

For each population and eps (minority times eps at least 300): mean area errors of ROC
and PR and mean absolute errors of AUC and average precision, over those of ``FedCurve``
at the best of Q = 32, 128 and 1024, each metric at its own best. The plan is what
``recommend`` gives for true public facts, for a prevalence 3 times too low or too high,
or for none (``--facts``); ``Flat`` reads the same releases.

    python bench/synthetic_curves.py [--half held-out] [--seeds 6] [--facts true low high none]
        [--pilot] [--anchors FILE]

``--pilot`` asks for a first round that places the bins. ``--anchors`` keeps the papers' errors in a file between runs; they do not depend on
anything that is chosen here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.estimate.areas import area_error
from discreet.estimate.fit import Fit, Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.curve_points import drawn_points
from discreet.metrics.errors import measures
from discreet.models.distributed import DistributedDP
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Release
from discreet.published.xu2025.fedcurve import PAPER_QUANTILES, FedCurve
from discreet.statistic.hierarchy import NoisyTree, merged_levels
from discreet.statistic.observed import NoisyHistogram
from synthetic import Population, names, population

EPSILONS: Final = (1.0, 0.3, 0.1)
LEAST_SIGNAL: Final = 300
RARE: Final = 0.02
PIECES: Final = 4
METRICS: Final = ("ROC", "PR", "AUC", "AP")
GUESSES: Final = {"true": 1.0, "low": 1 / 3, "high": 3.0, "none": None}


class Measured(NamedTuple):
    """Mean errors of each estimator, a row each, and how often there was a curve."""

    errors: FloatArray
    refused: int
    seconds: float


def facts_of(data: Population, guess: float | None) -> PublicFacts:
    if guess is None:
        return PublicFacts()
    return PublicFacts(data.examples, min(data.prevalence * guess, 0.9))


def ours(data: Population, plan: Plan, seeds: int) -> tuple[Measured, int]:
    """Measure a plan, read smoothly and flat."""
    found, refused, seconds, bins = [], 0, 0.0, 0
    for seed in range(seeds):
        observed = released(data, plan, seed)
        bins = len(observed.edges)
        start = time.process_time()
        fit = Smooth().fit(observed)
        seconds += time.process_time() - start
        refused += fit.refusal is not None
        found.append([_errors(data, r) for r in (fit, Flat().fit(observed))])
    return Measured(np.mean(found, axis=0), refused, seconds / seeds), bins


def released(data: Population, plan: Plan, seed: int) -> NoisyHistogram:
    """Return what the last of a plan's rounds releases."""
    epsilon = float(plan.privacy.budget or 0)
    releases: list[Release] = []
    found: list[NoisyHistogram] = []
    for i, each in enumerate(plan.rounds):
        this = plan.resolve(i, releases)
        (edges,) = this.statistic.binnings
        noise = LaplaceNoise(1 / (epsilon * float(each.budget)))
        own = [seed, round(1000 * epsilon), len(edges), *([i] if i else [])]
        rng, exact = np.random.default_rng(own), data.cells(edges)
        counts = exact + simulate_discrete_laplace(noise.scale, exact.shape, rng)
        total: IntVector = counts.ravel().astype(np.int64)
        releases.append(Release(plan.digest(), b"simulated", i, total, 1, 1, this.loss))
        found.append(NoisyHistogram(edges, counts[0], counts[1], noise))
    return found[-1]


def _errors(data: Population, fit: Fit) -> FloatVector:
    if fit.refusal is not None:
        return np.full(len(METRICS), np.nan)
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


def papers(data: Population, epsilon: float, seeds: int) -> FloatVector:
    """Measure the papers' method; each metric at its best Q."""
    found = np.empty((len(PAPER_QUANTILES), seeds, len(METRICS)))
    for k, quantiles in enumerate(PAPER_QUANTILES):
        method = FedCurve(quantiles=quantiles)
        tree = method.hierarchy()
        levels = [
            merged_levels(leaves, tree.branching, tree.height)
            for leaves in data.cells(tree.edges)
        ]
        exact = np.concatenate([np.concatenate(p) for p in zip(*levels, strict=True)])
        noise = LaplaceNoise(method.height / epsilon)
        for seed in range(seeds):
            rng = np.random.default_rng([seed, round(1000 * epsilon), quantiles])
            noisy = exact + simulate_discrete_laplace(noise.scale, exact.shape, rng)
            curves = method.curves(
                NoisyTree.from_release(tree, noisy, variance=noise.variance)
            )
            found[k, seed] = (
                area_error(data.roc, curves.roc.polyline(PIECES)),
                area_error(data.pr, curves.pr.polyline(PIECES)),
                abs(curves.auc - data.auc),
                abs(curves.average_precision - data.average_precision),
            )
    best: FloatVector = found.mean(axis=1).min(axis=0)
    return best


class Anchors:
    """The papers' errors by population, eps and seeds, kept in a file if one is named."""

    def __init__(self, path: Path | None, seeds: int) -> None:
        self._path, self._seeds = path, seeds
        kept = path is not None and path.exists()
        self._known = json.loads(path.read_text()) if path and kept else {}

    def of(self, data: Population, epsilon: float) -> FloatVector:
        """Return the errors of one cell, measured once."""
        key = f"{data.name} {epsilon:g} {self._seeds}"
        if key not in self._known:
            self._known[key] = papers(data, epsilon, self._seeds).tolist()
            if self._path is not None:
                self._path.write_text(json.dumps(self._known))
        return np.array(self._known[key])


def numbers(ratios: FloatVector) -> str:
    return "".join(f"{r:7.2f}" for r in ratios)


def summary(title: str, ratios: Sequence[FloatVector]) -> None:
    if not ratios:
        return
    table = np.array(ratios)
    means = np.exp(np.nanmean(np.log(table), axis=0))
    worst = np.nanmax(table, axis=0)
    print(
        f"{title:34} {len(table):3} cells: means {numbers(means)}, worst {numbers(worst)}"
    )


def run(
    half: str, seeds: int, guesses: Sequence[str], anchors: Anchors, *, pilot: bool
) -> None:
    rows: dict[str, list[FloatVector]] = {}
    refused: dict[str, int] = {}
    print(
        f"{half} half, {seeds} seeds{', after a pilot' if pilot else ''}; errors over FedCurve's at its best Q: {METRICS}"
    )
    for name in names(held_out=half == "held-out"):
        data = population(name)
        for epsilon in EPSILONS:
            if data.minority * epsilon < LEAST_SIGNAL:
                continue
            reference = anchors.of(data, epsilon)
            for guess in guesses:
                facts = facts_of(data, GUESSES[guess])
                plan = recommend(facts, DistributedDP(str(epsilon)), pilot=pilot)
                found, bins = ours(data, plan, seeds)
                smooth, flat = found.errors / reference
                rows.setdefault(guess, []).append(smooth)
                refused[guess] = refused.get(guess, 0) + found.refused
                if data.prevalence <= RARE:
                    rows.setdefault(f"{guess}, prevalence at most .02", []).append(
                        smooth
                    )
                rows.setdefault(f"{guess}, Flat", []).append(flat)
                area = f"{1e4 * found.errors[0, 0]:6.1f}"
                print(
                    f"{name:28} eps {epsilon:<4g}{guess:>5}{bins:4}"
                    f"{numbers(smooth)}  ROC area x 1e-4{area}"
                    f"{1e3 * found.seconds:5.0f} ms"
                    + (f"  refused {found.refused}" if found.refused else ""),
                    flush=True,
                )
    for title, ratios in rows.items():
        summary(title, ratios)
    print("refused releases:", refused)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Private curves on synthetic populations."
    )
    parser.add_argument("--half", choices=("tuning", "held-out"), default="held-out")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--facts", nargs="*", choices=GUESSES, default=list(GUESSES))
    parser.add_argument("--pilot", action="store_true")
    parser.add_argument("--anchors", type=Path)
    options = parser.parse_args()
    run(
        options.half,
        options.seeds,
        options.facts,
        Anchors(options.anchors, options.seeds),
        pilot=options.pilot,
    )


if __name__ == "__main__":
    main()
