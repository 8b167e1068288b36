"""Coverage of the calibration errors' intervals: well and badly calibrated models.

Binormal scores as posterior probabilities p, reported as logit s = a logit p + b.
The target is the population's expected (15 groups of equal width) and maximum
calibration error, by quadrature.

    python bench/calibration_coverage.py [--half tuning|held-out] [--repetitions 500]
        [--noise exact 1]

Columns: the population's ECE, the mean of the values seen, the share of 95%
intervals that hold the population's, their mean width over that of the middle 95%
of the values; then the coverage of the maximum calibration error. Populations of the
``tuning`` half were used to choose how intervals are made; docs quote the other.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy.stats import norm

from coverage import Cell, Population
from discreet.arrays import FloatVector
from discreet.estimate.estimate import Estimate
from discreet.metrics.calibration import (
    DEFAULT_BINS,
    expected_calibration_error,
    maximum_calibration_error,
)
from evidence import FITS, Evidence, Figure


class Half(NamedTuple):
    """The populations of one half."""

    areas: tuple[float, ...]
    sizes: tuple[tuple[int, float], ...]
    """Examples and prevalence."""
    distortions: tuple[tuple[float, float], ...]
    """Stretch and shift of the logits."""


HALVES: Final = {
    "tuning": Half(
        (0.7, 0.85),
        ((3000, 0.3), (3000, 0.07), (30_000, 0.3), (30_000, 0.07)),
        ((1.0, 0.0), (1.2, 0.0), (0.75, 0.0), (1.0, -0.4), (1.0, 0.15)),
    ),
    "held-out": Half(
        (0.77, 0.93),
        ((2000, 0.5), (2000, 0.1), (50_000, 0.5), (50_000, 0.1)),
        ((1.0, 0.0), (1.1, 0.0), (1.5, 0.0), (1.0, 0.5)),
    ),
}
_FINE: Final = 4000


@dataclass(frozen=True)
class Distorted(Population):
    """Posterior probabilities, stretched and shifted on the logit scale."""

    stretch: float
    shift: float

    def place(self, score: FloatVector) -> FloatVector:
        """Return the normal variable that is reported as this score."""
        with np.errstate(divide="ignore"):
            odds = (np.log(score) - np.log1p(-score) - self.shift) / self.stretch
        prior = math.log(self.prevalence / (1 - self.prevalence))
        found: FloatVector = (odds - prior) / self.distance + self.distance / 2
        return found

    def errors(self) -> tuple[float, float]:
        """Return the population's expected and maximum calibration error."""
        ends = np.linspace(0, 1, DEFAULT_BINS * _FINE + 1)
        x = self.place(ends)
        n = (1 - self.prevalence) * np.diff(norm.cdf(x))
        p = self.prevalence * np.diff(norm.cdf(x - self.distance))
        middle = (ends[1:] + ends[:-1]) / 2
        off = (p - (n + p) * middle).reshape(DEFAULT_BINS, -1).sum(axis=1)
        total = (n + p).reshape(DEFAULT_BINS, -1).sum(axis=1)
        # The maximum is over groups that a sample can fill.
        each = np.abs(off) / np.maximum(total, 1e-300)
        return float(np.abs(off).sum()), float(each[total > 1e-3].max())


def holds(found: Estimate, truth: float) -> bool:
    """Say whether an interval holds the truth."""
    low, high = found.interval()
    return low <= truth <= high


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=tuple(HALVES), default="held-out")
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--noise", nargs="+", default=["exact", "1"])
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--save", action="store_true", help="into results/")
    chosen = parser.parse_args()
    rows: list[Row] = []
    print("AUC       n prev   noise    a    b      ECE   mean  cover width  MCE cover")
    half = HALVES[chosen.half]
    for noise in chosen.noise:
        for auc in half.areas:
            for examples, prevalence in half.sizes:
                for stretch, shift in half.distortions:
                    population = Distorted(auc, prevalence, stretch, shift)
                    epsilon = None if noise == "exact" else float(noise)
                    found = row(
                        Cell(population, examples, epsilon),
                        population,
                        chosen.repetitions,
                        chosen.seed,
                    )
                    rows.append(found)
    if chosen.save:
        save(rows, chosen)


class Row(NamedTuple):
    """One cell: its noise, coverage and width of the ECE, coverage of the MCE."""

    noise: str
    coverage: float
    width: float
    largest: float


def save(rows: list[Row], chosen: argparse.Namespace) -> None:
    """Write one row a kind of noise."""
    table: list[list[str | Figure]] = []
    for noise in dict.fromkeys(r.noise for r in rows):
        each = [r for r in rows if r.noise == noise]
        held, width = np.array([r.coverage for r in each]), [r.width for r in each]
        largest = np.array([r.largest for r in each])
        table.append(
            [
                noise,
                Figure(len(each), digits=0),
                f"{100 * held.mean():.1f} ({100 * held.min():.1f})",
                f"{np.median(width):.2f} ({max(width):.2f})",
                f"{100 * largest.mean():.1f} ({100 * largest.min():.1f})",
            ]
        )
    evidence = Evidence(
        "calibration_coverage",
        FITS,
        {
            "repetitions": chosen.repetitions,
            "seed": chosen.seed,
            "half": chosen.half,
        },
    )
    columns = ("noise", "cells", "ECE (least)", "median width (largest)", "MCE (least)")
    evidence.table("coverage", columns, table)
    evidence.save()


def row(cell: Cell, population: Distorted, repetitions: int, seed: int) -> Row:
    """Repeat one cell and print it."""
    ece, mce = population.errors()
    rng = np.random.default_rng([seed, cell.examples])
    seen, widths, held, largest = [], [], [], []
    for _ in range(repetitions):
        fit = cell.estimator.fit(cell.simulate(rng))
        counts = fit.counts
        found = expected_calibration_error(counts, response=fit.response)
        low, high = found.interval()
        seen.append(found.value)
        widths.append(high - low)
        held.append(low <= ece <= high)
        largest.append(holds(maximum_calibration_error(counts), mce))
    first, last = np.quantile(seen, (0.025, 0.975))
    print(
        f"{cell} {population.stretch:>4g} {population.shift:>4g}  {ece:.4f} "
        f"{np.mean(seen):.4f} {100 * np.mean(held):>5.1f}% "
        f"{np.mean(widths) / (last - first):>5.2f} {100 * np.mean(largest):>7.1f}%",
        flush=True,
    )
    return Row(
        "exact sums" if cell.epsilon is None else f"eps {cell.epsilon:g}",
        float(np.mean(held)),
        float(np.mean(widths) / (last - first)),
        float(np.mean(largest)),
    )


if __name__ == "__main__":
    main()
