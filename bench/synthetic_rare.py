"""Rare events and bent scores: coverage of intervals, and calibration.

Coverage: test sets drawn with replacement from six rare populations (prevalence .001 to
.02), at their own size, under eps 1 and exact sums; percent of nominal 95% intervals that
hold the population's value (``bench/hard_coverage.py`` says how).

Calibration: the scores of five populations, cubed and square-rooted. Half of the examples
fit the default map, the other half tests it: mean ECE over 15 bins, x 1e-4, under eps 1
and under exact sums. "within": at most 1.5 times that of exact sums, or .004 above it.

    python bench/synthetic_rare.py [--tables coverage calibration] [--repetitions 300]
        [--halves 10] [--save]

Saved is the calibration.
"""

from __future__ import annotations

import argparse
import math
from typing import Final

import numpy as np

import evidence
from calibration import DEFAULT, MODELS, ece, release
from discreet.arrays import FloatVector, IntVector
from discreet.plan.privacy_model import PrivacyModel
from discreet.recalibrate import fit
from hard_coverage import Cell, Target, measure
from synthetic import Population, population

RARE: Final = (
    "rare-800k-p001-sd1.2",
    "rare-500k-p002-sd2.5",
    "rare-150k-p004-sd1.6",
    "rare-120k-p007-sd.7",
    "rare-60k-p015-sd3",
    "rare-180k-p02-sd1.3",
)
ASKED: Final = ("auc", "average_precision", "recall declared", "recall between")
BENT: Final = (
    "cal-15k-p12-sd1.3",
    "cal-70k-p08-sd1.8",
    "cal-150k-p45-sd1.4",
    "rare-180k-p02-sd1.3",
    "beta-25k-p20",
)
POWERS: Final = {"cubed": 3.0, "square root": 0.5}
NOISES: Final = {"exact sums": "exact sums", "eps 1": "distributed, eps = 1"}
MOST_TIMES, MOST_ABOVE = 1.5, 0.004


def coverage(repetitions: int) -> None:
    print(f"coverage of 95% intervals, {repetitions} test sets: {', '.join(ASKED)}")
    for name in RARE:
        data = population(name)
        for noise in ("1", "exact"):
            found = measure(Cell(Target(data), data.examples, noise), repetitions, 2026)
            parts = "".join(f"{found[asked].coverage:9.1%}" for asked in ASKED)
            title = "exact" if noise == "exact" else f"eps {noise}"
            print(f"{name:26}{title:>7}{parts}", flush=True)


def rows(data: Population) -> tuple[FloatVector, IntVector]:
    """Return scores and labels, one an example."""
    scores = np.tile(data.scores, 2).repeat(data.counts.ravel())
    return scores, np.repeat([0, 1], data.counts.sum(axis=1))


def error_after_map(
    scores: FloatVector, labels: IntVector, privacy: PrivacyModel, halves: int
) -> float:
    """Return the mean held-out ECE of the default map."""
    found = []
    for seed in range(halves):
        rng = np.random.default_rng([seed, labels.size])
        first, second = np.split(rng.permutation(labels.size), [labels.size // 2])
        observed, counts = release(privacy, scores[first], labels[first], rng)
        fitted = fit(observed, counts, method=DEFAULT)
        found.append(ece(fitted.apply(scores[second]), labels[second]))
    return math.fsum(found) / halves


def calibration(halves: int) -> evidence.Evidence:
    print(f"held-out ECE x 1e-4 after the default map, {halves} halves")
    within = 0
    table: list[list[evidence.Cell]] = []
    for name in BENT:
        scores, labels = rows(population(name))
        public: list[evidence.Cell] = [
            f"{labels.size:,}",
            evidence.Figure(float(labels.mean())),
        ]
        for bent, power in POWERS.items():
            raw = ece(scores**power, labels)
            errors = {
                title: error_after_map(scores**power, labels, MODELS[model], halves)
                for title, model in NOISES.items()
            }
            exact, noisy = errors["exact sums"], errors["eps 1"]
            good = noisy <= max(MOST_TIMES * exact, exact + MOST_ABOVE)
            within += good
            shown = (evidence.Figure(1e4 * e, digits=0) for e in (raw, exact, noisy))
            table.append([*public, bent, *shown, "yes" if good else "no"])
            print(
                f"{name:26}{bent:>12}: as they are {1e4 * raw:6.0f}, exact sums "
                f"{1e4 * exact:5.0f}, eps 1 {1e4 * noisy:5.0f} "
                f"{'within' if good else 'not within'}",
                flush=True,
            )
    print(f"within: {within} of {len(BENT) * len(POWERS)}")
    saved = evidence.Evidence(
        "synthetic_rare", (*evidence.FITS, "recalibrate"), {"halves": halves}
    )
    columns = ("examples", "prevalence", "scores", "as they are", *NOISES, "within")
    saved.table("calibration", columns, table)
    return saved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tables = ("coverage", "calibration")
    parser.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--halves", type=int, default=10)
    parser.add_argument("--save", action="store_true", help="into results/")
    options = parser.parse_args()
    if "calibration" in options.tables:
        found = calibration(options.halves)
        if options.save:
            found.save()
    if "coverage" in options.tables:
        coverage(options.repetitions)


if __name__ == "__main__":
    main()
