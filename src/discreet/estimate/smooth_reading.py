"""The default estimator under noise: a smooth model where it is safe, else as it is.

``docs/estimators.md`` says why. Every choice here is made from the release alone.

How smooth is the release? Its own evidence answers. The smoothness of
:mod:`discreet.estimate.spline_model` has three parameters. A walk over a coarse grid
of them climbs the evidence; the counts are the average of every fit on the way, each
weighted by its evidence, so that no single choice decides and the estimate does not
jump between neighbouring grid points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges, Uniform, Warped, unit_edges
from discreet.estimate.areas import auc_limits
from discreet.estimate.curves import Curves, RocPath, choose_interpolation
from discreet.estimate.reading import (
    Bend,
    Flat,
    Reading,
    flat_reading,
    unusable_reading,
)
from discreet.estimate.spline_model import FEWEST_BINS, Fit, Smoothness, SplineModel
from discreet.statistic.observed import BinCovariance, NoisyHistogram

_WARP: Final = 1.5
_FARTHEST: Final = 3.0
"""A model count stays within so many noise scales of the released one."""
_MISFIT: Final = 2.0
"""Mean distance, in noise scales, at which the model is not believed; noise alone
has 1."""
_FEW_BINS: Final = 24
_SHARE_FEW, _SHARE_MANY = 0.75, 0.5
"""Share of the model's own shape inside the bins, for few bins and for many."""
_GAP: Final = 8.0
"""Bins between ties that hold less than this many noise scales are empty."""
_SURE: Final = 4.0
"""A class total below this many standard deviations of its noise is no total."""
_CROWDED: Final = 1.25
"""Even bins share at most 1/B of the pairs among them; more shows crowding."""
_USELESS: Final = 0.5
"""Share of pairs inside one bin from which on no curve can be told."""
_BEND_SHARE: Final = 1 / 3
"""Share of the distance to PCHIP that the shape inside the bins usually costs."""

