"""Coverage of the 95% intervals: do they hold the population value 95% of the time?

Binormal scores as posterior probabilities. A repetition draws a test set (a
multinomial over the plan's bins), adds the plan's noise, reads the release as an
evaluation does, and asks whether the interval holds the *population's* value.

    python bench/coverage.py [--repetitions 2000] [--noise exact 1 0.3]
        [--areas 0.77 0.93] [--sizes 200 2000 50000] [--csv FILE] [--picture FILE]

Columns: the share of intervals that hold the truth, in percent, and their mean
width over the oracle's, the range of the middle 95% of the errors that were made.
For rates the oracle is that of the released counts' own ratio, since the interval
is read from them. Cells in parentheses have fewer than 50 expected positives,
fewer than 20 expected predicted positives (precision), or eps x minority below 50;
`usable` is the share of repetitions with a number and no caution.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges, unit_edges
from discreet.estimate.estimate import Estimate
from discreet.estimate.fit import Estimator, Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.metrics.errors import measures
from discreet.metrics.thresholds import at_threshold
from discreet.models.distributed import DistributedDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from evidence import FITS, Evidence, Figure

METRICS: Final = ("auc", "average_precision", "precision", "recall", "brier")
TITLES: Final = ("AUC", "AP", "precision", "recall", "Brier")
PREVALENCES: Final = (0.5, 0.1, 0.02)
THRESHOLD: Final = 0.5
LOWEST, HIGHEST = 0.93, 0.98
"""What coverage of a nominal 95% is asked to lie between."""
FEWEST_REPETITIONS: Final = 25
SHOWN: Final[dict[str, tuple[int, float, float | None]]] = {
    "tab:gray": (200, 0.5, None),
    "tab:blue": (2000, 0.1, None),
    "tab:green": (2000, 0.1, 0.3),
}
"""Examples, prevalence and epsilon of the picture's test sets, by colour."""


@dataclass(frozen=True)
class Population:
    """Scores N(0, 1) and N(d, 1), as probabilities of the positive class."""

    auc: float
    prevalence: float

    @cached_property
    def distance(self) -> float:
        """Return d: two normals of unit variance so far apart have this AUC."""
        return float(math.sqrt(2) * norm.ppf(self.auc))

    def place(self, score: FloatVector) -> FloatVector:
        """Return the normal variable whose posterior probability is the score."""
        d = self.distance
        with np.errstate(divide="ignore"):
            odds = np.log(score) - np.log1p(-score)
        prior = math.log(self.prevalence / (1 - self.prevalence))
        found: FloatVector = (odds - prior) / d + d / 2
        return found

    def cells(self, edges: Edges) -> FloatVector:
        """Return the probability of each cell: negatives' bins, then positives'."""
        x = self.place(unit_edges(edges))
        negatives, positives = (
            np.diff(norm.cdf(x)),
            np.diff(norm.cdf(x - self.distance)),
        )
        found = np.concatenate(
            [(1 - self.prevalence) * negatives, self.prevalence * positives]
        )
        shares: FloatVector = found / found.sum()
        return shares

    @cached_property
    def rates(self) -> tuple[float, float]:
        """Return recall and false positive rate at the threshold."""
        x = float(self.place(np.array([THRESHOLD]))[0])
        return float(norm.sf(x - self.distance)), float(norm.sf(x))

    @property
    def predicted(self) -> float:
        """Return the share of examples at or above the threshold."""
        recall, fpr = self.rates
        return self.prevalence * recall + (1 - self.prevalence) * fpr

    @cached_property
    def truth(self) -> dict[str, float]:
        """Return the population's values, by quadrature."""
        pi, d = self.prevalence, self.distance

        def precision(x: float) -> float:
            tp, fp = pi * norm.sf(x - d), (1 - pi) * norm.sf(x)
            return float(tp / (tp + fp))

        def loss(x: float) -> float:
            odds = pi / (1 - pi) * math.exp(d * x - d * d / 2)
            s = odds / (1 + odds)
            hit, miss = pi * norm.pdf(x - d), (1 - pi) * norm.pdf(x)
            return float(hit * (1 - s) ** 2 + miss * s**2)

        ap, _ = quad(lambda x: norm.pdf(x - d) * precision(x), -8, 8 + d, limit=200)
        brier, _ = quad(loss, -9, 9 + d, limit=200)
        recall = self.rates[0]
        return {
            "auc": self.auc,
            "average_precision": ap,
            "precision": pi * recall / self.predicted,
            "recall": recall,
            "brier": brier,
        }


