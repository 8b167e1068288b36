"""How smooth is a release? Its own evidence answers.

The smoothness of :mod:`discreet.estimate.spline_model` has five parameters. A walk
over a coarse grid of them climbs the evidence; the counts are the average of every fit
on the way, each weighted by its evidence, so that no single choice decides and the
estimate does not jump between neighbouring grid points. How far the fits are apart says
what the choice may cost (:attr:`Average.between`).

*Orientation.* A release can be swapped (each class takes the other's counts) and turned
(the scores run the other way). The model treats all four orientations alike: swapping
exchanges floor and ceiling, turning reverses the splines. A search does not, because the
likelihood has several maxima and the order of its steps decides which one it reaches. So
every release is fitted in one of its orientations, chosen by its counts, and the fit is
put back by reversing classes and bins. Swapping or turning a release therefore does the
same to its average, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.estimate.spline_model import Smoothness, SplineFit, SplineModel

_Place: TypeAlias = tuple[int, int, int, int, int]
_INTENSITY: Final = tuple(0.05 * 8.0**k for k in range(6))
_LOG_ODDS: Final = tuple(0.05 * 8.0**k for k in range(7))
_DISPERSION: Final = (1.0, 4.0, 16.0, 64.0)
_MIXED_IN: Final = (0.0, 0.03, 0.1, 0.3)
"""Shares of a class that lie where the other does: the floor's steps, and the ceiling's."""
_COST: Final = 0.4
"""Evidence that a step of a floor or a ceiling costs: most scores need none."""
_GRID: Final = (_INTENSITY, _LOG_ODDS, _DISPERSION, _MIXED_IN, _MIXED_IN)
_START: Final[_Place] = (2, 3, 0, 0, 0)
_GAIN: Final = 1e-3
_BENT: Final = 1
_BETTER: Final = 1.0
"""Evidence by which another start must win: more than fits differ that have settled."""
_LIGHT: Final = 0.05
"""Fits with less of the best one's evidence do not matter to how counts respond."""
_AS_IT_IS: Final = slice(None)
_REVERSED: Final = slice(None, None, -1)


class Average(NamedTuple):
    """The average of a release's fits, each weighted by its evidence."""

    cells: FloatArray
    """Expected counts per class, bin and sub-cell."""
    response: FloatArray
    """How the counts per class and bin move with the released ones."""
    between: FloatArray
    """How far each fit's counts are from the average, a row a fit, times the root of its
    weight: what is not known of the smoothness (Hoeting et al. 1999)."""
    dispersion: float = 1.0
    """How many times the variance of a count exceeds its mean."""


@dataclass(frozen=True, eq=False)
class _Oriented:
    """A release in one of its orientations: rows of counts and noise, and its edges."""

    classes: slice
    bins: slice
    counts: FloatArray
    noise_scale: FloatArray
    places: FloatVector

    @cached_property
    def key(self) -> tuple[float, ...]:
        """The order of orientations, of which the least is fitted.

        First those whose positives are the rarer class, then those whose positives
        have the higher scores. Where this leaves a choice, the numbers decide.
        """
        size = self.counts.shape[1]
        ranks = np.arange(size) - (size - 1) / 2
        # Exact sums, which do not depend on the order of the bins.
        low, high = (math.fsum(row) for row in self.counts)
        low_ranks, high_ranks = (math.fsum(row) for row in ranks * self.counts)
        numbers = (self.counts, self.noise_scale, self.places)
        return (
            high > low,
            high_ranks * low < low_ranks * high,
            *np.concatenate([each.ravel() for each in numbers]).tolist(),
        )

    def undo(self, fitted: Average) -> Average:
        """Return the average for the release as it came."""
        classes, bins, size = self.classes, self.bins, self.counts.shape[1]
        response = fitted.response.reshape(2, size, 2, size)
        between = fitted.between.reshape(-1, 2, size)
        return Average(
            np.ascontiguousarray(fitted.cells[classes, bins, bins]),
            response[classes, bins, classes, bins].reshape(2 * size, 2 * size),
            between[:, classes, bins].reshape(-1, 2 * size),
            fitted.dispersion,
        )


