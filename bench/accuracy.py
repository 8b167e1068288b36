"""Private curves beside the papers' method in the same run, on real and synthetic scores.

For each population and eps (smaller class times eps at least 300): mean area errors of the
ROC and PR curves that users are handed and mean absolute errors of AUC and average
precision, over those of ``FedCurve`` at the best of Q = 32, 128 and 1024, each metric at
its own best, chosen with hindsight. The plan is what ``recommend`` gives for true public
facts, for a prevalence 3 times too low or too high, for none, or for a pilot round.

    python bench/accuracy.py [--of real synthetic] [--facts true low high none pilot]
        [--seeds 6] [--most N] [--anchors FILE] [--save]

``real`` sets (``bench/real_sets.py``) and the held-out half of the ``synthetic`` ones
(``bench/synthetic.py``) were used to choose nothing; ``tuning`` is the other half.
``--anchors`` keeps the papers' errors in a file between runs; they do not depend on anything
that is chosen here. Intervals of means are 95%, by a bootstrap over populations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.estimate.areas import area_error
from discreet.estimate.fit import Fit
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
from evidence import FITS, Evidence, Figure
from real_sets import real_sets
from synthetic import Population, names, population

EPSILONS: Final = (1.0, 0.3, 0.1)
LEAST_SIGNAL: Final = 300
RARE: Final = 0.02
PIECES: Final = 4
METRICS: Final = ("ROC", "PR", "AUC", "AP")
GUESSES: Final = {"true": 1.0, "low": 1 / 3, "high": 3.0, "none": None, "pilot": 1.0}


class Measured(NamedTuple):
    """Mean errors, and how many releases were refused."""

    errors: FloatVector
    refused: int
    seconds: float


def facts_of(data: Population, guess: float | None) -> PublicFacts:
    if guess is None:
        return PublicFacts()
    return PublicFacts(data.examples, min(data.prevalence * guess, 0.9))


def ours(data: Population, plan: Plan, seeds: int) -> tuple[Measured, int]:
    """Measure what a plan releases, fitted as users get it."""
    found, refused, seconds, bins = [], 0, 0.0, 0
    for seed in range(seeds):
        observed = released(data, plan, seed)
        bins = len(observed.edges)
        start = time.process_time()
        fit = Smooth().fit(observed)
        seconds += time.process_time() - start
        refused += fit.refusal is not None
        found.append(_errors(data, fit))
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


class Ratio(NamedTuple):
    """One population, eps and kind of facts: our errors over the papers'."""

    population: str
    ratios: FloatVector
    rare: bool
    refused: int


def populations(source: str) -> Iterator[Population]:
    if source == "real":
        return real_sets()
    chosen = names(held_out=source == "synthetic")
    return (population(name) for name in chosen)


def measured(
    source: str, seeds: int, guesses: Sequence[str], anchors: Anchors, most: int | None
) -> dict[str, list[Ratio]]:
    """Measure every cell of a source, by what is known in public."""
    rows: dict[str, list[Ratio]] = {}
    for data in islice(populations(source), most):
        for epsilon in EPSILONS:
            if data.minority * epsilon < LEAST_SIGNAL:
                continue
            reference = anchors.of(data, epsilon)
            for guess in guesses:
                facts = facts_of(data, GUESSES[guess])
                plan = recommend(
                    facts, DistributedDP(str(epsilon)), pilot=guess == "pilot"
                )
                found, bins = ours(data, plan, seeds)
                ratios = found.errors / reference
                rare = data.prevalence <= RARE
                rows.setdefault(guess, []).append(
                    Ratio(data.name, ratios, rare, found.refused)
                )
                print(
                    f"{data.name:28} eps {epsilon:<4g}{guess:>6}{bins:4}"
                    f"{numbers(ratios)}{1e3 * found.seconds:5.0f} ms"
                    + (f"  refused {found.refused}" if found.refused else ""),
                    flush=True,
                )
    return rows


def means(cells: Sequence[Ratio]) -> list[Figure]:
    """Geometric means with bootstrap intervals: populations are drawn again, whole."""
    by_population: dict[str, list[FloatVector]] = {}
    for cell in cells:
        by_population.setdefault(cell.population, []).append(np.log(cell.ratios))
    groups = [np.array(logs) for logs in by_population.values()]
    sums = np.array([np.nansum(logs, axis=0) for logs in groups])
    sizes = np.array([len(logs) for logs in groups])
    drawn = np.random.default_rng(0).integers(len(groups), size=(4_000, len(groups)))
    again = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)[:, None]
    low, high = np.exp(np.quantile(again, [0.025, 0.975], axis=0))
    middle = np.exp(sums.sum(axis=0) / sizes.sum())
    return [Figure(*numbers) for numbers in zip(middle, low, high, strict=True)]


def worst(cells: Sequence[Ratio]) -> list[Figure]:
    return [Figure(r) for r in np.nanmax([c.ratios for c in cells], axis=0)]


TITLES: Final = {"real": "real sets", "synthetic": "synthetic, held-out half"}
FACTS: Final = {
    "true": "true public facts",
    "low": "prevalence guessed 3 times too low",
    "high": "prevalence guessed 3 times too high",
    "none": "no public facts",
    "pilot": "true public facts, after a pilot round",
}


def rows_of(
    source: str, cells: dict[str, list[Ratio]], guesses: Sequence[str], *, rare: bool
) -> Iterator[list[str | Figure]]:
    for guess in guesses:
        if guess not in cells:
            continue
        each = cells[guess]
        title = f"{TITLES.get(source, source)}, {FACTS[guess]}"
        yield [f"{title}: geometric mean of {len(each)} cells", *means(each)]
        yield ["worst cell", *worst(each)]
        few = [cell for cell in each if cell.rare]
        if rare and few and guess == "true":
            yield [f"prevalence at most {RARE:g} ({len(few)} cells)", *means(few)]
            yield ["worst of these", *worst(few)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy of private curves.")
    parser.add_argument(
        "--of",
        nargs="*",
        choices=("real", "synthetic", "tuning"),
        default=["real", "synthetic"],
    )
    parser.add_argument("--facts", nargs="*", choices=GUESSES, default=list(GUESSES))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--most", type=int, help="populations of each source")
    parser.add_argument("--anchors", type=Path)
    parser.add_argument("--save", action="store_true", help="into results/")
    options = parser.parse_args()
    anchors = Anchors(options.anchors, options.seeds)
    evidence = Evidence(
        "accuracy",
        (*FITS, "data/prior_spread", "published"),
        {"seeds": options.seeds, "epsilons": EPSILONS, "least_signal": LEAST_SIGNAL},
    )
    cells = {
        source: measured(source, options.seeds, options.facts, anchors, options.most)
        for source in options.of
    }
    columns = ("error over the papers' method at its best setting", *METRICS)
    for name, guesses in (("headline", ("true", "none")), ("all", options.facts)):
        rows = [
            row
            for source in cells
            for row in rows_of(source, cells[source], guesses, rare=name == "all")
        ]
        evidence.table(name, columns, rows)
    for source, by_guess in cells.items():
        refused = sum(c.refused for each in by_guess.values() for c in each)
        releases = options.seeds * sum(map(len, by_guess.values()))
        evidence.figure(f"{source}-refused", Figure(refused, digits=0))
        evidence.figure(f"{source}-releases", Figure(releases, digits=0))
    for row in evidence.tables["all"]["rows"]:
        print(f"{row[0]:80}", *(f"{cell['text']:18}" for cell in row[1:]))
    if options.save:
        evidence.save()


if __name__ == "__main__":
    main()
