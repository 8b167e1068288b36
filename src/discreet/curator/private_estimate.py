r"""What a curator publishes: a value, its interval, its claim.

The interval convolves noise of a known distribution with sampling: it holds every A for
which the released value v is not in a tail of

.. math:: A + e + \sigma(A) Z,

e the release's noise, Z standard normal, :math:`\sigma(A)` the sampling deviation if A
were the truth: a score-type interval, which keeps its coverage near 0 and 1 where
:math:`v \pm 1.96\,\sigma(v)` does not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from scipy.special import ndtr

from discreet.arrays import FloatVector, IntVector
from discreet.curator.smooth_noise import GridNoise
from discreet.curator.weighted_count import WeightTable
from discreet.errors import UndefinedMetricWarning
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.intervals import AreaShape, Ends
from discreet.privacy.claim import Claim

_NODES: Final = 256
"""Quantiles that stand for one noise distribution."""
_THIN: Final = 32
_HALVINGS: Final = 50
_ONE_SD: Final = 0.15865525393145707
"""Probability beyond one standard deviation of a normal distribution."""


SamplingVariance: TypeAlias = Callable[[float], float]
"""The variance of a value from drawing the examples, if that value were the truth."""


def auc_sampling(positives: float, negatives: float) -> SamplingVariance:
    """Return the variance of Hanley and McNeil in Newcombe's form (``AreaShape``)."""
    return AreaShape(max(positives, 1.0), max(negatives, 1.0)).variance


def ap_sampling(positives: float, negatives: float) -> SamplingVariance:
    r"""Return the binomial variance :math:`A(1-A)/n` of Boyd, Eng and Page (2013)."""
    del negatives
    return partial(_binomial_variance, max(positives, 1.0))


def _binomial_variance(trials: float, value: float) -> float:
    return value * (1.0 - value) / trials


