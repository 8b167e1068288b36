"""Recalibration: held-out calibration error of every map under three privacy models.

    python bench/calibration.py [--halves 100] [--tables maps bins sizes] [--sets ...]
        [--save]

Half of the examples fit, half test; the split and the noise are drawn anew for each
half. ECE is that of the positive class over 15 bins of equal width, x 1e4. Three
tables:

- maps: every map and the default, beside known figures; ratios of the default to the
  best map; whether the default is harmful (mean difference from uncalibrated, in
  standard errors); the Brier score, which ECE alone does not protect.
- bins: ECE over 5 to 100 evaluation bins beside uncalibrated scores and scikit-learn's
  isotonic regression of the pooled half (Cormode and Markov 2023, figure 5), for a fifth
  of the halves.
- sizes: ECE of the default over the number of fitted examples, for two fifths of them.

The rule of the default was fixed on the adult and bank sets. Noise is simulated: the
tests show that it has the mechanisms' distribution.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from sklearn.isotonic import IsotonicRegression

from datasets import load, needs
from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.estimate.fit import Flat
from discreet.estimate.smooth_fit import Smooth
from discreet.models.distributed import DistributedDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.noise.arc_decoder import decode
from discreet.noise.laplace import LaplaceNoise, simulate_discrete_laplace
from discreet.noise.mechanism import NoNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.recalibrate import fit
from discreet.recalibrate.stepwise import fit_binning
from discreet.statistic import ClassHistogram
from discreet.statistic.observed import NoisyHistogram
from evidence import FITS, Cell, Evidence, Figure

SETS: Final = (
    "adult-lr",
    "adult-xgb",
    "bank-xgb",
    "cover-xgb",
    "adult-xgb-oof",
    "bank-xgb-oof",
)
MODELS: Final[dict[str, PrivacyModel]] = {
    "exact sums": SecureAggregation(),
    "distributed, eps = 1": DistributedDP(epsilon=1),
    "local, eps = 5": LocalDP(epsilon=5),
}
KNOWN: Final = {
    "exact sums": ("10 quantile bins", (87, 49, 29, 14)),
    "distributed, eps = 1": ("10 quantile bins", (100, 87, 32, 14)),
    "local, eps = 5": ("isotonic, 32 bins, unary", (176, 141, 77, 44)),
}
"""Known figures for the first four sets."""
MAPS: Final = ("identity", "binning", "bbq", "isotonic", "platt", "beta")
DEFAULT: Final = "auto"
TEN: Final = "10 quantile bins"
BINS: Final = (5, 10, 15, 20, 30, 50, 75, 100)
SIZES: Final = (500, 2_000, 8_000, 32_000, 128_000)
CENTRAL: Final = "central isotonic, no privacy"
LABELS: Final = {"identity": "uncalibrated", DEFAULT: "**default**"}
Rows: TypeAlias = list[list[Cell]]
Table: TypeAlias = tuple[Sequence[str], Rows]
Tables: TypeAlias = dict[str, Table]
Releases: TypeAlias = tuple[NoisyHistogram, NoisyHistogram]


@cache
def rows_of(name: str) -> tuple[FloatVector, IntVector]:
    """Read scores and labels once."""
    data = load(name)
    return data.scores, data.labels


@cache
def edges_of(privacy: PrivacyModel, examples: int, prevalence: float) -> Edges:
    """Return the edges that a plan takes from rough public facts."""
    facts = PublicFacts(examples=examples, prevalence=round(prevalence, 2))
    statistic = recommend(facts, privacy).statistic
    if not isinstance(statistic, ClassHistogram):
        raise TypeError("these plans count a class histogram")
    return statistic.edges


def release(
    privacy: PrivacyModel,
    scores: FloatVector,
    labels: IntVector,
    rng: np.random.Generator,
) -> Releases:
    """Return a simulated release and what the default estimator reads it as."""
    edges = edges_of(privacy, labels.size, float(labels.mean()))
    bins = len(edges)
    cells = edges.bins_of(scores).astype(np.int64) + bins * labels
    exact = np.bincount(cells, minlength=2 * bins).astype(np.int64)
    match privacy:
        case DistributedDP(epsilon=epsilon):
            scale = 1 / float(epsilon)
            noisy = exact + simulate_discrete_laplace(scale, exact.shape, rng)
            found = NoisyHistogram(
                edges, noisy[:bins], noisy[bins:], LaplaceNoise(scale)
            )
            return found, Smooth().fit(found).counts
        case LocalDP(epsilon=epsilon):
            arc = CircularArc(Fraction(epsilon), edges)
            decoded = decode(simulate_arc_counts(arc, exact, rng), arc)
            found = ClassHistogram(edges).parts(decoded.counts, decoded.noise)[""]
            return found, Flat().fit(found).counts
        case _:
            counts = exact.astype(np.float64)
            found = NoisyHistogram(edges, counts[:bins], counts[bins:], NoNoise())
            return found, found


def ece(said: FloatVector, labels: IntVector, bins: int = 15) -> float:
    """Return the calibration error of the positive class, from examples."""
    place = np.minimum((said * bins).astype(np.int64), bins - 1)
    off = np.bincount(place, said - labels, bins)
    return float(np.abs(off).sum()) / labels.size


@dataclass
class Column:
    """The errors of every map on one data set."""

    errors: dict[str, list[float]] = field(default_factory=dict)
    brier: dict[str, list[float]] = field(default_factory=dict)
    chosen: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, said: FloatVector, labels: IntVector) -> None:
        """Measure one map on one half."""
        self.errors.setdefault(name, []).append(1e4 * ece(said, labels))
        squared = float(np.mean((said - labels) ** 2))
        self.brier.setdefault(name, []).append(1e4 * squared)

    def mean(self, name: str) -> float:
        """Return a map's mean calibration error."""
        return float(np.mean(self.errors[name]))

    def ratio(self) -> float:
        """The default's error over that of the best map."""
        return self.mean(DEFAULT) / min(self.mean(name) for name in MAPS)

    def harm(self) -> float:
        """The default's mean loss beside uncalibrated, in standard errors."""
        lost = np.subtract(self.errors[DEFAULT], self.errors["identity"])
        spread = float(lost.std(ddof=1)) / math.sqrt(lost.size)
        return float(lost.mean()) / spread if spread > 0 else 0.0