def symmetric_average(
    counts: FloatArray, *, noise_scale: FloatArray, places: FloatVector
) -> Average | None:
    """Return the average of a release's fits, swapped or turned as the release is.

    The arguments are those of ``SplineModel``. None as in :func:`average`.
    """
    every = [
        # Copied: sums over numbers that lie backwards in memory may round otherwise.
        _Oriented(
            classes,
            bins,
            np.ascontiguousarray(counts[classes, bins]),
            np.ascontiguousarray(noise_scale[classes, bins]),
            places if bins is _AS_IT_IS else 1 - places[::-1],
        )
        for bins, classes in product((_AS_IT_IS, _REVERSED), repeat=2)
    ]
    first = min(every, key=lambda one: one.key)
    fitted = average(
        SplineModel(first.counts, noise_scale=first.noise_scale, places=first.places)
    )
    if fitted is None:
        return None
    # A release that is its own mirror image has several such orientations.
    return _mean([one.undo(fitted) for one in every if one.key == first.key])


def _mean(averages: list[Average]) -> Average:
    """Return the mean of averages, and what is between all of their fits."""
    if len(averages) == 1:
        return averages[0]
    cells = np.mean([one.cells for one in averages], axis=0)
    apart = [(one.cells - cells).sum(axis=2).reshape(1, -1) for one in averages]
    between = np.concatenate([*(one.between for one in averages), *apart])
    return Average(
        cells,
        np.mean([one.response for one in averages], axis=0),
        between / math.sqrt(len(averages)),
        averages[0].dispersion,
    )


def average(model: SplineModel) -> Average | None:
    """Return the average of the fits, or None.

    None says that the counts resist the model: some fit did not converge to
    finite numbers. The result depends on the release alone.
    """
    try:
        fits = _climb(model)
        evidence = np.array([fit.log_evidence for fit in fits])
        if not np.isfinite(evidence).all():
            return None
        weights = np.exp(evidence - evidence.max())
        heavy = weights >= _LIGHT
        responses = [
            w * model.response(f)
            for f, w in zip(fits, weights, strict=True)
            if w >= _LIGHT
        ]
    except np.linalg.LinAlgError:
        return None
    every = np.array([fit.cells for fit in fits])
    shares = weights / weights.sum()
    cells = np.einsum("f,fcbs->cbs", shares, every)
    apart = (every - cells).sum(axis=3).reshape(len(fits), -1)
    between = np.sqrt(shares)[:, None] * apart
    response = np.sum(responses, axis=0) / weights[heavy].sum()
    if not (np.isfinite(cells).all() and np.isfinite(response).all()):
        return None
    spread = weights @ [np.log(fit.smoothness.dispersion) for fit in fits]
    return Average(cells, response, between, float(np.exp(spread / weights.sum())))


def _climb(model: SplineModel) -> list[SplineFit]:
    """Walk to a place of the grid whose neighbours all have less evidence.

    The likelihood bounds the pull of a count, so that a fit may leave several counts far
    off and be a maximum all the same, and fits that start there stay there. At the end of
    the walk odds that may bend are fitted once from what the counts themselves suggest;
    if that is better, the walk starts anew from it.
    """
    fits = _walk(model, _START, model.start())
    best = max(fits, key=lambda place: fits[place].log_evidence)
    bent = (best[0], min(best[1], _BENT), *best[2:])
    again = model.fit(_smoothness(bent), model.start())
    if again.log_evidence > fits[best].log_evidence + _BETTER:
        fits = _walk(model, bent, again.theta)
    return list(fits.values())


def _walk(
    model: SplineModel, here: _Place, theta: FloatVector
) -> dict[_Place, SplineFit]:
    """Climb the evidence from a place, and from splines near its own."""
    fits: dict[_Place, SplineFit] = {}

    def evidence(place: _Place) -> float:
        nonlocal theta
        if place not in fits:
            # Each fit starts at the last one's splines: a few steps suffice.
            found = model.fit(_smoothness(place), theta)
            cost = _COST * sum(place[3:])
            fits[place] = replace(found, log_evidence=found.log_evidence - cost)
            theta = fits[place].theta
        return fits[place].log_evidence

    best = evidence(here)
    while True:
        there = max(_neighbours(here), key=evidence)
        if not evidence(there) > best + _GAIN:
            return fits
        here, best = there, evidence(there)


def _smoothness(place: _Place) -> Smoothness:
    i, j, k, low, high = place
    return Smoothness(
        _INTENSITY[i], _LOG_ODDS[j], _DISPERSION[k], _MIXED_IN[low], _MIXED_IN[high]
    )


def _neighbours(place: _Place) -> list[_Place]:
    found = []
    for axis, step in product(range(len(_GRID)), (-1, 1)):
        moved = list(place)
        moved[axis] += step
        if 0 <= moved[axis] < len(_GRID[axis]):
            i, j, k, low, high = moved
            found.append((i, j, k, low, high))
    return found
