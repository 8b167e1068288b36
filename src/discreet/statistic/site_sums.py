r"""A class histogram, and beside it what sites add up to say how they differ.

The further numbers travel in the same vector of the same sum: no further round, and
nobody sees a site's own. They are functions of the site's own exact counts, computed
where these are counted.

**Pairs within a site.** The pooled AUC mixes pairs of two patients of one site with pairs
of two sites. Site i with n negatives, m positives and U pairs in the right order (ties one
half) adds

.. math::
    2U, \quad nm, \quad (nm)^2 \operatorname{Var} A, \qquad
    N A, \quad N, \quad N^2 \operatorname{Var} A,

A = U/(nm) its own AUC, Var A by DeLong, N = n + m: from the totals follow the mean of
the sites' AUCs weighted by pairs and by size, and what sampling patients does to
either. Exact sums only. Sites of one class add zeros.

*Rounding.* A site gives twelve binary digits of each number, whatever its size: further
ones would tell the sites' own values more surely, and no result needs them.

*Overflow.* A site counts as at most ``MOST_EXAMPLES``: above, its counts are scaled
down. Numbers of more than 40 bits are cut into two limbs of 40, so that 100,000 sites
stay below 2^57 in each.

**Products of clusters' sums.** Rows of one person, or of one site, are alike, and an
interval that takes them as independent is too short. With slopes g and the clusters' counts
:math:`h_j`, a metric's variance over clusters is :math:`\sum_j (g^T h_j)^2`. The slopes are
known only once the sum is revealed, so a site adds up instead

.. math::
    M = \sum_j z_j z_j^T, \qquad z_j = \sum_{rows\ of\ j} x, \qquad
    x = (1, u, u^2)\ \text{of the row's own class},

u the place of the row's bin, from 0 to 1. With c the slopes' least-squares
coefficients on x, :math:`c^T M c` is nearly the sum above, and its ratio to the same
with single rows for clusters, which the revealed histogram gives, is the *design effect*
by which the plain variance is multiplied: what the slopes have beside x cancels.

Exact sums only. *Overflow:* a person counts as at most 256 rows and a site as at most
2^20; further ones scale its own sums down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, Literal, Self, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.effect_terms import FEWEST, EffectTerms
from discreet.statistic.histogram import AroundHistogram, ClassHistogram
from discreet.statistic.observed import (
    NoiseDistribution,
    NoisyHistogram,
    noise_of_block,
)
from discreet.statistic.protocol import BinCounts, Block, Bound

PAIR_NUMBERS: Final = 8
MOST_EXAMPLES: Final = 2**20
_PAIR_BOUND: Final = Bound(PAIR_NUMBERS, 2**41)
_PAIR_DIGITS: Final = 12
_LIMB: Final = 40
_FINE: Final = 2**10
"""What a 1 is where numbers are no whole ones."""


@dataclass(frozen=True, slots=True)
class WithinSums:
    """The totals, decoded: of pairs, and of sites weighted by size."""

    pairs: float
    concordant: float
    pair_variance: float
    examples: float
    weighted: float
    size_variance: float

    @classmethod
    def decoded(cls, numbers: FloatVector) -> Self:
        """Read the eight totals."""
        u2, pairs, low, high, area, examples, fine_low, fine_high = numbers.tolist()
        return cls(
            pairs,
            u2 / 2,
            low + high * 2.0**_LIMB,
            examples,
            area / _FINE,
            (fine_low + fine_high * 2.0**_LIMB) / _FINE,
        )

    def by_pairs(self) -> tuple[float, float]:
        """Return the concordance over all pairs within sites, and its deviation."""
        return _ratio(self.concordant, self.pairs, self.pair_variance)

    def by_size(self) -> tuple[float, float]:
        """Return the mean of the sites' AUCs weighted by size, and its deviation."""
        return _ratio(self.weighted, self.examples, self.size_variance)


def _ratio(part: float, whole: float, variance: float) -> tuple[float, float]:
    if not whole > 0:
        return math.nan, math.nan
    return part / whole, math.sqrt(max(variance, 0.0)) / whole


