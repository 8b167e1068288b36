"""Scored populations, synthetic and real: seeded, split once into two halves.

Rules for edges and readings are chosen on the *tuning* half alone; what README and docs
quote is measured on the *held-out* half (``bench/accuracy.py``). ``WRITTEN``
populations, the real sets and the first four draws (``DRAWN``) have been looked at cell by
cell: all of them are for tuning. ``FRESH`` ones were drawn after that. Both have parameters
that a seeded generator drew within written limits; a fixed hash of its name puts a fresh
one into a half, and a test asserts that none has moved.

A population is a set of distinct scores with counts of either class. Up to 200,000
examples it is a sample row by row; above, 50,000 scores are drawn and the examples are
spread over them by a multinomial draw, which has the same curves at a fraction of the
cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, roots_hermitenorm

from datasets import SHARED, load
from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.estimate.curves import Polyline

MOST_ROWS: Final = 200_000
_POINTS: Final = 50_000
_MOST_CORNERS: Final = 12_000
_SALT: Final = "zoo 7"
"""The first salt from 5 on that left no kind without a population in either half, and
a population of a million among the held-out ones, in the second draw."""
_DRAWN_SEEDS, _FRESH_SEED = (20_261_116, 20_261_117, 20_261_122, 20_261_130), 20_261_136
"""The last is the first seed after the others of which the same can be said, with a
population of fewer than 5,000 too: by sizes and kinds alone."""
_EACH: Final = 5
"""So many populations of a kind are drawn."""
_FEWEST: Final = 400
"""Least expected size of a drawn population's smaller class."""
Rng: TypeAlias = np.random.Generator


class Draw(NamedTuple):
    """Scores, and for each the chance (or the fact) that its example is positive."""

    scores: FloatVector
    rates: FloatVector


Make: TypeAlias = Callable[[Rng, int], Draw]


