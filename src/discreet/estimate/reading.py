"""Reading a noisy release: by the smooth model where it is safe, else as it is.

``docs/estimators.md`` says why. Every choice here is made from the release alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.data.edges import Edges, Uniform, Warped, unit_edges
from discreet.estimate.areas import auc_limits
from discreet.estimate.curves import Curves, RocPath, choose_interpolation
from discreet.estimate.estimator import Flat
from discreet.estimate.evidence import average_cells
from discreet.estimate.spline_model import FEWEST_BINS, SplineModel
from discreet.statistic.observed import BinCovariance, NoisyHistogram

Way: TypeAlias = Literal["model", "ties", "flat", "unusable"]
"""How a release was read."""

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


@dataclass(frozen=True, eq=False)
class Reading:
    """What a release was found to say, how, and what to warn of."""

    way: Way
    counts: NoisyHistogram
    """Counts per bin, none of them negative."""
    curves: Curves
    bent: RocPath | None = None
    """The model's counts joined by PCHIP: the distance to it is what the shape
    inside the bins may cost."""
    notes: tuple[str, ...] = ()


@lru_cache(maxsize=16)
def read(observed: NoisyHistogram) -> Reading:
    """Read a release; the same release always gives the same reading."""
    if observed.exact:
        return _flat(observed)
    reason = _too_little(observed)
    if reason is not None:
        return _unusable(observed, reason)
    if observed.edges.atoms:
        return _flat(observed)
    if choose_interpolation(observed) == "linear":
        return _ties(observed)
    inside, bins = _pairs_inside_bins(observed), len(observed.edges)
    if inside >= _USELESS:
        return _unusable(observed, _crowding(inside))
    notes = (_crowding(inside),) if inside * bins >= _CROWDED else ()
    cells = _model_cells(observed) if bins >= FEWEST_BINS else None
    return _flat(observed, notes) if cells is None else _drawn(observed, cells, notes)


def _flat(observed: NoisyHistogram, notes: tuple[str, ...] = ()) -> Reading:
    return Reading("flat", observed.projected(), Flat().curves(observed), notes=notes)


def _unusable(observed: NoisyHistogram, reason: str) -> Reading:
    """Return one point without rates: no curve that could be drawn by mistake."""
    none = Curves(np.array([np.inf]), np.zeros(1), np.zeros(1), "linear")
    return Reading("unusable", observed.projected(), none, notes=(reason,))


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


def _ties(observed: NoisyHistogram) -> Reading:
    """Empty the bins between ties, where there is only noise; join linearly."""
    total = observed.negatives + observed.positives
    filled = total >= _GAP * max(observed.law.scale, 1.0)
    counts = replace(
        observed,
        negatives=np.where(filled, np.maximum(observed.negatives, 0.0), 0.0),
        positives=np.where(filled, np.maximum(observed.positives, 0.0), 0.0),
    )
    return Reading("ties", counts, Curves.from_histogram(counts, "linear"))


def _drawn(
    observed: NoisyHistogram, cells: FloatArray, notes: tuple[str, ...]
) -> Reading:
    """Draw the average of the model's sub-cells and PCHIP through its counts."""
    negatives, positives = cells.sum(axis=2)
    counts = replace(observed, negatives=negatives, positives=positives)
    drawn = Curves.from_histogram(counts, "pchip")
    bent = RocPath(drawn.fpr, drawn.tpr, "pchip")
    model = RocPath(_rates(cells[0]), _rates(cells[1]), "linear")
    share = _SHARE_FEW if len(observed.edges) < _FEW_BINS else _SHARE_MANY
    curves = replace(drawn, path=_average(model, bent, share))
    return Reading("model", counts, curves, bent, notes)


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
