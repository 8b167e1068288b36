r"""Counts of pairs of bins under noise: what each probably is.

Two models that rank the same people alike put them into pairs of bins near a diagonal.
The other pairs hold next to nothing and carry as much noise each, and a difference of the
two models weighs a pair by how far apart its bins are: what reaches it is mostly the noise
of empty pairs. With d the distance of a pair's bins in mean ranks, a class's count in it is

.. math:: c \sim N(m(d), v(d)), \qquad y = c + \text{noise},

m and v the isotonic regressions over d (falling, not below 0) of the released counts and
of :math:`(y - m)^2` less the noise's variance; v is at least m, for examples are a sample.
Given y a count has the mean :math:`m + v\,\text{pull}` (Tweedie's formula;
:mod:`discreet.estimate.spline_model`), which follows a change of y by about the share
:math:`w = vI`, I the information of a count. Above and below the diagonal m is raised and
lowered by one share a class, the one by which the counts so found lie on one side.

As an estimate of what the population expects in a pair it has two errors. The variance of
the sample's own scatter is counted by w and not by its square, for m is not known either
(widths chosen on two made pairs of models); noise and what is drawn away from a pair
unlike its neighbours have the variance :math:`w^2 (1/I - v) + (1 - w)^2 (v - m)`.

What this does not cover: counts far from the diagonal that lie on one side of it more
than the nearer ones do, and are too few to be seen among their neighbours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.estimate.spline_model import information, log_density_and_pull
from discreet.statistic.observed import NoiseDistribution

_FLOOR: Final = 0.05
"""Least variance of a count, so that empty pairs have one."""


class Expected(NamedTuple):
    """What counts of pairs are expected to be, negatives' pairs before positives'."""

    counts: FloatVector
    followed: FloatVector
    """The share of a change of the true count that the expected one follows."""
    variance: FloatVector
    """What noise and neighbours leave, beside the sample's scatter."""


def expected_counts(
    counts: FloatVector, distribution: NoiseDistribution, bins: int
) -> Expected | None:
    """Return the expected counts of pairs of bins, ``bins`` of them the first model's.

    None where the classes share their noise: then nothing is known of single cells.
    """
    each = distribution.covariance(counts)
    if (each.cross != 0).any() or not distribution.scale:
        return None
    tables = counts.reshape(2, bins, -1)
    total = tables.sum(axis=0)
    first, second = (_ranks(total.sum(axis=axis)) for axis in (1, 0))
    apart = (first[:, None] - second[None, :]).ravel()
    parts = [
        _expected(table.ravel(), noise, apart)
        for table, noise in zip(tables, (each.negatives, each.positives), strict=True)
    ]
    return Expected(*(np.concatenate(both) for both in zip(*parts, strict=True)))


def _expected(counts: FloatVector, noise: FloatVector, apart: FloatVector) -> Expected:
    """Return one class's expected counts; ``apart`` has the sign of the side."""
    order = np.argsort(np.abs(apart), kind="stable")
    mean = np.maximum(_falling(counts, order), 0.0)
    rough = np.maximum(_falling((counts - mean) ** 2 - noise, order) - mean, 0.0)
    spread, scale = mean + rough + _FLOOR, np.sqrt(noise / 2)

    def drawn(mean: FloatVector) -> FloatVector:
        return mean + spread * log_density_and_pull(counts - mean, spread, scale)[1]

    held = np.maximum(drawn(mean), 0.0)
    weight = float(np.abs(apart) @ held)
    side = float(apart @ held) / weight if weight > 0 else 0.0
    seen = information(spread, scale)
    share = np.minimum(spread * seen, 1.0)
    left = share**2 * np.maximum(1 / seen - spread, 0.0) + (1 - share) ** 2 * rough
    return Expected(drawn(mean * (1 + side * np.sign(apart))), share, left)


def _falling(values: FloatVector, order: IntVector) -> FloatVector:
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    falling = np.empty_like(values)
    falling[order] = isotonic_regression(values[order], increasing=False).x
    return falling


def _ranks(counts: FloatVector) -> FloatVector:
    """Return the middle rank of each bin's examples, from 0 to 1."""
    kept = np.maximum(counts, 0.0)
    running = np.cumsum(kept)
    return (running - kept / 2) / max(float(running[-1]), 1.0)