_Place: TypeAlias = tuple[int, int, int]
_INTENSITY: Final = tuple(0.05 * 8.0**k for k in range(6))
_LOG_ODDS: Final = tuple(0.05 * 8.0**k for k in range(7))
_DISPERSION: Final = (1.0, 4.0, 16.0, 64.0)
_GRID: Final = (_INTENSITY, _LOG_ODDS, _DISPERSION)
_START: Final[_Place] = (2, 3, 0)
_GAIN: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Smooth:
    """A joint empirical-Bayes model of both classes, with fallbacks to ``Flat``.

    - exact counts, known score values, fewer than 4 bins, or noise shared by the
      classes: as ``Flat`` reads them;
    - ties (heavy bins between empty ones): gaps are emptied, points joined by
      straight lines;
    - counts that the model cannot follow: ``Flat`` with PCHIP;
    - a class total that its noise could have made alone, or half of all pairs
      inside one bin: unusable, with the reason, and no curve.
    """

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "smooth, joint empirical-Bayes model of both classes"

    def read(self, observed: NoisyHistogram) -> Reading:
        """Read a release: the same release always gives the same reading."""
        if observed.exact:
            return replace(Flat().read(observed), estimator=self.name)
        if (reason := _too_little(observed)) is not None:
            return self._unusable(observed, reason)
        if observed.edges.atoms:
            return self._flat(observed)
        if choose_interpolation(observed) == "linear":
            return self._ties(observed)
        return self._spread_out(observed)

    def _spread_out(self, observed: NoisyHistogram) -> Reading:
        """Read scores that do not tie: by the model, unless too many share a bin."""
        inside, bins = _pairs_inside_bins(observed), len(observed.edges)
        if inside >= _USELESS:
            return self._unusable(observed, _crowding(inside))
        notes = (_crowding(inside),) if inside * bins >= _CROWDED else ()
        cells = _model_cells(observed) if bins >= FEWEST_BINS else None
        if cells is None:
            return self._flat(observed, notes)
        return self._drawn(observed, cells, notes)

    def _unusable(self, observed: NoisyHistogram, reason: str) -> Reading:
        return unusable_reading(
            observed, observed.projected(), reason, estimator=self.name
        )

    def _flat(self, observed: NoisyHistogram, notes: tuple[str, ...] = ()) -> Reading:
        return flat_reading(
            observed,
            observed.projected(),
            choose_interpolation(observed),
            estimator=self.name,
            way="flat",
            noise_path="damped",
            notes=notes,
        )

    def _ties(self, observed: NoisyHistogram) -> Reading:
        """Empty the bins between ties, where there is only noise; join linearly."""
        total = observed.negatives + observed.positives
        filled = total >= _GAP * max(observed.law.scale, 1.0)
        counts = replace(
            observed,
            negatives=np.where(filled, np.maximum(observed.negatives, 0.0), 0.0),
            positives=np.where(filled, np.maximum(observed.positives, 0.0), 0.0),
        )
        return flat_reading(
            observed,
            counts,
            "linear",
            estimator=self.name,
            way="ties",
            noise_path="damped",
        )

    def _drawn(
        self, observed: NoisyHistogram, cells: FloatArray, notes: tuple[str, ...]
    ) -> Reading:
        """Draw the average of the model's sub-cells and PCHIP through its counts."""
        negatives, positives = cells.sum(axis=2)
        counts = replace(observed, negatives=negatives, positives=positives)
        drawn = Curves.from_histogram(counts, "pchip")
        bent = RocPath(drawn.fpr, drawn.tpr, "pchip")
        model = RocPath(_rates(cells[0]), _rates(cells[1]), "linear")
        share = _SHARE_FEW if len(observed.edges) < _FEW_BINS else _SHARE_MANY
        return Reading(
            observed,
            counts,
            replace(drawn, path=_average(model, bent, share)),
            self.name,
            "model",
            "followed",
            Bend(bent, _BEND_SHARE),
            observed.notes + notes,
            observed.refusal,
        )


def noise_of(observed: NoisyHistogram) -> BinCovariance:
    """Return the covariance of the release's noise, bin by bin."""
    return observed.law.covariance(
        np.concatenate([observed.negatives, observed.positives])
    )


def _too_little(observed: NoisyHistogram) -> str | None:
    """Say why no curve can be had, if so: a class total within its own noise."""
    noise = noise_of(observed)
    for name, total, variance in (
        ("positives", observed.total_positives, noise.positives),
        ("negatives", observed.total_negatives, noise.negatives),
    ):
        sd = math.sqrt(float(variance.sum()))
        if total < _SURE * sd:
            return (
                f"too little data for this epsilon: the release counts {total:,.0f} "
                f"{name} with a noise of {sd:,.0f}, and curves need {_SURE:g} times "
                "the noise; use more data, a larger epsilon or fewer bins"
            )
    return None


def _pairs_inside_bins(observed: NoisyHistogram) -> float:
    """Return the share of pairs of both classes that no edge tells apart."""
    counts = observed.projected()
    low, high = auc_limits(counts.negatives, counts.positives)
    return high - low


def _crowding(share: float) -> str:
    return (
        f"the scores sit in few bins: {share:.0%} of the pairs of a positive and a "
        "negative share one; use edges from public reference scores or two rounds"
    )


def _model_cells(observed: NoisyHistogram) -> FloatArray | None:
    """Return counts per class, bin and sub-cell, None where the model misfits."""
    noise = noise_of(observed)
    if (noise.cross != 0).any():
        return None
    released = np.stack([observed.negatives, observed.positives])
    # The Laplace law of the same variance, whatever the release's own.
    scale = np.sqrt(np.stack([noise.negatives, noise.positives]) / 2)
    model = SplineModel(
        released, noise_scale=scale, places=_even_places(observed.edges)
    )
    cells = average_cells(model)
    if cells is None:
        return None
    counts = cells.sum(axis=2)
    if float(np.mean(np.abs(counts - released) / scale)) > _MISFIT:
        return None
    reach = _FARTHEST * scale
    kept = np.maximum(np.clip(counts, released - reach, released + reach), 0.0)
    spread = np.divide(kept, counts, out=np.zeros_like(kept), where=counts > 0)
    found: FloatArray = cells * spread[:, :, None]
    return found