@dataclass(frozen=True)
class Cell:
    """One population, one size, one noise."""

    population: Population
    examples: int
    epsilon: float | None

    @cached_property
    def edges(self) -> Edges:
        """Return the bins that a plan from these public facts has."""
        privacy = (
            SecureAggregation()
            if self.epsilon is None
            else DistributedDP(epsilon=self.epsilon)
        )
        facts = PublicFacts(
            examples=self.examples, prevalence=self.population.prevalence
        )
        statistic = recommend(facts, privacy).rounds[-1].statistic
        if not isinstance(statistic, ClassHistogram):
            raise TypeError("the bench reads class histograms")
        return statistic.edges

    @property
    def estimator(self) -> Estimator:
        """Return the default estimator for this noise."""
        return Flat() if self.epsilon is None else Smooth()

    def may_be_unusable(self, metric: str) -> bool:
        """Say whether too little is expected for an interval to be sure."""
        minority = self.examples * self.population.prevalence
        if minority < 50 or minority * (self.epsilon or 1) < 50:
            return True
        predicted = self.examples * self.population.predicted
        return metric == "precision" and predicted < 20

    def simulate(self, rng: np.random.Generator) -> NoisyHistogram:
        """Draw a test set and the noise of its release."""
        counts = rng.multinomial(self.examples, self.population.cells(self.edges))
        exact = counts.astype(np.float64)
        noise: NoiseDistribution = NoNoise()
        if self.epsilon is not None:
            exact += simulate_discrete_laplace(1 / self.epsilon, exact.shape, rng)
            noise = LaplaceNoise(1 / self.epsilon)
        negatives, positives = np.split(exact, 2)
        return NoisyHistogram(self.edges, negatives, positives, noise)

    def __str__(self) -> str:
        noise = "exact" if self.epsilon is None else f"eps {self.epsilon:g}"
        p = self.population
        return f"{p.auc:.2f} {self.examples:>6,} {p.prevalence:>4g} {noise:>7}"


class Outcome(NamedTuple):
    """What one repetition said about one metric."""

    value: float
    low: float
    high: float
    usable: bool
    released: float
    """The value whose spread the oracle knows."""


def read(cell: Cell, release: NoisyHistogram) -> dict[str, Outcome]:
    """Read a release as an evaluation does."""
    fit = cell.estimator.fit(release)
    areas = measures(fit, ("auc", "average_precision", "brier"))
    at = at_threshold(fit, THRESHOLD)
    alone = at_threshold(replace(fit, counts=release), THRESHOLD)
    return {
        **{metric: _outcome(found, found) for metric, found in areas.items()},
        "precision": _outcome(at.precision, alone.precision),
        "recall": _outcome(at.recall, alone.recall),
    }


def _outcome(found: Estimate, released: Estimate) -> Outcome:
    low, high = found.interval(0.95)
    usable = found.unusable is None and found.caution is None
    return Outcome(found.value, low, high, usable, released.value)


