r"""Edges where a model of a given prevalence is expected to put its scores.

On the scale :math:`z = \log\frac{s}{1-s}` a calibrated model of prevalence :math:`\pi`
has its scores around :math:`L = \log\frac{\pi}{1-\pi}`, one that was trained on balanced
or weighted classes around 0, an over-confident one far out, and a hesitant one near 0 and
all near one another. The edges hold even shares of a prior that allows for all four,

.. math::
    .45\,\Lambda(L + \tfrac12,\ 1.2) + .315\,\Lambda(0,\ 1.2)
    + .135\,\Lambda(\tfrac32 L,\ 4) + .10\,\Lambda(\tfrac15 L,\ \tfrac14),

:math:`\Lambda` the logistic distribution of a centre and a scale, cut at :math:`|z| = 14`; the
half is half of :math:`|L|` where that is less than 1, and leads towards 0, where the
smaller class is (chosen by measurement: ``docs/decisions/edges.md``). The prior expects
little far out, so its two outermost bins are wide. Each is cut at .15 and .35 of its width,
from its inner end, for models that are sure of everything.

That is for 16 to 256 bins, as noise allows them. Exact sums have more: these need no cuts
and no place for hesitant scores, their first part leads away from 0, and a thirty-second
part of them on either side lies evenly beyond, up to :math:`|z| = 30`, where scores of a
model that is four times too sure are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import EdgeRule, check_bins
from discreet.data.scores import ScoreRange
from discreet.errors import InputError

FARTHEST: Final = 14.0
"""Both ends of the prior, as logits: s = 8e-7 and 1 - 8e-7. Both are edges."""
_BEYOND: Final = 30.0
_BEYOND_PART: Final = 32
"""How far bins reach where there are many, and which part of them lies beyond the
prior on either side; 1 - s has 10 bits left there."""
_PARTS: Final = ((0.50, 1.0, -0.5, 1.2), (0.35, 0.0, 0.0, 1.2), (0.15, 1.5, 0.0, 4.0))
"""Weight, factor of L, way towards 0 (of at most that of L itself) and scale."""
_PARTS_OF_FEW: Final = (
    *((0.45, 1.0, 0.5, 1.2), (0.315, 0.0, 0.0, 1.2), (0.135, 1.5, 0.0, 4.0)),
    (0.10, 0.2, 0.0, 0.25),
)
"""The same where bins are few."""
_STEPS: Final = 8000
_SNAP: Final = 2.0**16
_DIGITS: Final = 2.0**30
_RAREST: Final = 1e-5
_FAR_CUTS: Final = (0.15, 0.35)
_FEW: Final = range(16, 257)
"""So many are few: four are worth cuts of the outermost bins."""


@dataclass(frozen=True, slots=True)
class PriorSpread(EdgeRule):
    """Bins of even shares of a prior that knows the prevalence, a public guess.

    >>> from discreet.data.edges import Edges
    >>> edges = Edges.realise(PriorSpread(6, prevalence=0.01))
    >>> [f"{e:.2g}" for e in edges.values]
    ['0', '8.3e-07', '0.003', '0.027', '0.38', '1', '1']
    """

    bins: int
    prevalence: float

    name: ClassVar[str] = "prior"

    def inner(self, scores: ScoreRange) -> FloatVector:
        """Return the edges as logits, or as probabilities."""
        check_bins(self.bins)
        if self.bins < 3:  # both limits are edges
            raise InputError(f"a prior spread needs 3 bins, got {self.bins}")
        if not 0 < self.prevalence < 1:
            raise InputError("the prevalence lies strictly between 0 and 1")
        if scores.kind == "other":
            raise InputError(
                "a prior spread is for probabilities and logits; use Uniform or Listed"
            )
        return on_scale(_even_shares(self.bins, self.prevalence), scores)

    def __str__(self) -> str:
        return f"{self.bins} bins spread for a prevalence of {self.prevalence:.3g}"


def _even_shares(bins: int, prevalence: float) -> FloatVector:
    """Return the quantiles of the prior between its limits, as logits."""
    p = min(max(prevalence, _RAREST), 1 - _RAREST)
    centre = math.log(p / (1 - p))
    to_half = -math.copysign(min(1.0, abs(centre)), centre)
    z = np.linspace(-FARTHEST, FARTHEST, _STEPS + 1)
    prior = np.zeros_like(z)
    few = bins in _FEW
    for weight, factor, offset, scale in _PARTS_OF_FEW if few else _PARTS:
        middle = factor * centre + offset * to_half
        prior += weight / (1 + np.exp(-(z - middle) / scale))
    prior = (prior - prior[0]) / (prior[-1] - prior[0])
    cuts = np.array(_FAR_CUTS if few else ())
    beyond = bins // _BEYOND_PART if bins >= _FEW.stop else 0
    even = bins - 2 * cuts.size - 2 * beyond
    wanted = np.interp(np.arange(even - 1) / (even - 2), prior, z)
    if cuts.size:
        low = wanted[1] - cuts * (wanted[1] + FARTHEST)
        high = wanted[-2] + cuts * (FARTHEST - wanted[-2])
        wanted = np.concatenate([wanted, low, high])
    if beyond:
        out = FARTHEST + (_BEYOND - FARTHEST) * np.arange(1, beyond + 1) / beyond
        wanted = np.concatenate([-out, wanted, out])
    return wanted


def on_scale(z: FloatVector, scores: ScoreRange) -> FloatVector:
    """Return logits, sorted and rounded to 2^-16, on the scale of the scores.

    The last digit of exponentials and logarithms differs between machines; what is
    rounded does not. Probabilities have 30 binary digits of the nearer end: 1 - s is
    exact between one half and z = 15, and the edges of -z are those of z mirrored.
    """
    logits: FloatVector = np.unique(np.round(z * _SNAP)) / _SNAP
    if scores.kind == "logit":
        return logits
    part, power = np.frexp(1 / (1 + np.exp(np.abs(logits))))
    small = np.ldexp(np.round(part * _DIGITS) / _DIGITS, power)
    return np.where(logits <= 0, small, 1 - small)
