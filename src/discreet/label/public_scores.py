r"""Bins from scores that everybody may see, and which label mechanism to count with.

Under label privacy the scores are public, so edges may be taken from the very
scores that are measured, and the examples of each bin are known exactly.

Bins are even on the scale :math:`\frac12\left(\frac{\text{rank}}{M} + \frac{s -
s_{\min}}{s_{\max} - s_{\min}}\right)`, s on the probability scale: no bin holds more
than 2/B of the examples or reaches over more than 2/B of the scores' range. Curves
need the first and calibration the second: 16 equi-depth bins of calibrated binormal
scores made an ECE of .011 out of .002 and lost .006 of the average precision, 16 of
these make .004 and lose .0005.

With n examples of the rarer class, B bins and V the sum of the bins' noise
variances, the area between the estimated and the true ROC curve is about

.. math::
    \sqrt{\left(.43\,\frac{\sqrt V}{n}\right)^2 + \left(\frac{.31}{\sqrt{nB}}\right)^2
    + \left(\frac{.08}{B^2}\right)^2}

The first term is the noise of the cumulative counts. The others are what bins hide:
the random walk of a sample inside them, and the bend of the curve. With
:math:`c = e^\varepsilon/(e^\varepsilon-1)^2`, randomized response has
:math:`V = c M` whatever the bins, and binned positives have 2c for each pair of a
site and a bin with two examples or more and c for each with one. The constants were
measured on binormal scores (``bench/label_curves.py``); the choice depends on their
ratios alone. Every input is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.edges import EdgeRule, Edges, Listed, Support
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.label.released_sums import response_variance

_NARROWEST: Final = 1e-300


@dataclass(frozen=True, eq=False)
class PublicScores:
    """What the coordinator sees: the scores of each site, in no telling order."""

    sites: tuple[FloatVector, ...]
    """Each site's scores, sorted: their order in the data is not used."""
    range: ScoreRange

    def __post_init__(self) -> None:
        if not sum(site.size for site in self.sites):
            raise InputError("the sites hold no examples: there is nothing to measure")

    @classmethod
    def of(cls, sites: Sequence[Examples]) -> PublicScores:
        """Take the scores of sites that declare the same kind and one column."""
        if not sites:
            raise InputError("there are no sites: give at least one")
        if len({site.scores for site in sites}) > 1:
            raise InputError("the sites declare different kinds or ranges of scores")
        if any(site.columns != 1 for site in sites):
            raise InputError("label privacy measures one column of scores at a time")
        return cls(
            tuple(np.sort(site.to_arrays()[0]) for site in sites), sites[0].scores
        )

    @cached_property
    def pooled(self) -> FloatVector:
        """All scores, ascending."""
        return np.sort(np.concatenate(self.sites))

    @cached_property
    def examples(self) -> int:
        """How many examples there are in all."""
        return self.pooled.size

    def rule(self, bins: int) -> EdgeRule:
        """Return edges that share out both the examples and the range of the scores.

        Few distinct scores get a bin each, and nothing is lost to binning.
        Otherwise a score that is heavy enough for a bin of its own gets one, and
        no bin reaches beyond the least and the greatest score.
        """
        if bins < 1:
            raise InputError(f"need at least 1 bin, got {bins}")
        values, counts = np.unique(self.pooled, return_counts=True)
        if values.size <= bins:
            return Support(tuple(values.tolist()))
        even = np.searchsorted(self._places, np.arange(bins) / bins)
        heavy = np.flatnonzero(counts * bins >= self.examples)
        beyond = np.nextafter(values[-1], np.inf)
        after = np.append(values, beyond)[np.append(heavy, values.size - 1) + 1]
        inner = np.unique(np.concatenate([self.pooled[even], values[heavy], after]))
        low, high = self.range.low, self.range.high
        # A bin of no width to speak of cannot be divided by it.
        inner = inner[(inner - low > _NARROWEST) & (high - inner > _NARROWEST)]
        return Listed((low, *inner.tolist(), high))

    @cached_property
    def _places(self) -> FloatVector:
        """Each pooled score's place between 0 and 1: its rank's and its value's."""
        s = self.pooled
        if self.range.kind == "logit":
            with np.errstate(over="ignore"):
                s = 1.0 / (1.0 + np.exp(-s))
        reach = float(s[-1] - s[0])
        value = (s - s[0]) / reach if reach > 0 else np.zeros_like(s)
        places: FloatVector = (np.arange(s.size) / s.size + value) / 2
        return places

    def occupied(self, edges: Edges) -> tuple[int, int]:
        """Count pairs of a site and a bin: with one example, and with more."""
        bins = edges.bins_of(np.concatenate(self.sites)).astype(np.int64)
        owner = np.repeat(np.arange(len(self.sites)), [s.size for s in self.sites])
        _, counts = np.unique(owner * len(edges) + bins, return_counts=True)
        lone = int(np.count_nonzero(counts == 1))
        return lone, counts.size - lone


_BINS: Final = (16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024)
"""Numbers of bins that errors are predicted for."""
_FEWEST_OF_FLIPS: Final = 64
"""Flipped labels have the same noise in any bins: these cost nothing."""
_CLOSE: Final = 1.01
"""More bins of flipped labels must gain more than this."""
_WORTH: Final = 1.05
"""A mechanism that is charged for each model must gain more than this."""
_PREVALENCE: Final = 0.25
"""The share of the rarer class when it is not public."""
_NOISE, _WALK, _BEND = 0.43, 0.31, 0.08


@dataclass(frozen=True, slots=True)
class PredictedCurve:
    """A way to release the labels, and the error of the ROC curve it would have."""

    mechanism: str
    rule: EdgeRule
    error: float


def predict_curve(
    public: PublicScores,
    epsilon: float,
    mechanism: str,
    *,
    prevalence: float | None = None,
) -> PredictedCurve:
    """Predict the area between the estimated and the true ROC curve.

    Args:
        public: the scores of all sites.
        epsilon: the loss.
        mechanism: ``binned`` in the best number of bins; ``response`` in as few as lose
            hardly anything, because finer bins each hold nothing but noise: slopes,
            bands and calibration are estimated better from fewer. ``curves`` is the
            better of both, and flips, which can be reused, where it hardly matters.
        prevalence: public: roughly which share of the examples is positive.
    """
    if mechanism == "curves":
        response, binned = (
            predict_curve(public, epsilon, each, prevalence=prevalence)
            for each in ("response", "binned")
        )
        return binned if _WORTH * binned.error < response.error else response
    flips = mechanism == "response"
    share = _PREVALENCE if prevalence is None else min(prevalence, 1 - prevalence)
    minority = max(share * public.examples, 1.0)
    predicted = []
    for bins in (b for b in _BINS if not flips or b >= _FEWEST_OF_FLIPS):
        rule = public.rule(bins)
        edges = Edges.realise(rule, public.range)
        lone, crowded = (public.examples, 0) if flips else public.occupied(edges)
        variance = response_variance(epsilon) * (lone + 2 * crowded)
        error = _NOISE * math.sqrt(variance) / minority
        if not edges.atoms:
            walk = _WALK / math.sqrt(minority * len(edges))
            error = math.hypot(error, walk, _BEND / len(edges) ** 2)
        predicted.append(PredictedCurve(mechanism, rule, error))
        if edges.atoms:  # more bins are the same bins
            break
    best = min(predicted, key=lambda p: p.error)
    close = _CLOSE * best.error if flips else best.error
    return next(p for p in predicted if p.error <= close)