def encoded_pairs(counts: BinCounts) -> IntVector:
    """Return a site's eight integers, from its own exact counts."""
    n, m = float(counts.negatives.sum()), float(counts.positives.sum())
    if not (n > 0 and m > 0):
        return np.zeros(PAIR_NUMBERS, dtype=np.int64)
    shrunk = min(1.0, MOST_EXAMPLES / (n + m))
    area, variance = auc_and_variance(counts)
    n, m = n * shrunk, m * shrunk
    size = n + m
    spread = min(variance, 1.0)
    return np.array(
        [
            coarse(2 * n * m * area, _PAIR_DIGITS),
            coarse(n * m, _PAIR_DIGITS),
            *_limbs(coarse(n * m * (n * m * spread), _PAIR_DIGITS)),
            coarse(size * area * _FINE, _PAIR_DIGITS),
            coarse(size, _PAIR_DIGITS),
            *_limbs(coarse(size * size * spread * _FINE, _PAIR_DIGITS)),
        ],
        dtype=np.int64,
    )


def coarse(number: float, digits: int) -> int:
    """Round to the nearest integer of so many binary digits, zeros after them.

    >>> coarse(1000.2, 12), coarse(1234567.0, 12)
    (1000, 1234432)
    """
    step = 2.0 ** max(0, math.frexp(number)[1] - digits)
    return round(number / step) * int(step)


def auc_and_variance(counts: BinCounts) -> tuple[float, float]:
    """Return a site's AUC, ties one half, and DeLong's variance of it.

    DeLong, DeLong and Clarke-Pearson (1988); a class of one example counts twice its
    square, as it has no spread of its own to show.
    """
    n, m = float(counts.negatives.sum()), float(counts.positives.sum())
    below = (np.cumsum(counts.negatives) - counts.negatives / 2) / n
    above = 1.0 - (np.cumsum(counts.positives) - counts.positives / 2) / m
    area = float(counts.positives @ below) / m
    variance = 0.0
    for values, count, total in (
        (below, counts.positives, m),
        (above, counts.negatives, n),
    ):
        squares = float(count @ (values - area) ** 2) / total**2
        variance += squares * (total / (total - 1) if total > 1 else 2.0)
    return area, variance


def _limbs(number: int) -> tuple[int, int]:
    return number & (2**_LIMB - 1), number >> _LIMB


Clusters: TypeAlias = Literal["site", "subject"]

TERMS: Final = 3
"""Coefficients a class."""
PRODUCTS: Final = TERMS * (2 * TERMS + 1)
"""The upper triangle of a matrix of 6 x 6."""
_PRODUCT_BOUND: Final = Bound(PRODUCTS, 2**46)
_PRODUCT_DIGITS: Final = 22
"""Binary digits of each number; design effects are differences of them."""
_MOST_ROWS: Final = 256
_UNIT: Final[dict[Clusters, int]] = {"site": 2**4, "subject": 2**16}
"""What a 1 is: 2^20 rows as one cluster, or as clusters of 256, stay below 2^45."""
_UPPER: Final = np.triu_indices(2 * TERMS)


def features(bins: int) -> FloatArray:
    """Return x of every cell: the negatives' bins, then the positives'."""
    u = (np.arange(bins) + 0.5) / bins
    one = np.stack([np.ones(bins), u, u * u], axis=1)
    zero = np.zeros_like(one)
    return np.concatenate([np.hstack([one, zero]), np.hstack([zero, one])])


def encoded_products(
    kind: Clusters, inner: ClassHistogram, counts: IntVector, examples: Examples
) -> IntVector:
    """Return a site's 21 integers; the data are read again only for people."""
    x = features(len(inner.edges))
    if kind == "site":
        sums = (counts @ x)[None, :]
    else:
        sums = _sums_by_subject(inner, examples, x)
    rows = sums[:, 0] + sums[:, TERMS]
    most = MOST_EXAMPLES if kind == "site" else _MOST_ROWS
    sums = sums * np.minimum(1.0, most / np.maximum(rows, 1.0))[:, None]
    kept = np.minimum(rows, most).sum()
    shrunk = min(1.0, MOST_EXAMPLES / max(float(kept), 1.0))
    products = (sums.T @ sums)[_UPPER] * shrunk * _UNIT[kind]
    return np.array(
        [coarse(x, _PRODUCT_DIGITS) for x in products.tolist()], dtype=np.int64
    )


def decoded_products(kind: Clusters, numbers: FloatVector) -> FloatArray:
    """Return the matrix of products."""
    upper = np.zeros((2 * TERMS, 2 * TERMS))
    upper[_UPPER] = numbers / _UNIT[kind]
    full: FloatArray = upper + np.triu(upper, 1).T
    return full