@dataclass(frozen=True, eq=False)
class ReleasedScalar:
    """A released number, equally likely errors in it, and its sampling variance.

    It is the shape of its own estimate (``discreet.estimate.intervals``). ``errors`` are released minus true values; infinite where the release says
    nothing. ``value`` is the number before it is cut to 0 .. 1. ``sampling`` is None
    where its size would need the private class counts.
    """

    value: float
    errors: FloatVector
    sampling: SamplingVariance | None

    def sampling_sd(self, truth: float) -> float:
        """Return the sampling deviation at a value; 0 where it is left out."""
        if self.sampling is None:
            return 0.0
        return math.sqrt(max(self.sampling(truth), 0.0))

    @property
    def noise_sd(self) -> float:
        """Half the width that holds 68% of the noise; it may have no variance."""
        low, high = np.quantile(self.errors, [_ONE_SD, 1.0 - _ONE_SD], method="nearest")
        return float(high - low) / 2.0

    def ends(self, value: float, sampling: float, noise: float, z: float) -> Ends:
        """Return the values that the release does not contradict."""
        del value, sampling, noise  # summaries of the distributions that are used here
        outside = float(ndtr(-z))
        return self._crossing(outside), self._crossing(1.0 - outside)

    def _at_least(self, truth: float) -> float:
        """Return the chance to see this number or a larger one."""
        gap = truth + self.errors - self.value
        sd = self.sampling_sd(truth)
        if sd < 1e-12:
            return float(np.mean((gap > 0) + 0.5 * (gap == 0)))
        return float(np.mean(ndtr(gap / sd)))

    def _crossing(self, chance: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if self._at_least(middle) < chance:
                low = middle
            else:
                high = middle
        # An end that was never moved is the end of the support.
        return 0.0 if low == 0.0 else (1.0 if high == 1.0 else low)


def symmetric_errors(noise: GridNoise) -> FloatVector:
    """Return equally likely errors of noise of a known scale."""
    tails = (np.arange(_NODES // 2) + 0.5) / _NODES
    half = float(noise.scale) * noise.tail.quantile(tails)
    return np.append(-half, half[::-1])


def laplace_errors(scale: float) -> FloatVector:
    """Return equally likely values of Laplace noise."""
    tails = (np.arange(_NODES // 4) + 0.5) / (_NODES // 2)
    half = -scale * np.log(2.0 * tails)
    return np.append(-half, half[::-1])


def weighted_count_errors(
    weighted: int, code: int, table: WeightTable, noise: FloatVector
) -> tuple[float, FloatVector]:
    """Return the value of a weighted count before cutting, and its likely errors.

    Every pair of equally likely noises is taken off the two integers and the value
    that is left compared with the released one.
    """
    weight = float(table.weights_of(table.counts_of(np.array([float(code)])))[0])
    if weight <= 0:
        return 0.5, np.repeat([-np.inf, np.inf], _NODES // 2)
    value = 0.5 + weighted / weight
    weights = table.weights_of(table.counts_of(code - noise))[:, None]
    left = np.tile(weighted - noise, (noise.size, 1))
    # A weight of 0 says nothing: the truth may lie anywhere beyond.
    beyond = np.where(left >= 0, np.inf, -np.inf)
    truth = 0.5 + np.divide(left, weights, out=beyond, where=weights > 0)
    # The middle of every 32 neighbours stands for them.
    return value, np.sort((value - truth).ravel())[_THIN // 2 :: _THIN]


LEAST_SIGNAL: Final = 10.0
"""Epsilon times the smaller class, below which every mechanism is near useless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateEstimate(Estimate):
    """A released value, its error sources, its claim and what made it.

    ``sampling`` and ``noise`` are summaries for tables; the interval uses the
    distributions of ``shape``, which have heavier tails than a normal one.
    """

    claim: Claim
    mechanism: str
    positives: float | None = None
    """The number of positives as released or declared, if either was."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.value:.4f}"]
        if not math.isnan(self.value):
            low, high = self.interval()
            lines[0] += f", 95% interval [{low:.4f}, {high:.4f}] from "
            lines[0] += " and ".join(s for s in self.covers if s != "binning")
        if self.unusable is not None:
            lines.append(f"Unusable: {self.unusable}.")
        lines.append(f"Mechanism: {self.mechanism}.")
        lines += [f"Note: {note}." for note in self.notes]
        return "\n".join([*lines, str(self.claim)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is not known is null."""
        table = Estimate.to_dict(self)
        if not math.isfinite(self.noise):
            table["noise_sd"] = None
        return table | {
            "mechanism": self.mechanism,
            "notes": list(self.notes),
            "claim": self.claim.to_dict(),
        }


def private_estimate(
    released: ReleasedScalar,
    *,
    claim: Claim,
    mechanism: str,
    positives: float | None,
    refusal: str | None,
    notes: tuple[str, ...] = (),
) -> PrivateEstimate:
    """Cut the value to 0 .. 1 and summarise its errors; refuse when told to."""
    value = min(max(released.value, 0.0), 1.0)
    sampling = None if released.sampling is None else released.sampling_sd(value)
    if refusal is not None:
        value = math.nan
        warnings.warn(
            f"the released value is withheld (NaN): {refusal}",
            UndefinedMetricWarning,
            stacklevel=4,
        )
    return PrivateEstimate(
        value=value,
        sampling=sampling,
        noise=released.noise_sd,
        binning=Binning(value, value, 0.0),
        unusable=refusal,
        shape=released,
        claim=claim,
        mechanism=mechanism,
        positives=positives,
        notes=notes,
    )


def weighted_count_estimate(
    released: IntVector,
    table: WeightTable,
    noise: FloatVector,
    *,
    epsilon: Fraction,
    sampling: Callable[[float, float], SamplingVariance],
    claim: Claim,
    mechanism: str,
    notes: tuple[str, ...] = (),
) -> PrivateEstimate:
    """Return the value of two released integers, from these and public facts alone.

    ``noise`` are equally likely values of the noise in each.
    """
    weighted, code = released.tolist()
    value, errors = weighted_count_errors(weighted, code, table, noise)
    rows = table.codes.size - 1
    positives = float(table.counts_of(np.array([float(code)]))[0])
    return private_estimate(
        ReleasedScalar(value, errors, sampling(positives, rows - positives)),
        claim=claim,
        mechanism=mechanism,
        positives=positives,
        refusal=too_little(float(epsilon), positives, rows),
        notes=notes,
    )


def too_little(epsilon: float, positives: float, rows: int) -> str | None:
    """Say so when the smaller class is too small for this epsilon.

    ``positives`` is the released or declared number, never the private one.
    """
    minority = max(min(positives, rows - positives), 0.0)
    if epsilon * minority >= LEAST_SIGNAL:
        return None
    return (
        f"epsilon times the smaller class is about {epsilon * minority:.2g}, below "
        f"{LEAST_SIGNAL:g}: noise of any mechanism would hide the value; use more "
        "examples or a larger epsilon"
    )
