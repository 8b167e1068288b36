r"""The class histogram of weighted examples: each adds its own whole weight.

Weights make a test set stand for another population: rows that were sampled with known
chances, or a case mix that is to be changed. An example of weight w adds w to its cell, with
:math:`0 \le w \le W` and W public, so every measure is that of scikit-learn with
``sample_weight`` on the binned scores. One example moves the vector by at most W: L1 and
L-infinity are W times, squared L2 is W^2 times those of plain counts.

Errors are those of fewer examples. With :math:`\omega = \sum w^2 / \sum w`, counts over
:math:`\omega` have Kish's effective number :math:`(\sum w)^2 / \sum w^2` as their total, and
the variance of a sum whose weights do not go with what is measured (Kish 1965, 11.7). The
larger :math:`\omega` of the two classes is taken. Exact sums release :math:`\sum w^2` of each
class beside the histogram. Under noise such a sum would move by W^2, so :math:`\omega = W` is
taken, the largest that it can be: intervals are wider than they need be.

What is not covered: weights that were estimated (their own error), and weights that go with
scores inside a class, for which Kish's number may be too large or too small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import CodeVector, FloatArray, FloatVector, IntVector
from discreet.codec.documents import written
from discreet.codec.parsing import whole
from discreet.data.batches import Batch
from discreet.data.cells import numbers
from discreet.data.examples import Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic.histogram import AroundHistogram
from discreet.statistic.observed import BinCovariance, NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import tally

LARGEST: Final = 1000
"""No plan declares a larger weight: 64 bits hold the squares of all rows."""


_NO_SQUARES: Final = (
    "the sums of squared weights are none that whole weights up to the plan's largest "
    "give: a site sent what it does not have"
)


@dataclass(frozen=True)
class ScaledNoise:
    """The noise of counts that were multiplied by a public factor."""

    noise: NoiseDistribution
    factor: float

    @property
    def scale(self) -> float:
        """The noise's own, times the factor."""
        return self.noise.scale * self.factor

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Return the noise's own, times the factor twice."""
        one, twice = self.noise.covariance(at / self.factor), self.factor**2
        return BinCovariance(
            one.negatives * twice, one.positives * twice, one.cross * twice
        )

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw the noise's own, times the factor."""
        return self.noise.sample(at / self.factor, size, rng) * self.factor


@dataclass(frozen=True)
class Weighted(AroundHistogram):
    """Sums of weights per class and bin; with ``squares`` also of their squares."""

    most: int = field(metadata=written(key="max_weight"))
    """The largest weight of an example, public."""
    squares: bool = False

    name: ClassVar[str] = "weighted"

    def __post_init__(self) -> None:
        whole(self.most, "the largest weight", least=2, most=LARGEST)
        if type(self.squares) is not bool:
            raise PlanError("squares of weights are released or not: true or false")

    @property
    def size(self) -> int:
        """The histogram, and a sum of squares a class."""
        return self.inner.size + 2 * self.squares

    @property
    def beside_counts(self) -> Mapping[str, int]:
        """The squares."""
        return {"sums of squared weights": 2} if self.squares else {}

    def admits(self, unit: Unit | None, sites: int) -> None:
        """Refuse squares under noise: they would take most of it."""
        super().admits(unit, sites)
        if self.squares and unit is not None:
            raise PlanError(
                "sums of squared weights are released by exact sums alone: under noise "
                "leave out the squares, and intervals take the largest weight"
            )

    def count(self, examples: Examples) -> IntVector:
        """Add up one site's weights."""
        return tally(examples, self, self._cells, self._amounts)

    def fits(self, batch: Batch) -> NDArray[np.bool_]:
        """Leave out rows without a weight: each row is judged by itself."""
        if batch.amounts is None:  # a refusal would tell an empty site from others
            return np.zeros(len(batch), dtype=np.bool_)
        return super().fits(batch) & ~np.isnan(numbers(batch.amounts))

    def _cells(self, batch: Batch) -> CodeVector:
        cells = self.inner.cells(batch)
        if not self.squares:
            return cells
        return np.append(cells, self.inner.size + batch.labels)

    def _amounts(self, batch: Batch, lenient: bool) -> IntVector:
        """Return what each entry adds: a whole number from 0 to the largest weight."""
        if batch.amounts is None:
            if len(batch):
                raise InputError(
                    "the plan adds up weights, but the examples carry none; name their "
                    "column with weight="
                )
            return np.zeros((1 + self.squares) * len(batch), dtype=np.int64)
        given = numbers(batch.amounts)
        nearest = np.clip(np.rint(np.nan_to_num(given)), 0, self.most)
        strange = int(np.count_nonzero(given != nearest))
        if strange and not lenient:
            raise InputError(
                f"{strange} of {len(batch)} weights are no whole numbers from 0 to "
                f"{self.most}; multiply and round them, or declare a larger max_weight="
            )
        amounts = nearest.astype(np.int64)
        return np.append(amounts, amounts**2) if self.squares else amounts

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """That of plain counts, times the largest weight (twice for squared L2)."""
        if self.squares:
            raise PlanError("sums of squared weights have no noise of their own")
        plain, most = self.inner.sensitivity(unit), self.most
        return Sensitivity(
            most * plain.l1, most**2 * plain.l2_squared, most * plain.linf, unit
        )

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The histogram in effective examples."""
        split = self.inner.split(counts[: self.inner.size])
        heavy, refusal = float(self.most), None
        if self.squares:
            sums = [(float(one.sum()), two) for one, two in
                    zip(split, counts[self.inner.size :], strict=True)]  # fmt: skip
            heavy = max([1.0, *(two / one for one, two in sums if one > 0)])
            if not all(one <= two <= self.most * one for one, two in sums):
                heavy, refusal = float(self.most), _NO_SQUARES
        total = float(split.negatives.sum() + split.positives.sum())
        careful = "" if self.squares else "at least "
        note = (
            f"weights add up to {total:,.0f}; errors and counts are those of {careful}"
            f"{max(total / heavy, 0):,.0f} effective examples; where rows were chosen by "
            "their scores, intervals at thresholds are too short"
        )
        return {
            "": NoisyHistogram(
                self.edges,
                split.negatives / heavy,
                split.positives / heavy,
                ScaledNoise(noise, 1 / heavy),
                notes=(note,),
                refusal=refusal,
            )
        }