def _even_places(edges: Edges) -> FloatVector:
    """Return the edges on the scale u in [0, 1] on which bins are about even.

    Warped edges are unwarped, so that the logit of u is the score's up to a
    factor. Other edges (quantiles) were made to hold even shares: their rank.
    """
    match edges.rule:
        case Warped(_, exponent):
            power = 1 / exponent
        case Uniform(_) if edges.scores.kind == "probability":
            power = 1 / _WARP
        case _:
            return np.arange(len(edges) + 1) / len(edges)
    if edges.scores.kind == "other":
        reach = edges.scores.high - edges.scores.low
        s = (edges.array - edges.scores.low) / reach
    else:
        s = unit_edges(edges)
    up, down = s**power, (1 - s) ** power
    places: FloatVector = up / (up + down)
    return places


def _rates(cells: FloatArray) -> FloatVector:
    """Accumulate from the highest score down, as a share of all."""
    running = np.append(0.0, np.cumsum(cells.ravel()[::-1]))
    rates: FloatVector = running / running[-1]
    return rates


def _average(first: RocPath, second: RocPath, share: float) -> RocPath:
    """Average two curves through the same knots at equal places (F + T)/2."""
    places = np.unique(np.concatenate([first.knots[0], second.places(8)]))
    points = (
        share * one + (1 - share) * other
        for one, other in zip(first.at(places), second.at(places), strict=True)
    )
    # Rounding may turn a level stretch into a fall of one unit in the last place.
    fpr, tpr = (np.minimum(np.maximum.accumulate(p), 1.0) for p in points)
    return RocPath(fpr, tpr, "linear")


def average_cells(model: SplineModel) -> FloatArray | None:
    """Return the expected counts per class, bin and sub-cell, or None.

    None says that the counts resist the model: some fit did not converge to
    finite numbers. The result depends on the release alone.
    """
    try:
        fits = _climb(model)
    except np.linalg.LinAlgError:
        return None
    evidence = np.array([fit.log_evidence for fit in fits])
    if not np.isfinite(evidence).all():
        return None
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    found: FloatArray = np.einsum(
        "f,fcbs->cbs", weights, np.array([fit.cells for fit in fits])
    )
    return found if np.isfinite(found).all() else None


def _climb(model: SplineModel) -> list[Fit]:
    """Walk to a place of the grid whose neighbours all have less evidence."""
    fits: dict[_Place, Fit] = {}
    theta = model.start()

    def evidence(place: _Place) -> float:
        nonlocal theta
        if place not in fits:
            # Each fit starts at the last one's splines: a few steps suffice.
            fits[place] = model.fit(_smoothness(place), theta)
            theta = fits[place].theta
        return fits[place].log_evidence

    here = _START
    best = evidence(here)
    while True:
        there = max(_neighbours(here), key=evidence)
        if not evidence(there) > best + _GAIN:
            return list(fits.values())
        here, best = there, evidence(there)


def _smoothness(place: _Place) -> Smoothness:
    i, j, k = place
    return Smoothness(_INTENSITY[i], _LOG_ODDS[j], _DISPERSION[k])


def _neighbours(place: _Place) -> list[_Place]:
    found = []
    for axis, step in product(range(3), (-1, 1)):
        moved = list(place)
        moved[axis] += step
        if 0 <= moved[axis] < len(_GRID[axis]):
            found.append((moved[0], moved[1], moved[2]))
    return found