def _sums_by_subject(
    inner: ClassHistogram, examples: Examples, x: FloatArray
) -> FloatArray:
    """Return each person's sums; rows that name nobody are clusters of their own."""
    places: dict[object, int] = {}
    cells: list[int] = []
    owners: list[int] = []
    times: list[float] = []
    for batch in examples.batches():
        kept = batch.where(inner.fits(batch)) if examples.lenient else batch
        cells += inner.cells(kept).tolist()
        each = np.ones(len(kept)) if kept.weights is None else kept.weights
        named = kept.subjects
        subjects = [None] * len(kept) if named is None else named.tolist()
        for subject, number in zip(subjects, each.tolist(), strict=True):
            key = object() if subject is None else subject
            owners.append(places.setdefault(key, len(places)))
            # Rows of nobody that were counted together are clusters of one each.
            times.append(math.sqrt(number) if subject is None else number)
    sums = np.zeros((max(len(places), 1), 2 * TERMS))
    moved = x[np.array(cells, dtype=np.intp)] * np.array(times)[:, None]
    np.add.at(sums, np.array(owners, dtype=np.intp), moved)
    return sums


def _together(unit: Unit, parts: Iterable[Sensitivity]) -> Sensitivity:
    """Return the sensitivity of vectors that stand one after the other."""
    l1, l2_squared, linf = zip(
        *((p.l1, p.l2_squared, p.linf) for p in parts), strict=True
    )
    return Sensitivity(sum(l1), sum(l2_squared), max(linf), unit)


FEWEST_EXACT: Final = 10
"""Sites whose numbers are added up without noise."""
_FEWEST_NOISY: Final = 3
"""Sites of a sum with noise, without which nothing can be said of how they differ."""
_FARTHEST_LOGIT: Final = 30.0
"""Of a threshold at which sites compare their rates."""
MOST_BYTES: Final = 400
"""What the further numbers may add to a site's message."""
USUAL_SHARE: Final = Fraction(1, 4)