@dataclass(frozen=True, eq=False)
class Population:
    """Distinct scores, ascending, and the examples of either class at each."""

    name: str
    kind: str
    scores: FloatVector
    counts: IntVector
    """Negatives and positives: shape (2, scores)."""

    @property
    def examples(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    @property
    def prevalence(self) -> float:
        """The share of positives."""
        return float(self.counts[1].sum() / self.counts.sum())

    @property
    def minority(self) -> int:
        """The size of the smaller class."""
        return int(self.counts.sum(axis=1).min())

    def cells(self, edges: Edges) -> FloatVector:
        """Count class by bin: shape (2, bins)."""
        bins = edges.bins_of(self.scores)
        return np.stack([np.bincount(bins, c, len(edges)) for c in self.counts])

    @cached_property
    def _rates(self) -> tuple[FloatVector, FloatVector, FloatVector]:
        """False and true positive rates and precision, from the highest score down."""
        fp, tp = (np.append(0.0, np.cumsum(c[::-1])) for c in self.counts)
        precision = np.append(1.0, tp[1:] / (tp[1:] + fp[1:]))
        return fp / fp[-1], tp / tp[-1], precision

    @cached_property
    def roc(self) -> Polyline:
        """The linear ROC curve; points inside straight lines are dropped."""
        f, t, _ = self._rates
        level = (np.diff(f[:-1]) == 0) & (np.diff(f[1:]) == 0)
        upright = (np.diff(t[:-1]) == 0) & (np.diff(t[1:]) == 0)
        corners = np.concatenate([[True], ~(level | upright), [True]])
        kept = _thinned(np.flatnonzero(corners), (f + t) / 2)
        return Polyline(f[kept], t[kept])

    @cached_property
    def pr(self) -> Polyline:
        """The step PR curve; points inside upright lines are dropped."""
        _, t, precision = self._rates
        moves = np.diff(t) > 0
        corners = np.append(True, moves) | np.append(moves, True)
        kept = _thinned(np.flatnonzero(corners), t)
        return Polyline.steps(t[kept], precision[kept])

    @cached_property
    def auc(self) -> float:
        """Pairs won, ties counted one half."""
        f, t, _ = self._rates
        return float(np.diff(f) @ (t[1:] + t[:-1])) / 2

    @cached_property
    def average_precision(self) -> float:
        """Average precision as scikit-learn defines it."""
        _, t, precision = self._rates
        return float(np.diff(t) @ precision[1:])


def _thinned(kept: IntVector, w: FloatVector) -> IntVector:
    """Keep so many corners, both ends of every long jump among them."""
    if kept.size <= _MOST_CORNERS:
        return kept
    at = np.searchsorted(w[kept], np.linspace(0, 1, _MOST_CORNERS // 2))
    near = np.clip(np.concatenate([at - 1, at]), 0, kept.size - 1)
    chosen: IntVector = kept[np.unique(np.concatenate([[0], near, [kept.size - 1]]))]
    return chosen


# -- kinds of scores ---------------------------------------------------------


def calibrated(
    prevalence: float, sd: float, *, slope: float = 1.0, shift: float = 0.0
) -> Make:
    """Normal logits that say the truth; then stretched and moved."""
    nodes, weights = roots_hermitenorm(80)
    weights = weights / weights.sum()

    def off(mean: float) -> float:
        return float(weights @ expit(mean + sd * nodes)) - prevalence

    centre = brentq(off, -60, 60)

    def make(rng: Rng, size: int) -> Draw:
        z = rng.normal(centre, sd, size)
        return Draw(expit(slope * z + shift), expit(z))

    return make


def weighted(prevalence: float, sd: float) -> Make:
    """Trained with class weights: scores centre on one half."""
    return calibrated(prevalence, sd, shift=-float(logit(prevalence)))


def betas(
    prevalence: float, low: tuple[float, float], high: tuple[float, float]
) -> Make:
    """Beta scores in either class."""

    def make(rng: Rng, size: int) -> Draw:
        y = rng.random(size) < prevalence
        return Draw(
            np.where(y, rng.beta(*high, size), rng.beta(*low, size)),
            y.astype(np.float64),
        )

    return make


def bimodal(
    prevalence: float, places: tuple[float, float], shares: tuple[float, float]
) -> Make:
    """Two humps of logits; ``shares`` of negatives and positives are in the upper."""

    def make(rng: Rng, size: int) -> Draw:
        y = rng.random(size) < prevalence
        upper = rng.random(size) < np.where(y, shares[1], shares[0])
        centre = np.where(upper, places[1], places[0]) + 0.5 * y
        return Draw(expit(rng.normal(centre, 0.7)), y.astype(np.float64))

    return make


def heaped(inner: Make, share: float, *, at: float, width: float = 0.0) -> Make:
    """Move a share of the examples, most of them negatives, to one end."""

    def make(rng: Rng, size: int) -> Draw:
        scores, rates = inner(rng, size)
        y = rng.random(size) < rates
        moved = rng.random(size) < share * np.where(y, 0.25, 1.0)
        end = at + width * rng.random(size) * (1 if at < 0.5 else -1)
        return Draw(np.where(moved, end, scores), y.astype(np.float64))

    return make


def rounded(inner: Make, steps: int) -> Make:
    """Round to multiples of 1/steps."""

    def make(rng: Rng, size: int) -> Draw:
        scores, rates = inner(rng, size)
        y = rng.random(size) < rates
        return Draw(np.round(scores * steps) / steps, y.astype(np.float64))

    return make


def stepped(inner: Make, steps: int) -> Make:
    """Take few values that follow the scores' own quantiles: isotonic calibration."""

    def make(rng: Rng, size: int) -> Draw:
        scores, rates = inner(rng, size)
        y = rng.random(size) < rates
        cuts = np.quantile(scores, np.sort(rng.random(steps - 1)))
        level = np.searchsorted(cuts, scores)
        mean = np.bincount(level, rates, steps) / np.maximum(
            np.bincount(level, minlength=steps), 1
        )
        return Draw(np.maximum.accumulate(mean)[level], y.astype(np.float64))

    return make


C = calibrated
WRITTEN: Final[dict[str, tuple[str, int, Make]]] = {
    "cal-2k-p40-sd1": ("calibrated", 2_000, C(0.4, 1.0)),
    "cal-4k-p25-sd2": ("calibrated", 4_000, C(0.25, 2.0)),
    "cal-8k-p50-sd.6": ("calibrated", 8_000, C(0.5, 0.6)),
    "cal-15k-p12-sd1.3": ("calibrated", 15_000, C(0.12, 1.3)),
    "cal-40k-p35-sd4": ("calibrated", 40_000, C(0.35, 4.0)),
    "cal-70k-p08-sd1.8": ("calibrated", 70_000, C(0.08, 1.8)),
    "cal-150k-p45-sd1.4": ("calibrated", 150_000, C(0.45, 1.4)),
    "cal-600k-p15-sd1": ("calibrated", 600_000, C(0.15, 1.0)),
    "rare-2m-p0005-sd1.8": ("rare", 2_000_000, C(0.0005, 1.8)),
    "rare-800k-p001-sd1.2": ("rare", 800_000, C(0.001, 1.2)),
    "rare-500k-p002-sd2.5": ("rare", 500_000, C(0.002, 2.5)),
    "rare-150k-p004-sd1.6": ("rare", 150_000, C(0.004, 1.6)),
    "rare-120k-p007-sd.7": ("rare", 120_000, C(0.007, 0.7)),
    "rare-60k-p015-sd3": ("rare", 60_000, C(0.015, 3.0)),
    "rare-180k-p02-sd1.3": ("rare", 180_000, C(0.02, 1.3)),
    "over-30k-p25-sd1.2-x3": ("over-confident", 30_000, C(0.25, 1.2, slope=3.0)),
    "over-90k-p06-sd1.4-x2.5": ("over-confident", 90_000, C(0.06, 1.4, slope=2.5)),
    "over-12k-p45-sd1.8-x2": ("over-confident", 12_000, C(0.45, 1.8, slope=2.0)),
    "over-400k-p01-sd1.2-x2": ("over-confident", 400_000, C(0.01, 1.2, slope=2.0)),
    "over-60k-p15-sd.8-x4": ("over-confident", 60_000, C(0.15, 0.8, slope=4.0)),
    "hesitant-25k-p25-sd1.5-x.15": ("hesitant", 25_000, C(0.25, 1.5, slope=0.15)),
    "hesitant-80k-p10-sd2-x.25": ("hesitant", 80_000, C(0.1, 2.0, slope=0.25)),
    "hesitant-150k-p03-sd1.2-x.3": ("hesitant", 150_000, C(0.03, 1.2, slope=0.3)),
    "hesitant-10k-p50-sd1-x.1": ("hesitant", 10_000, C(0.5, 1.0, slope=0.1)),
    "weighted-120k-p008-sd1.4": ("weighted", 120_000, weighted(0.008, 1.4)),
    "weighted-60k-p03-sd2.2": ("weighted", 60_000, weighted(0.03, 2.2)),
    "weighted-400k-p004-sd1.8": ("weighted", 400_000, weighted(0.004, 1.8)),
    "weighted-20k-p10-sd1": ("weighted", 20_000, weighted(0.1, 1.0)),
    "beta-25k-p20": ("beta", 25_000, betas(0.2, (1.0, 5.0), (2.5, 2.5))),
    "beta-80k-p05-u": ("beta", 80_000, betas(0.05, (0.4, 3.0), (0.9, 0.8))),
    "beta-15k-p50-tight": ("beta", 15_000, betas(0.5, (25.0, 30.0), (30.0, 27.0))),
    "beta-60k-p35-ends": ("beta", 60_000, betas(0.35, (0.2, 0.9), (0.8, 0.25))),
    "bimodal-40k-p25": ("bimodal", 40_000, bimodal(0.25, (-3.5, 1.5), (0.1, 0.65))),
    "bimodal-120k-p04": ("bimodal", 120_000, bimodal(0.04, (-6.5, -1.5), (0.1, 0.7))),
    "bimodal-20k-p50": ("bimodal", 20_000, bimodal(0.5, (-2.5, 3.0), (0.2, 0.75))),
    "zeros-60k-p15-25": ("heaped", 60_000, heaped(C(0.15, 1.4), 0.25, at=0.0)),
    "zeros-150k-p03-40": ("heaped", 150_000, heaped(C(0.03, 1.6), 0.4, at=0.0)),
    "near0-80k-p08-30": (
        "heaped",
        80_000,
        heaped(C(0.08, 1.8), 0.3, at=0.0, width=1e-4),
    ),
    "ones-25k-p50-15": ("heaped", 25_000, heaped(C(0.5, 1.3), 0.15, at=1.0)),
    "round100-40k-p25": ("rounded", 40_000, rounded(C(0.25, 1.6), 100)),
    "round100-150k-p03": ("rounded", 150_000, rounded(C(0.03, 1.4), 100)),
    "round1000-70k-p12": ("rounded", 70_000, rounded(C(0.12, 1.3), 1000)),
    "votes9-30k-p20": ("rounded", 30_000, rounded(C(0.2, 2.0), 9)),
    "isotonic12-50k-p20": ("stepped", 50_000, stepped(C(0.2, 1.5), 12)),
    "isotonic30-120k-p05": ("stepped", 120_000, stepped(C(0.05, 1.5), 30)),
}


def tailed(prevalence: float, sd: float) -> Make:
    """Logits with Student's tails (4 degrees of freedom), calibrated at the centre."""
    centre = float(logit(prevalence))

    def make(rng: Rng, size: int) -> Draw:
        z = centre + sd * rng.standard_t(4, size)
        return Draw(expit(z), expit(np.clip(z, centre - 3 * sd, centre + 3 * sd)))

    return make


def mixed(prevalence: float, sd: float, share: float, apart: float) -> Make:
    """Two groups of people with rates so far apart, scored as if they were one."""
    centre = float(logit(prevalence))

    def make(rng: Rng, size: int) -> Draw:
        second = rng.random(size) < share
        z = rng.normal(centre, sd, size)
        return Draw(expit(z), expit(z + np.where(second, apart, -apart / 2)))

    return make


def saturated(inner: Make, most: float) -> Make:
    """The surest scores are no surer: rates never exceed ``most``."""

    def make(rng: Rng, size: int) -> Draw:
        scores, rates = inner(rng, size)
        return Draw(scores, np.minimum(rates, most))

    return make


def _drawn_from(seed: int) -> dict[str, tuple[str, int, Make]]:
    """Draw sizes, prevalences and shapes of every kind."""
    found: dict[str, tuple[str, int, Make]] = {}
    for number, (kind, make) in enumerate(_FAMILIES.items()):
        rng = np.random.default_rng([seed, number])
        for _ in range(_EACH):
            low, high = (0.0005, 0.02) if kind == "rare" else (0.01, 0.5)
            prevalence = float(np.exp(rng.uniform(np.log(low), np.log(high))))
            least = max(2_000.0, _FEWEST / prevalence)
            size = int(np.exp(rng.uniform(np.log(least), np.log(max(5 * least, 5e5)))))
            name = f"{kind}-{size // 1000}k-p{prevalence:.4f}".replace("p0.", "p.")
            found[name] = (kind, size, make(rng, prevalence))
    return found


def _beta_pair(rng: Rng, prevalence: float) -> Make:
    a, b = np.exp(rng.uniform(-1, 1.5, 2))
    gain = rng.uniform(1.3, 3.0)
    return betas(prevalence, (a, b * gain), (a * gain, b))


_FAMILIES: Final[dict[str, Callable[[Rng, float], Make]]] = {
    "calibrated": lambda rng, p: C(p, rng.uniform(0.5, 4)),
    "rare": lambda rng, p: C(p, rng.uniform(0.7, 3)),
    "over-confident": lambda rng, p: C(
        p, rng.uniform(0.7, 1.8), slope=rng.uniform(1.5, 4)
    ),
    "hesitant": lambda rng, p: C(p, rng.uniform(0.8, 2.5), slope=rng.uniform(0.1, 0.5)),
    "weighted": lambda rng, p: weighted(p, rng.uniform(0.7, 2.5)),
    "beta": _beta_pair,
    "bimodal": lambda rng, p: bimodal(
        p,
        (float(logit(p)) - rng.uniform(1, 4), float(logit(p)) + rng.uniform(1, 4)),
        (rng.uniform(0.05, 0.25), rng.uniform(0.5, 0.8)),
    ),
    "heaped": lambda rng, p: heaped(
        C(p, rng.uniform(1, 2)),
        rng.uniform(0.1, 0.4),
        at=float(rng.random() < 0.2),
        width=float(rng.choice([0.0, 1e-4])),
    ),
    "rounded": lambda rng, p: rounded(
        C(p, rng.uniform(1, 2)), int(rng.choice([9, 50, 100, 1000]))
    ),
    "stepped": lambda rng, p: stepped(
        C(p, rng.uniform(1, 2)), int(rng.integers(10, 40))
    ),
    "tailed": lambda rng, p: tailed(p, rng.uniform(0.7, 1.5)),
    "mixed": lambda rng, p: mixed(
        p, rng.uniform(1, 2), rng.uniform(0.2, 0.5), rng.uniform(0.5, 2)
    ),
    "saturated": lambda rng, p: saturated(
        C(p, rng.uniform(1.2, 2.5)), min(0.95, p * rng.uniform(3, 8))
    ),
}
DRAWN: Final = {
    name: made for seed in _DRAWN_SEEDS for name, made in _drawn_from(seed).items()
}
FRESH: Final = _drawn_from(_FRESH_SEED)
POPULATIONS: Final = {**WRITTEN, **DRAWN, **FRESH}


def is_held_out(name: str) -> bool:
    """Say which half a population is in; what has been seen is not held out."""
    odd = hashlib.sha256(f"{_SALT}:{name}".encode()).digest()[0] % 2 == 1
    return name in FRESH and odd


def names(*, held_out: bool, real: bool = True) -> Iterator[str]:
    """Return the names of one half; real scores are those beside the repository."""
    found = sorted((SHARED / "data").glob("*.parquet")) if real else []
    every = [*POPULATIONS, *(f"real:{path.stem}" for path in found)]
    return (name for name in every if is_held_out(name) == held_out)


def population(name: str) -> Population:
    """Draw one population, always the same, or read it."""
    if name.startswith("real:"):
        data = load(name.removeprefix("real:"))
        return from_examples(name, "real", data.scores, data.labels)
    kind, size, make = POPULATIONS[name]
    seed = hashlib.sha256(name.encode()).digest()[:8]
    rng = np.random.default_rng(int.from_bytes(seed, "big"))
    scores, rates = make(rng, min(size, MOST_ROWS if size <= MOST_ROWS else _POINTS))
    if size <= MOST_ROWS:
        return from_examples(
            name, kind, scores, (rng.random(size) < rates).astype(np.int64)
        )
    each = rng.multinomial(size, np.full(_POINTS, 1 / _POINTS))
    positives = rng.binomial(each, rates)
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.zeros((2, distinct.size), dtype=np.int64)
    np.add.at(counts[0], place, each - positives)
    np.add.at(counts[1], place, positives)
    return Population(name, kind, distinct, counts)


def from_examples(
    name: str, kind: str, scores: FloatVector, labels: IntVector
) -> Population:
    """Count scored examples row by row."""
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.stack(
        [np.bincount(place[labels == y], minlength=distinct.size) for y in (0, 1)]
    ).astype(np.int64)
    return Population(name, kind, distinct, counts)