def halves(name: str, count: int) -> list[tuple[IntVector, IntVector]]:
    """Draw random halves of a data set."""
    rows = rows_of(name)[1].size
    found = []
    for seed in range(count):
        order = np.random.default_rng([seed, rows]).permutation(rows)
        found.append((order[: rows // 2], order[rows // 2 :]))
    return found


def measure(name: str, privacy: PrivacyModel, count: int) -> Column:
    """Fit and test every map."""
    scores, labels = rows_of(name)
    column = Column()
    for seed, (first, second) in enumerate(halves(name, count)):
        rng = np.random.default_rng([seed, labels.size, 1])
        observed, counts = release(privacy, scores[first], labels[first], rng)
        for method in (*MAPS, DEFAULT):
            fitted = fit(observed, counts, method=method)
            column.add(method, fitted.apply(scores[second]), labels[second])
            if method == DEFAULT:
                column.chosen[fitted.name] += 1
        ten = fit_binning(counts, bins=10)
        column.add(TEN, ten.apply(scores[second]), labels[second])
    return column


def row(label: str, values: Sequence[float], digits: int = 0) -> list[Cell]:
    """Return a row of a table; what is not known is left empty."""
    cells = ("" if math.isnan(v) else Figure(v, digits=digits) for v in values)
    return [label, *cells]


def show(title: str, columns: Sequence[str], rows: Rows) -> Table:
    """Print a table, and return it."""
    print(f"\n{title}")
    for line in (columns, *rows):
        print(f"  {line[0]!s:32}" + "".join(f"{cell!s:>21}" for cell in line[1:]))
    sys.stdout.flush()
    return columns, rows


def table_of_maps(count: int, sets: Sequence[str]) -> Tables:
    tables = {}
    for title, privacy in MODELS.items():
        found = [measure(name, privacy, count) for name in sets]
        rows = [
            row(LABELS.get(name, f"`{name}`"), [c.mean(name) for c in found])
            for name in (*MAPS, DEFAULT)
        ]
        rows.append(row("default / best map", [c.ratio() for c in found], 2))
        rows.append(row("harm in standard errors", [c.harm() for c in found], 1))
        kept = [100 * c.chosen["identity"] / count for c in found]
        rows.append(row("default keeps the scores, %", kept))
        label, known = KNOWN[title]
        figures = dict(zip(SETS, known, strict=False))
        rows.extend(
            (
                row(f"known: {label}", [figures.get(s, math.nan) for s in sets]),
                row(f"ECE, {TEN}", [c.mean(TEN) for c in found]),
            )
        )
        for name in ("identity", "beta", DEFAULT, TEN):
            brier = [float(np.mean(c.brier[name])) for c in found]
            rows.append(row(f"Brier, {LABELS.get(name, name).strip('*')}", brier))
        tables[f"maps-{short(title)}"] = show(
            f"held-out ECE x 1e4, {count} halves", (title, *sets), rows
        )
    return tables


def short(title: str) -> str:
    """Return the first word of a privacy model's title."""
    return title.split(maxsplit=1)[0].rstrip(",")


def table_of_bins(count: int, sets: Sequence[str]) -> Tables:
    count = max(count // 5, 1)
    tables = {}
    for name in sets:
        scores, labels = rows_of(name)
        errors: dict[str, list[list[float]]] = {}
        for seed, (first, second) in enumerate(halves(name, count)):
            said = {
                "uncalibrated": scores[second],
                CENTRAL: IsotonicRegression(out_of_bounds="clip")
                .fit(scores[first], labels[first])
                .predict(scores[second]),
            }
            for title, privacy in MODELS.items():
                rng = np.random.default_rng([seed, labels.size, 2])
                found = release(privacy, scores[first], labels[first], rng)
                said[f"default, {title}"] = fit(*found).apply(scores[second])
                said[f"`bbq`, {title}"] = fit(*found, method="bbq").apply(
                    scores[second]
                )
            for label, values in said.items():
                each = [1e4 * ece(values, labels[second], bins) for bins in BINS]
                errors.setdefault(label, []).append(each)
        tables[f"bins-{name}"] = show(
            f"{name}: held-out ECE x 1e4 over evaluation bins, {count} halves",
            ("evaluation groups", *map(str, BINS)),
            [row(label, np.mean(all_, axis=0)) for label, all_ in errors.items()],
        )
    return tables


def table_of_sizes(count: int, sets: Sequence[str]) -> Tables:
    count = max(2 * count // 5, 2)
    rows, worst = [], []
    for name in sets:
        scores, labels = rows_of(name)
        sizes = [size for size in SIZES if size <= labels.size // 2]
        parts = halves(name, count)
        blank = [math.nan] * (len(SIZES) - len(sizes))
        raw = float(np.mean([1e4 * ece(scores[b], labels[b]) for _, b in parts]))
        rows.append(row(f"{name}, uncalibrated", [raw] * len(sizes) + blank))
        for title, privacy in MODELS.items():
            means, harm = [], []
            for size in sizes:
                found = Column()
                for seed, (first, second) in enumerate(parts):
                    rng = np.random.default_rng([seed, size, 3])
                    own = first[:size]
                    both = release(privacy, scores[own], labels[own], rng)
                    said = fit(*both).apply(scores[second])
                    found.add(DEFAULT, said, labels[second])
                    found.add("identity", scores[second], labels[second])
                means.append(found.mean(DEFAULT))
                harm.append(found.harm())
            rows.append(row(title, means + blank))
            worst.append(row(f"{name}, {title}", harm + blank, 1))
    columns = ("examples to fit", *(f"{size:,}" for size in SIZES))
    return {
        "sizes": show(f"held-out ECE x 1e4, {count} draws", columns, rows),
        "sizes-harm": show("harm in standard errors", columns, worst),
    }


TABLES: Final[dict[str, Callable[[int, Sequence[str]], Tables]]] = {
    "maps": table_of_maps,
    "bins": table_of_bins,
    "sizes": table_of_sizes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--halves", type=int, default=100)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--save", action="store_true", help="into results/")
    arguments = parser.parse_args()
    needs(*arguments.sets)
    evidence = Evidence(
        "calibration",
        (*FITS, "recalibrate"),
        {"halves": arguments.halves, "sets": arguments.sets},
    )
    for name in arguments.tables:
        made = TABLES[name](arguments.halves, arguments.sets)
        for part, (columns, rows) in made.items():
            evidence.table(part, columns, rows)
    if arguments.save:
        evidence.save()


if __name__ == "__main__":
    main()