@dataclass
class Tally:
    """Coverage and width of one metric in one cell."""

    truth: float
    outcomes: list[Outcome] = field(default_factory=list)

    @cached_property
    def table(self) -> FloatArray:
        """Return the outcomes that gave a number, one a row."""
        rows = np.array(self.outcomes, dtype=np.float64).reshape(-1, 5)
        numbers: FloatArray = rows[~np.isnan(rows[:, 0])]
        return numbers

    @property
    def coverage(self) -> float:
        """Return the share of intervals that hold the truth."""
        low, high = self.table[:, 1], self.table[:, 2]
        return float(np.mean((low <= self.truth) & (self.truth <= high)))

    @property
    def usable(self) -> float:
        """Return the share of repetitions with a number and no caution."""
        return float(self.table[:, 3].sum() / len(self.outcomes))

    @property
    def width(self) -> float:
        """Return the mean width over that of the middle 95% of the errors."""
        released = np.clip(self.table[:, 4], 0, 1)
        low, high = np.quantile(released[~np.isnan(released)], (0.025, 0.975))
        if high <= low:
            return math.nan
        return float(np.mean(self.table[:, 2] - self.table[:, 1]) / (high - low))


def measure(cell: Cell, repetitions: int, seed: int) -> dict[str, Tally]:
    """Repeat one cell."""
    rng = np.random.default_rng([seed, cell.examples, int(1000 * cell.population.auc)])
    tallies = {metric: Tally(cell.population.truth[metric]) for metric in METRICS}
    for _ in range(repetitions):
        for metric, outcome in read(cell, cell.simulate(rng)).items():
            tallies[metric].outcomes.append(outcome)
    return tallies


def rows(cell: Cell, tallies: dict[str, Tally]) -> Iterator[dict[str, object]]:
    """Flatten a cell's tallies: one row a metric."""
    for metric, tally in tallies.items():
        some = len(tally.table) >= FEWEST_REPETITIONS
        yield {
            "cell": str(cell),
            "metric": metric,
            "coverage": tally.coverage if some else math.nan,
            "width": tally.width if some else math.nan,
            "usable": tally.usable,
            "exempt": cell.may_be_unusable(metric),
            "repetitions": len(tally.outcomes),
        }


def line(cell: Cell, found: Sequence[dict[str, object]]) -> str:
    """Print one cell: coverage, width ratio and usable share of each metric."""
    parts = []
    for row in found:
        coverage, width = float(str(row["coverage"])), float(str(row["width"]))
        text = (
            "refused"
            if math.isnan(coverage)
            else f"{100 * coverage:.1f}{_mark(coverage)} {width:.2f}"
        )
        parts.append(f"{f'({text})' if row['exempt'] else text:>14}")
        parts.append(f"{100 * float(str(row['usable'])):>4.0f}%")
    return f"{cell} {len(cell.edges):>5}" + "".join(parts)


def _mark(coverage: float) -> str:
    return "" if LOWEST <= coverage <= HIGHEST else "*"


def picture(path: Path, repetitions: int, seed: int) -> None:
    """Draw how far AUC strays on small test sets, and the intervals that say so."""
    from matplotlib import figure as drawing  # noqa: PLC0415 - slow to import

    rng = np.random.default_rng(seed)
    figure = drawing.Figure(figsize=(9, 4.5), layout="constrained")
    spread, stacked = figure.subplots(1, 2)
    place = 0
    for color, (examples, prevalence, epsilon) in SHOWN.items():
        cell = Cell(Population(0.77, prevalence), examples, epsilon)
        noise = "exact" if epsilon is None else f"eps {epsilon:g}"
        name = f"{examples:,} examples, {prevalence:.0%} positives, {noise}"
        found = [read(cell, cell.simulate(rng))["auc"] for _ in range(repetitions)]
        spread.hist(
            [outcome.value for outcome in found],
            bins=list(np.linspace(0.65, 0.89, 41)),
            density=True,
            histtype="step",
            color=color,
            label=name,
        )
        for outcome in found[:25]:
            held = outcome.low <= cell.population.auc <= outcome.high
            stacked.plot(
                [outcome.low, outcome.high],
                [place, place],
                color=color if held else "tab:red",
                linewidth=1 if held else 2,
            )
            stacked.plot(outcome.value, place, "k.", markersize=3)
            place += 1
        stacked.text(
            *(0.02, place + 0.5), name, transform=stacked.get_yaxis_transform()
        )
        place += 6
    stacked.set_ylim(-3, place)
    for axes in (spread, stacked):
        axes.axvline(0.77, color="black", linewidth=0.8, linestyle=":")
        axes.set_xlabel("AUC (the population's is 0.77)")
        axes.set_yticks([])
    spread.set_title("AUC over repeated test sets")
    spread.legend(fontsize=7, loc="upper left")
    spread.set_ylim(0, 1.3 * spread.get_ylim()[1])
    stacked.set_title("95% interval from one test set each; red: it misses")
    figure.savefig(path, dpi=120)


