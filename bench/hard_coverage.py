"""Coverage of intervals where it is hard: real scores, ties, few positives, local noise.

Each repetition draws a test set from a population with replacement, carries out the plan
that public facts recommend, and asks the evaluation as a user would. The target is the
population's own value. Of two thresholds, near the median and the lower third of the
positives' scores, the plan declares the first.

    python bench/hard_coverage.py [--of real made shared trained] [--half tuning|held-out]
        [--repetitions 100] [--only TEXT] [--noise 1 .3 local label exact] [--asked ece]
        [--csv FILE] [--save]

Populations: ``real`` (``bench/real_sets.py``: nothing was chosen on them), ``made`` here,
``shared`` (``../shared/data``), ``trained`` here (``bench/trained.py``). The ``tuning`` half
of the last three was used to choose how intervals are made; docs quote the other.
Each entry: percent of nominal 95% intervals that hold the population's value, and the
mean width over the middle 95% of the values that were estimated.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from coverage import Outcome, Tally
from datasets import lacking
from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.estimate.estimate import Estimate
from discreet.label.public_scores import PublicScores
from discreet.metrics.calibration import DEFAULT_BINS
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP, plan_curves
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.noise.mechanism import AdditiveNoise
from discreet.noise.response import RandomizedResponse, simulate_response
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan, recommend
from discreet.plan.rounds import Release
from discreet.report.build import evaluation
from discreet.report.evaluation import Evaluation
from discreet.report.views import calibratable
from evidence import FITS, Evidence, Figure
from real_sets import real_sets
from synthetic import (
    Make,
    Population,
    calibrated,
    from_examples,
    heaped,
    population,
    rounded,
    saturated,
)
from trained import trained

AREAS: Final = ("auc", "average_precision", "brier")
RATES: Final = ("recall", "precision", "specificity")
ASKED: Final = (
    *AREAS,
    "ece",
    *(f"{rate} {where}" for where in ("declared", "between") for rate in RATES),
)
FEWEST: Final = 25
LOWEST, HIGHEST, POOR = 0.93, 0.98, 0.91


class Row(NamedTuple):
    """What was seen of one quantity in one cell."""

    source: str
    population: str
    examples: int
    noise: str
    asked: str
    coverage: float
    width: float
    usable: float
    refused: float


_ROWS: Final = 200_000
MADE: Final[dict[str, tuple[bool, Make]]] = {
    "votes50-p20": (False, rounded(calibrated(0.2, 1.6), 50)),
    "cents-p10": (False, rounded(calibrated(0.1, 1.5), 100)),
    "head-p11": (False, saturated(calibrated(0.11, 1.6), 0.55)),
    "head-p05": (False, saturated(calibrated(0.05, 1.6), 0.5)),
    "head-p07": (False, saturated(calibrated(0.07, 2.2), 0.75)),
    "head-p10": (False, saturated(calibrated(0.1, 2.0), 0.7)),
    "head-p25": (False, saturated(calibrated(0.25, 1.4), 0.7)),
    "rare-p005": (False, calibrated(0.005, 1.5)),
    "zeros-p08": (False, heaped(calibrated(0.08, 1.6), 0.3, at=0.0)),
    "votes50-p12": (True, rounded(calibrated(0.12, 1.8), 50)),
    "cents-p30": (True, rounded(calibrated(0.3, 1.3), 100)),
    "head-p08": (True, saturated(calibrated(0.08, 1.9), 0.6)),
    "rare-p007": (True, calibrated(0.007, 1.8)),
    "half-p50": (True, calibrated(0.5, 1.2)),
    "zeros-p15": (True, heaped(calibrated(0.15, 1.8), 0.25, at=0.0)),
}
"""Made populations: whether they are held out, and how they are made."""
REAL: Final = {
    "real:bank-xgb": False,
    "real:adult-xgb": False,
    "real:adult-knn5-oof": False,
    "real:adult-lr": True,
    "real:bank-xgb-oof": True,
    "real:cover-xgb": True,
    "real:ovarian-adnex": True,
}
"""Real ones, and whether they are held out."""


def load(name: str) -> Population:
    """Read or make a population, always the same."""
    if name.startswith("real:"):
        return population(name)
    seed = hashlib.sha256(f"hard {name}".encode()).digest()[:8]
    rng = np.random.default_rng(int.from_bytes(seed, "big"))
    scores, rates = MADE[name][1](rng, _ROWS)
    return from_examples(name, "", scores, (rng.random(_ROWS) < rates).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Target:
    """A population and what is asked of it."""

    population: Population

    @cached_property
    def thresholds(self) -> tuple[float, float]:
        """A declared threshold, and one between two edges."""
        share = np.cumsum(self.population.counts[1]) / self.population.counts[1].sum()
        declared, between = (
            min(
                float(f"{self.population.scores[np.searchsorted(share, at)]:.2g}"), most
            )
            for at, most in ((0.5, 0.999), (0.3, 0.998))
        )
        return declared, between

    @cached_property
    def truth(self) -> dict[str, float]:
        """The population's values."""
        s, (n, p) = self.population.scores, self.population.counts
        total = n.sum() + p.sum()
        group = np.minimum((s * DEFAULT_BINS).astype(int), DEFAULT_BINS - 1)
        off = np.bincount(group, p - s * (n + p), DEFAULT_BINS)
        found = {
            "auc": self.population.auc,
            "average_precision": self.population.average_precision,
            "brier": float(p @ (1 - s) ** 2 + n @ s**2) / total,
            "ece": float(np.abs(off).sum()) / total,
        }
        for where, t in zip(("declared", "between"), self.thresholds, strict=True):
            above = s >= t
            tp, fp = p[above].sum(), n[above].sum()
            found[f"recall {where}"] = tp / p.sum()
            found[f"precision {where}"] = tp / (tp + fp)
            found[f"specificity {where}"] = 1 - fp / n.sum()
        return found