@dataclass(frozen=True)
class SiteSums(AroundHistogram):
    """A class histogram, the sites' effects, pairs within sites, clusters.

    Args:
        inner: the histogram.
        effects: the effects whose spread over sites is wanted.
        within: whether pairs within sites are added up.
        share: of the budget for the effects, under noise.
        clusters: whose rows are alike, if that is to enter the intervals.
    """

    effects: tuple[EffectTerms, ...] = ()
    within: bool = False
    share: Fraction = USUAL_SHARE
    clusters: Clusters | None = None

    name: ClassVar[str] = "site-sums"

    def __post_init__(self) -> None:
        if not self.effects and not self.within and self.clusters is None:
            raise PlanError("sums over sites name at least one thing to add up")
        named = {(terms.effect, terms.at) for terms in self.effects}
        if len(named) < len(self.effects):
            raise PlanError("an effect is added up once")
        if self.clusters not in (None, "site", "subject"):
            raise PlanError("clusters are of a site or of a subject")
        if not 0 < self.share < 1:
            raise PlanError("the effects' share of the budget lies between 0 and 1")
        scores = self.inner.edges.scores
        for terms in self.effects:
            if terms.row.needs_probabilities and scores.kind == "other":
                raise PlanError(f"{terms.title} needs probabilities or logits")
            if terms.at is not None and terms.at not in self.inner.edges.values:
                raise PlanError(
                    f"{terms.title} is taken at one of the plan's thresholds"
                )
            if scores.kind == "logit" and abs(terms.at or 0.0) > _FARTHEST_LOGIT:
                raise PlanError(
                    f"sites compare their rates at logits up to {_FARTHEST_LOGIT:g}"
                )
        if 8 * self.further > MOST_BYTES:
            raise PlanError(
                f"what sites add beside their counts takes {8 * self.further} bytes, and "
                f"at most {MOST_BYTES} are allowed: ask for fewer effects"
            )

    @property
    def further(self) -> int:
        """Numbers beside the histogram."""
        effects = sum(terms.size for terms in self.effects)
        within = PAIR_NUMBERS if self.within else 0
        return effects + within + (PRODUCTS if self.clusters else 0)

    @property
    def size(self) -> int:
        """The histogram and what is beside it."""
        return self.inner.size + self.further

    @property
    def beside_counts(self) -> Mapping[str, int]:
        """What is revealed that counts nobody."""
        numbers = {
            f"of the sites' own {terms.title}, each summed over the sites": terms.size
            for terms in self.effects
        }
        if self.within:
            numbers["of pairs within a site, each summed over the sites"] = PAIR_NUMBERS
        if self.clusters:
            whose = "sites" if self.clusters == "site" else "people"
            numbers[f"of products of {whose}' sums, summed over the sites"] = PRODUCTS
        return numbers

    def admits(self, unit: Unit | None, sites: int) -> None:
        """Refuse so few sites that the sums would show each of them.

        Exact sums of as many numbers as there are unknown ones determine these, but for
        which site is which. The sites' sizes are often public: a site then has one
        unknown number an effect, one more where pairs are added up (the variance of its
        area), four more where there are clusters. With k sites, k times these must be
        half as many again as all numbers that are revealed; and never are
        fewer than ``FEWEST_EXACT`` sites added up without noise.
        """
        if unit is not None and (self.within or self.clusters):
            raise PlanError(
                "pairs within sites and clusters are added up exactly: under noise ask "
                "for the sites' effects alone"
            )
        fewest = _FEWEST_NOISY
        if unit is None:
            beside = self.within + 4 * (self.clusters is not None)
            unknown = len(self.effects) + beside
            fewest = max(FEWEST_EXACT, -(-3 * self.further // (2 * unknown)))
            if any(terms.fewest != FEWEST for terms in self.effects):
                # Who takes part would tell how many examples a site has.
                raise PlanError(f"without noise every site has {FEWEST} of each class")
        if sites < fewest:
            raise PlanError(
                f"sums over fewer than {fewest} sites would show each site's own values: "
                f"ask for at least {fewest} surviving sites that do not collude, or "
                "leave them out"
            )

    @property
    def chooses_sites(self) -> bool:
        """A site without a value of its own stays out."""
        return bool(self.effects or self.within)

    def takes(self, exact: IntVector) -> None:
        """Refuse a site that has no effect of its own: a sum would hold fewer of them.

        Of a sum to which one site alone adds, everybody reads that site's value; and how
        many add to it is known only when it is revealed.
        """
        halves = self.inner.split(exact[: self.inner.size].astype(np.float64))
        smaller = min(float(c.sum()) for c in halves)
        fewest = max([FEWEST * self.within, *(terms.fewest for terms in self.effects)])
        if smaller < fewest:
            raise InputError(
                f"this site has fewer than {fewest} examples of a class and so no value of "
                "its own to compare: without noise every site of such a sum needs one; "
                "leave this site out, or do not compare sites"
            )

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples, and work out what it adds beside them."""
        counts = self.inner.count(examples)
        halves = self.inner.split(counts.astype(np.float64))
        numbers = [counts]
        numbers += [terms.encoded(self.edges, halves) for terms in self.effects]
        if self.within:
            numbers.append(encoded_pairs(halves))
        if self.clusters is not None:
            products = encoded_products(self.clusters, self.inner, counts, examples)
            numbers.append(products)
        return np.concatenate(numbers)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """All blocks together."""
        return _together(unit, [block.sensitivity for block in self.blocks(unit)])

    def bounds(self, unit: Unit | None) -> tuple[Bound, ...]:
        """The histogram's own, and those of what is beside it."""
        bounds = [*self.inner.bounds(unit)]
        for terms in self.effects:
            bounds += terms.bounds()
        if self.within:
            bounds.append(_PAIR_BOUND)
        if self.clusters is not None:
            bounds.append(_PRODUCT_BOUND)
        return tuple(bounds)

    def blocks(self, unit: Unit) -> tuple[Block, ...]:
        """The histogram, and the effects, each with its share of the budget."""
        self.admits(unit, sites=_FEWEST_NOISY)
        effects = _together(unit, [terms.sensitivity(unit) for terms in self.effects])
        return (
            Block(self.inner.size, self.inner.sensitivity(unit), 1 - self.share),
            Block(self.further, effects, self.share),
        )

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The histogram."""
        return self.inner.parts(counts[: self.inner.size], noise_of_block(noise, 0))

    def cut(self, counts: FloatVector) -> dict[EffectTerms, FloatVector]:
        """Return each effect's totals."""
        totals, start = {}, self.inner.size
        for terms in self.effects:
            totals[terms] = counts[start : start + terms.size]
            start += terms.size
        return totals

    def pair_sums(self, counts: FloatVector) -> FloatVector:
        """Return the totals of pairs within sites."""
        start = self.inner.size + sum(terms.size for terms in self.effects)
        return counts[start : start + PAIR_NUMBERS]

    def cluster_sums(self, counts: FloatVector) -> FloatVector:
        """Return the totals of clusters' products."""
        return counts[self.size - PRODUCTS :]
