r"""Randomized response on labels: each label is flipped with a known probability.

The scores are public, the labels are not. A flip is a function of a secret key
and the example's stable id, so that asking again brings the same answer: fresh
flips of the same label would average out.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import Final

import numpy as np

from discreet.arrays import CodeVector, FloatArray, FloatVector, IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.noise.mechanism import BudgetMechanism, NoisyCounts
from discreet.privacy.loss import PureDP
from discreet.statistic.observed import BinCovariance

_BITS: Final = 128
"""A flip compares that many pseudorandom bits with a threshold."""
_KEY_BYTES: Final = 32
_DOMAIN: Final = b"discreet/1/label-flip"


@dataclass(frozen=True, slots=True)
class ResponseKey:
    """A site's secret key for its flips: kept as long as its data, never sent.

    Two data sets of a site share a key only if their ids mean the same examples.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _KEY_BYTES:
            raise InputError(f"the key of the label flips has {_KEY_BYTES} bytes")


def flip_threshold(epsilon: Fraction) -> int:
    r"""Return T with :math:`T/2^{128}` at least :math:`1/(1 + e^\varepsilon)`.

    Rounded up, by less than :math:`2^{-120}`. A flip probability rho' >= rho, at
    most 1/2, has the smaller loss :math:`\log((1-\rho')/\rho') \le \varepsilon`:
    rounding up errs on the private side. ``Decimal.exp`` is correctly rounded to
    the context's precision, so the next number below it is a lower bound.
    """
    if epsilon <= 0:
        raise PlanError("epsilon must be positive")
    with localcontext(prec=80) as context:
        context.rounding = ROUND_CEILING
        power = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        # The quotient is rounded up: one step below it is below epsilon.
        below = (power.next_minus().exp()).next_minus()
        threshold = math.ceil(Fraction(2**_BITS) / (1 + Fraction(below)))
    return min(threshold, 1 << (_BITS - 1))


@dataclass(frozen=True, slots=True)
class RandomizedResponse(BudgetMechanism):
    r"""Flip each label with probability rho = 1/(1 + e^epsilon), once and for all.

    Pure epsilon-DP for one flipped label, of each message on its own: nobody
    needs to be trusted. The flipped labels may be used for any number of models
    at no further cost. What is added up is their class histogram, with
    :math:`p'_b` flipped-to-positive labels among :math:`n_b` in bin b, and
    :math:`\hat p_b = (p'_b - \rho n_b)/(1 - 2\rho)` is unbiased.
    """

    budget: PureDP

    @property
    def flip_probability(self) -> float:
        """The probability that a label is flipped."""
        return flip_threshold(self.budget.epsilon) / (1 << _BITS)

    def flip(
        self, labels: CodeVector, ids: Sequence[bytes], *, key: ResponseKey
    ) -> IntVector:
        """Return the labels to use instead of the true ones.

        The flip of an example is HMAC-SHA256 of its id and of the threshold. The
        threshold must be part of it: one random number compared with two
        thresholds would tell, whenever the answers differ, what the label is.
        """
        if len(ids) != labels.size:
            raise InputError(f"{labels.size} labels need as many ids, got {len(ids)}")
        if len(set(ids)) != len(ids):
            raise InputError(
                "the ids of the examples must differ: two examples with one id get "
                "one flip, which would show whether their labels agree"
            )
        if not np.isin(labels, (0, 1)).all():
            raise InputError("randomized response needs labels 0 and 1")
        threshold = flip_threshold(self.budget.epsilon)
        prefix = _DOMAIN + threshold.to_bytes(_BITS // 8, "big")
        digests = (hmac.digest(key.secret, prefix + i, "sha256") for i in ids)
        drawn = (int.from_bytes(d[: _BITS // 8], "big") for d in digests)
        flips = np.fromiter((number < threshold for number in drawn), np.bool_)
        return np.where(flips, 1 - labels, labels).astype(np.int64)

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Refuse: fresh flips of the same labels would average out."""
        del exact, entropy
        raise PlanError(
            "flipped labels come from a site's key, not from fresh randomness, which "
            "would average out: answer with discreet.label.response_keys"
        )

    def open(self, total: IntVector, contributors: int) -> NoisyCounts:
        """Undo the flips on average: negatives' bins, then positives' bins."""
        del contributors
        negatives, positives = _halves(total.astype(np.float64))
        both = negatives + positives
        rho = self.flip_probability
        estimate = (positives - rho * both) / (1.0 - 2.0 * rho)
        counts = np.concatenate([both - estimate, estimate])
        return NoisyCounts(counts, ResponseNoise(rho))


@dataclass(frozen=True, slots=True)
class ResponseNoise:
    r"""The noise of decoded counts, given the true ones.

    The number of examples in a bin is exact, so the noise of the two classes is
    equal and opposite, with variance :math:`n_b\,\rho(1-\rho)/(1-2\rho)^2`,
    whatever the labels are.
    """

    flip_probability: float

    @property
    def scale(self) -> float:
        """The standard deviation that one example contributes."""
        rho = self.flip_probability
        return math.sqrt(rho * (1.0 - rho)) / (1.0 - 2.0 * rho)

    def covariance(self, at: FloatVector) -> BinCovariance:
        """Equal variances, correlation -1."""
        negatives, positives = _halves(at)
        each = np.maximum(negatives + positives, 0.0) * self.scale**2
        return BinCovariance(each, each, -each)

    def sample(
        self, at: FloatVector, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Flip simulated labels of the counts nearest to the decoded ones."""
        negatives, positives = _halves(at)
        both = np.rint(negatives + positives).astype(np.int64)
        true = np.clip(np.rint(positives), 0, both).astype(np.int64)
        exact = np.concatenate([both - true, true])
        rho = self.flip_probability
        seen = simulate_response(exact, rho, size, rng)[:, both.size :]
        noise = (seen - rho * both) / (1.0 - 2.0 * rho) - true
        return np.concatenate([-noise, noise], axis=1)


def simulate_response(
    exact: IntVector, flip_probability: float, size: int, rng: np.random.Generator
) -> FloatArray:
    """Flip the labels of a class histogram, *not secretly*: two binomials a bin."""
    negatives, positives = np.split(exact, 2)
    shape = (size, negatives.size)
    became = rng.binomial(negatives, flip_probability, shape)
    stayed = positives - rng.binomial(positives, flip_probability, shape)
    seen = (became + stayed).astype(np.float64)
    return np.concatenate([negatives + positives - seen, seen], axis=1)


def _halves(vector: FloatVector) -> tuple[FloatVector, FloatVector]:
    if vector.size % 2:
        raise InputError("a class histogram has as many bins of each class")
    half = vector.size // 2
    return vector[:half], vector[half:]