@dataclass(frozen=True, eq=False)
class Cell:
    """A population, a size and a noise."""

    target: Target
    examples: int
    noise: str
    asked: tuple[str, ...] = ASKED

    @cached_property
    def plan(self) -> Plan:
        """The plan that true public facts recommend."""
        data = self.target.population
        declared = (self.target.thresholds[0],)
        if self.noise == "label":
            every = np.repeat(data.scores, data.counts.sum(axis=0))
            scores = every[:: max(every.size // self.examples, 1)]
            if data.scores.size < self.examples:  # public ties are all known
                scores = np.concatenate([scores, data.scores])
            unlabelled = Examples(scores, np.zeros(scores.size, dtype=np.int64))
            public = PublicScores.of([unlabelled])
            privacy = LabelDP(1, mechanism="response")
            return plan_curves(public, privacy, thresholds=declared)
        facts = PublicFacts(self.examples, data.prevalence)
        return recommend(facts, _privacy(self.noise), thresholds=declared)

    def run(self, rng: np.random.Generator) -> Evaluation:
        """Draw a test set and its release, and read it."""
        plan, this = self.plan, self.plan.resolve(0, [])
        (edges,) = this.statistic.binnings
        cells = self.target.population.cells(edges).ravel()
        exact = rng.multinomial(self.examples, cells / cells.sum()).astype(np.int64)
        mechanism = plan.privacy.mechanism_for(this, plan.cohort)
        sites = plan.cohort.min_survivors
        total: IntVector
        if isinstance(mechanism, AdditiveNoise):
            drawn = mechanism.noise(sites).sample(exact.astype(np.float64), 1, rng)[0]
            total = exact + np.rint(drawn).astype(np.int64)
        elif isinstance(mechanism, RandomizedResponse):
            response_key = simulate_response(exact, mechanism.flip_probability, 1, rng)[
                0
            ]
            total = response_key.astype(np.int64)
        else:
            total = mechanism.protect(exact, entropy=rng.bytes)
        release = Release(
            plan.digest(), b"simulated", 0, total, sites, sites, this.loss
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluation(plan, [release], plan.claim("simulated", sites=sites))

    def outcomes(self, result: Evaluation) -> Iterator[tuple[str, Outcome]]:
        """Return what was said about each quantity."""
        for name in AREAS:
            if name in self.asked:
                yield name, _outcome(result.metrics[name])
        if calibratable(result.fit) and "ece" in self.asked:
            yield "ece", _outcome(result.ece)
        if not any(name.endswith(("declared", "between")) for name in self.asked):
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for where, t in zip(
                ("declared", "between"), self.target.thresholds, strict=True
            ):
                at = result.at(t)
                for rate in RATES:
                    if f"{rate} {where}" in self.asked:
                        yield f"{rate} {where}", _outcome(at[rate])


def _privacy(noise: str) -> DistributedDP | LocalDP | SecureAggregation:
    match noise:
        case "exact":
            return SecureAggregation()
        case "local":
            return LocalDP(5)
        case _:
            return DistributedDP(noise)


def _outcome(found: Estimate) -> Outcome:
    low, high = found.interval(0.95)
    usable = found.unusable is None and found.caution is None
    return Outcome(found.value, low, high, usable, found.value)


def measure(cell: Cell, repetitions: int, seed: int) -> dict[str, Tally]:
    """Repeat one cell."""
    rng = np.random.default_rng([seed, cell.examples, len(cell.noise)])
    tallies = {name: Tally(cell.target.truth[name]) for name in cell.asked}
    for _ in range(repetitions):
        for name, outcome in cell.outcomes(cell.run(rng)):
            tallies[name].outcomes.append(outcome)
    return tallies


def bias(tally: Tally) -> float:
    """Return the mean error over the standard deviation of the values."""
    values: FloatVector = tally.table[:, 0]
    spread = float(values.std())
    return (float(values.mean()) - tally.truth) / spread if spread > 0 else math.nan


def entry(tally: Tally, *, biases: bool) -> str:
    if len(tally.table) < FEWEST:
        return f"{'none':>12}"
    mark = "" if LOWEST <= tally.coverage <= HIGHEST else "*"
    low = "!" if tally.coverage < POOR else ""
    found = f"{100 * tally.coverage:.0f}{mark}{low} {tally.width:.2f}"
    return (
        f"{found + (f' {bias(tally):+.1f}' if biases else ''):>{17 if biases else 12}}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=("tuning", "held-out"), default="held-out")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--sizes", nargs="+", type=int, default=[2_000, 20_000])
    parser.add_argument("--noise", nargs="+", default=["1", "0.3", "local", "label"])
    parser.add_argument("--only", default="", help="populations whose name holds this")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--asked", nargs="+", choices=ASKED, default=ASKED)
    parser.add_argument("--of", nargs="+", choices=SOURCES, default=["real", "made"])
    parser.add_argument("--save", action="store_true", help="into results/")
    parser.add_argument("--bias", action="store_true", help="print biases too")
    parser.add_argument("--csv", type=Path)
    chosen = parser.parse_args()
    rows: list[Row] = []
    print(f"{'population':26}{'n':>7}{'noise':>6}{'bins':>5}")
    print("".join(f"{name[:11]:>12}" for name in chosen.asked))
    for source in chosen.of:
        for data in SOURCES[source](held_out=chosen.half == "held-out"):
            if chosen.only not in data.name:
                continue
            target = Target(data)
            for noise in chosen.noise:
                for examples in chosen.sizes:
                    cell = Cell(target, examples, noise, tuple(chosen.asked))
                    rows += row(source, cell, chosen)
    summary(rows)
    if chosen.csv is not None:
        with chosen.csv.open("w", newline="") as file:
            csv.writer(file).writerows([Row._fields, *rows])
    if chosen.save:
        save(rows, chosen)


def made(*, held_out: bool) -> Iterator[Population]:
    return (load(name) for name, (other, _) in MADE.items() if other == held_out)


def shared(*, held_out: bool) -> Iterator[Population]:
    for name, is_held_out in REAL.items():
        if is_held_out != held_out:
            continue
        if line := lacking(name.removeprefix("real:")):
            print(line)
        else:
            yield load(name)


def real(*, held_out: bool) -> Iterator[Population]:
    return real_sets() if held_out else iter(())


SOURCES: Final = {"real": real, "made": made, "shared": shared, "trained": trained}


def row(source: str, cell: Cell, chosen: argparse.Namespace) -> list[Row]:
    """Measure and print one cell; its rows, one a quantity."""
    data = cell.target.population
    if cell.examples > 2 * data.examples:
        return []
    tallies = measure(cell, chosen.repetitions, chosen.seed)
    bins = len(cell.plan.statistic.binnings[0])
    print(
        f"{data.name:26}{cell.examples:7,}{cell.noise:>6}{bins:5}"
        + "".join(entry(t, biases=chosen.bias) for t in tallies.values()),
        flush=True,
    )
    where = (source, data.name, cell.examples, cell.noise)
    return [
        Row(*where, asked, t.coverage, t.width, t.usable, _refused(t))
        for asked, t in tallies.items()
        if len(t.table) >= FEWEST
    ]


def _refused(tally: Tally) -> float:
    return 1 - len(tally.table) / len(tally.outcomes)


def summary(rows: list[Row]) -> None:
    """Print how many cells of each quantity are within the limits."""
    for asked in ASKED:
        each = [r for r in rows if r.asked == asked]
        if each:
            found = np.array([r.coverage for r in each])
            print(
                f"{asked:22}{_within(each):5.0%} of {found.size} cells within, least "
                f"{found.min():.1%}, below 91%: {np.count_nonzero(found < POOR)}, "
                f"median width {np.median([r.width for r in each]):.2f}"
            )


def _within(rows: list[Row]) -> float:
    return float(np.mean([LOWEST <= r.coverage <= HIGHEST for r in rows]))


NOISES: Final = {
    "distributed": ("`DistributedDP`, eps 1 and .3", ("1", "0.3")),
    "label": ("`LabelDP(1)`", ("label",)),
    "local": ("`LocalDP(5)`", ("local",)),
    "exact": ("exact sums", ("exact",)),
}
NAMES: Final = {
    "auc": "AUC",
    "average_precision": "average precision",
    "brier": "Brier score",
    "ece": "calibration error",
}
COLUMNS: Final = (
    *("asked", "cells", "coverage (least)", "within 93 to 98%", "below 91%"),
    *("width", "refused"),
)


def save(rows: list[Row], chosen: argparse.Namespace) -> None:
    """Write one table a source and kind of noise.

    Cells in which most results carry a caution or are refused are left out.
    """
    evidence = Evidence(
        "hard_coverage",
        (*FITS, "label", "report/build"),
        {
            "repetitions": chosen.repetitions,
            "sizes": chosen.sizes,
            "seed": chosen.seed,
            "half": chosen.half,
        },
    )
    for source in chosen.of:
        for kind, (_, noises) in NOISES.items():
            table = []
            for asked in ASKED:
                each = [
                    r
                    for r in rows
                    if (r.source, r.asked) == (source, asked)
                    and r.noise in noises
                    and r.usable >= 0.5
                ]
                if each:
                    table.append(_line(asked, each))
            if table:
                evidence.table(f"{source}-{kind}", COLUMNS, table)
    evidence.save()


def _line(asked: str, rows: list[Row]) -> list[str | Figure]:
    covered = np.array([r.coverage for r in rows])
    return [
        NAMES.get(asked, asked)
        .replace(" declared", ", declared threshold")
        .replace(" between", ", between two edges"),
        Figure(len(rows), digits=0),
        f"{100 * covered.mean():.1f} ({100 * covered.min():.1f})",
        Figure(100 * _within(rows), digits=0, unit="%"),
        Figure(int(np.count_nonzero(covered < POOR)), digits=0),
        Figure(float(np.nanmedian([r.width for r in rows]))),
        Figure(100 * float(np.mean([r.refused for r in rows])), digits=1, unit="%"),
    ]


if __name__ == "__main__":
    main()