def save(counted: Sequence[dict[str, object]], chosen: argparse.Namespace) -> None:
    """Write one row a metric and kind of noise, over the cells that must be usable."""
    table: list[list[str | Figure]] = []
    for noise in dict.fromkeys(str(r["cell"]).split(maxsplit=3)[3] for r in counted):
        for metric, title in zip(METRICS, TITLES, strict=True):
            each = [
                r
                for r in counted
                if r["metric"] == metric and str(r["cell"]).endswith(noise)
            ]
            held = np.array([float(str(r["coverage"])) for r in each])
            width = [float(str(r["width"])) for r in each]
            within = int(np.count_nonzero((held >= LOWEST) & (held <= HIGHEST)))
            table.append(
                [
                    noise if noise != "exact" else "exact sums",
                    title,
                    Figure(len(each), digits=0),
                    f"{100 * held.mean():.1f} ({100 * held.min():.1f})",
                    Figure(within, digits=0),
                    Figure(float(np.median(width))),
                ]
            )
    evidence = Evidence(
        "coverage",
        FITS,
        {
            "repetitions": chosen.repetitions,
            "seed": chosen.seed,
            "areas": chosen.areas,
            "sizes": chosen.sizes,
            "prevalences": PREVALENCES,
        },
    )
    limits = f"within {100 * LOWEST:g} to {100 * HIGHEST:g}%"
    columns = ("noise", "asked", "cells", "coverage (least)", limits, "median width")
    evidence.table("binormal", columns, table)
    evidence.save()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--noise", nargs="+", default=["exact", "1", "0.3"])
    parser.add_argument("--areas", nargs="+", type=float, default=[0.77, 0.93])
    parser.add_argument("--sizes", nargs="+", type=int, default=[200, 2000, 50_000])
    parser.add_argument("--seed", type=int, default=20251115)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--save", action="store_true", help="into results/")
    chosen = parser.parse_args()
    if chosen.picture is not None:
        picture(chosen.picture, min(chosen.repetitions, 300), chosen.seed)
        return
    head = "".join(f"{title:>14} use" + " " for title in TITLES)
    print(f"{'AUC':<4} {'n':>6} {'prev':>4} {'noise':>7} {'bins':>5}{head}")
    written: list[dict[str, object]] = []
    for noise in chosen.noise:
        for auc in chosen.areas:
            for examples in chosen.sizes:
                for prevalence in PREVALENCES:
                    cell = Cell(
                        Population(auc, prevalence),
                        examples,
                        None if noise == "exact" else float(noise),
                    )
                    exempt = cell.may_be_unusable("auc")
                    repetitions = chosen.repetitions // (4 if exempt else 1)
                    tallies = measure(cell, repetitions, chosen.seed)
                    found = list(rows(cell, tallies))
                    written += found
                    print(line(cell, found), flush=True)
    counted = [row for row in written if not row["exempt"]]
    good = [r for r in counted if LOWEST <= float(str(r["coverage"])) <= HIGHEST]
    print(
        f"{len(counted)} of {len(written)} cells must be usable; coverage lies in "
        f"{100 * LOWEST:g} to {100 * HIGHEST:g}% in {len(good)} of them"
    )
    if chosen.save:
        save(counted, chosen)
    if chosen.csv is not None:
        with chosen.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(written[0]))
            writer.writeheader()
            writer.writerows(written)


if __name__ == "__main__":
    main()
