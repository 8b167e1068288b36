"""The default estimator under noise: a smooth model where it is safe, else as it is.

``docs/estimators.md`` says why. Every choice here is made from the release alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector
from discreet.data.edges import even_places
from discreet.estimate.curves import Curves, RocPath
from discreet.estimate.evidence import Average, symmetric_average
from discreet.estimate.fit import (
    Fit,
    Flat,
    Other,
    flat_reading,
    unusable_reading,
)
from discreet.estimate.grid import Grid, find_grid
from discreet.estimate.spline_model import FEWEST_BINS
from discreet.estimate.steps import STEPS_NOTE, is_stepped, values_a_bin, with_steps
from discreet.estimate.ties import Ties, end_ties, find_ties
from discreet.statistic.observed import BinCovariance, NoisyHistogram

_BEYOND: Final = 3.0
"""A model count stays within ln(2B) + 3 noise scales of the released one: about the
largest of 2B draws, and a little more."""
_LEFT_OUT: Final = 1e4
"""Factor on the noise of counts that the model is not to follow."""
_MISFIT: Final = 2.0
"""Mean distance, in noise scales, at which the model is not believed; noise alone
has 1."""
_MODEL: Final = 0.9
"""Share of the model's own shape inside the bins; the rest is PCHIP's."""
_GAP: Final = 8.0
"""Bins between ties that hold less than this many noise scales are empty."""
_SURE: Final = 4.0
"""A class total below this many standard deviations of its noise is no total."""
_CROWDED: Final = 0.15
"""Share of pairs inside bins from which on the bins are badly placed."""
_HEAPED: Final = 0.02
"""Share of pairs beyond the farthest edges from which on it matters how they lie there."""
_END_COST: Final = 1.5
"""Share of the distance to a reading without ties there that may be the error: a curve
drawn into an end bin takes off two thirds of it or more."""
_ROUNDING: Final = 1e-9
_MODEL_COST: Final = 0.5
"""Share of the distance to the flat reading that the model's bias is taken for."""


class _Found(NamedTuple):
    """The model's counts, and whether they are too far from the released ones."""

    average: Average
    misfit: bool


@dataclass(frozen=True, slots=True)
class Smooth:
    """A joint empirical-Bayes model of both classes, with fallbacks to ``Flat``.

    - exact counts, known score values, fewer than 4 bins, or noise shared by the
      classes: as ``Flat`` reads them;
    - ties (heavy bins between empty ones, examples beyond the farthest edges): gaps
      are emptied, ties joined by straight lines, and the model reads the rest;
    - totals that jump as those of few score values do: straight steps inside the bins;
    - counts that the model cannot follow: ``Flat`` with PCHIP;
    - a class total that its noise could have made alone: unusable, with the reason,
      and no curve.
    """

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "smooth, joint empirical-Bayes model of both classes"

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Read a release: the same release always gives the same reading."""
        if observed.exact:
            return replace(Flat().fit(observed), estimator=self.name)
        if (reason := _too_little(observed)) is not None:
            return self._unusable(observed, reason)
        if observed.edges.atoms:
            return self._flat(observed, find_ties(observed))
        if (grid := find_grid(observed)) is not None:
            return _on_grid(grid, observed, self._read(grid.spread(observed)))
        return self._read(observed)

    def _read(self, observed: NoisyHistogram) -> Fit:
        """Read scores that are not known to lie on a grid."""
        ties = find_ties(observed)
        rest = int(np.count_nonzero(~(ties.tied | ties.gaps)))
        if ties.gaps.any() and rest < FEWEST_BINS:
            return self._ties(observed)
        inside = _pairs_inside_bins(observed, ties.tied)
        notes = (_crowding(inside),) if inside >= _CROWDED else ()
        ends = end_ties(observed)
        if (heaped := _pairs_inside_bins(observed, ~ends)) >= _HEAPED:
            fit = self._as_far_as_bins_tell(
                observed, ties, rest, (*notes, _heap(heaped))
            )
            spread = ties._replace(tied=ties.tied & ~ends)
            bent = self._flat(observed, spread)
            return replace(fit, other=Other(bent, _END_COST))
        return self._as_far_as_bins_tell(observed, ties, rest, notes)

    def _as_far_as_bins_tell(
        self, observed: NoisyHistogram, ties: Ties, rest: int, notes: tuple[str, ...]
    ) -> Fit:
        """Read by the model where it has bins enough and fits, else as it is."""
        found = _model_counts(observed, ties) if rest >= FEWEST_BINS else None
        if found is None or found.misfit:
            roughness = 1.0 if found is None else found.average.dispersion
            steps = is_stepped(observed, ties, roughness)
            return self._flat(observed, ties, notes, steps=steps)
        return self._drawn(observed, found.average, ties, notes)

    def _unusable(self, observed: NoisyHistogram, reason: str) -> Fit:
        return unusable_reading(
            observed, observed.projected(), reason, estimator=self.name
        )

    def _flat(
        self,
        observed: NoisyHistogram,
        ties: Ties,
        notes: tuple[str, ...] = (),
        *,
        steps: bool = False,
    ) -> Fit:
        kept = replace(
            observed,
            negatives=np.where(ties.gaps, 0.0, observed.negatives),
            positives=np.where(ties.gaps, 0.0, observed.positives),
        )
        flat = flat_reading(
            observed,
            kept.projected(),
            "linear" if observed.edges.atoms else "pchip",
            estimator=self.name,
            way="flat",
            noise_path="damped",
            notes=notes,
            ties=ties.tied if ties.tied.any() else None,
        )
        if not steps:
            return flat
        stepped = with_steps(flat.curves, flat.counts, values_a_bin(observed, ties))
        return replace(
            flat, curves=stepped, bend=flat.curves.roc, notes=(*flat.notes, STEPS_NOTE)
        )

    def _ties(self, observed: NoisyHistogram) -> Fit:
        """Empty the bins between ties, where there is only noise; join linearly."""
        total = observed.negatives + observed.positives
        filled = total >= _GAP * max(observed.noise.scale, 1.0)
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
        self,
        observed: NoisyHistogram,
        found: Average,
        ties: Ties,
        notes: tuple[str, ...],
    ) -> Fit:
        """Draw the average of the model's sub-cells and PCHIP through its counts."""
        cells, crowded = found.cells, bool(notes)
        negatives, positives = cells.sum(axis=2)
        counts = replace(observed, negatives=negatives, positives=positives)
        tied = ties.tied if ties.tied.any() else None
        drawn = Curves.from_histogram(counts, "pchip", ties=tied)
        bent = RocPath(drawn.fpr, drawn.tpr, "pchip", drawn.ties)
        model = RocPath(_rates(cells[0]), _rates(cells[1]), "linear")
        curves = replace(drawn, path=_average(model, bent, _MODEL))
        if is_stepped(observed, ties, found.dispersion):
            curves = with_steps(curves, counts, values_a_bin(observed, ties))
            notes = (*notes, STEPS_NOTE)
        return Fit(
            observed,
            counts,
            curves,
            self.name,
            "model",
            "followed",
            notes=observed.notes + notes,
            refusal=observed.refusal,
            # Crowded bins leave their shape to the model: all of it may be wrong.
            other=Other(self._flat(observed, ties), 1.0 if crowded else _MODEL_COST),
            response=found.response,
            between=found.between,
        )


def _on_grid(grid: Grid, observed: NoisyHistogram, spread: Fit) -> Fit:
    """Put the reading of spread scores back on the multiples of a grid."""
    atoms = grid.atoms(spread.counts)
    if min(atoms.negatives.sum(), atoms.positives.sum()) <= 0:
        return replace(spread, observed=observed)
    counts = grid.binned(observed, spread.counts)
    response, other, between = spread.response, spread.other, spread.between
    return replace(
        spread,
        observed=observed,
        counts=counts,
        curves=grid.curves(counts, atoms),
        bend=None,
        notes=(*observed.notes, grid.note()),
        other=None
        if other is None
        else other._replace(fit=_on_grid(grid, observed, other.fit)),
        response=None if response is None else grid.widened(response),
        between=None if between is None else grid.widened_rows(between),
        atoms=atoms,
    )


def noise_of(observed: NoisyHistogram) -> BinCovariance:
    """Return the covariance of the release's noise, bin by bin."""
    return observed.noise.covariance(
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
        if total < _SURE * sd or total <= 0:
            return (
                f"too little data for this epsilon: the release counts {total:,.0f} "
                f"{name} with a noise of {sd:,.0f}, and curves need {_SURE:g} times "
                "the noise; use more data, a larger epsilon or fewer bins"
            )
    return None


def _pairs_inside_bins(observed: NoisyHistogram, but: BoolVector) -> float:
    """Return the share of pairs of both classes that share a bin, but for some bins."""
    counts = observed.projected()
    inside = np.where(but, 0.0, counts.negatives * counts.positives)
    return float(inside.sum()) / (counts.total_negatives * counts.total_positives)


def _crowding(share: float) -> str:
    return (
        f"the scores sit in few bins: {share:.0%} of the pairs of a positive and a "
        "negative share one; let the plan look first where scores lie (look), or give it "
        "edges at quantiles of public reference scores, or more bins"
    )


def _heap(share: float) -> str:
    return (
        f"{share:.0%} of the pairs of a positive and a negative lie beyond the farthest "
        "edge and are read as ties; if these scores differ, give the plan edges there "
        "(quantiles of public reference scores)"
    )


def _model_counts(observed: NoisyHistogram, ties: Ties) -> _Found | None:
    """Return the model's counts and their response, None where there is no fit.

    Ties and gaps say nothing of a smooth density: the model does not follow them.
    Ties keep their counts, gaps have none.
    """
    noise = noise_of(observed)
    if (noise.cross != 0).any():
        return None
    released = np.stack([observed.negatives, observed.positives])
    # The Laplace law of the same variance, whatever the release's own.
    scale = np.sqrt(np.stack([noise.negatives, noise.positives]) / 2)
    out = ties.tied | ties.gaps
    read = symmetric_average(
        np.where(out, np.maximum(released, 0.0), released),
        noise_scale=np.where(out, _LEFT_OUT, 1.0) * scale,
        places=even_places(observed.edges),
    )
    if read is None:
        return None
    cells, response, between, dispersion = read
    counts = cells.sum(axis=2)
    misfit = float(np.mean((np.abs(counts - released) / scale)[:, ~out])) > _MISFIT
    reach = (math.log(2 * len(observed.edges)) + _BEYOND) * scale
    kept = np.maximum(np.clip(counts, released - reach, released + reach), 0.0)
    spread = np.divide(kept, counts, out=np.zeros_like(kept), where=counts > 0)
    found: FloatArray = cells * spread[:, :, None]
    even = np.maximum(released, 0.0) / cells.shape[2]
    found[:, ties.tied] = even[:, ties.tied, None]
    found[:, ties.gaps] = 0.0
    response[np.tile(ties.tied, 2)] = np.eye(2 * out.size)[np.tile(ties.tied, 2)]
    response[np.tile(ties.gaps, 2)] = 0.0
    between[:, np.tile(out, 2)] = 0.0
    return _Found(Average(found, response, between, dispersion), misfit)


def _rates(cells: FloatArray) -> FloatVector:
    """Accumulate from the highest score down, as a share of all."""
    running = np.append(0.0, np.cumsum(cells.ravel()[::-1]))
    rates: FloatVector = running / running[-1]
    return rates


def _average(first: RocPath, second: RocPath, share: float) -> RocPath:
    """Average two curves through the same knots at equal places (F + T)/2.

    Where the second has ties, so has the average, each a single segment.
    """
    places = np.unique(np.concatenate([first.knots[0], second.places(8)]))
    knots, tied = second.knots[0], second.tied
    if tied.any():
        k = np.clip(np.searchsorted(knots, places, side="right") - 1, 0, tied.size - 1)
        inside = np.minimum(places - knots[k], knots[k + 1] - places) > _ROUNDING
        places = places[~(tied[k] & inside)]
    points = (
        share * one + (1 - share) * other
        for one, other in zip(first.at(places), second.at(places), strict=True)
    )
    # Rounding may turn a level stretch into a fall of one unit in the last place.
    fpr, tpr = (np.minimum(np.maximum.accumulate(p), 1.0) for p in points)
    if not tied.any():
        return RocPath(fpr, tpr, "linear")
    middle = (places[1:] + places[:-1]) / 2
    k = np.clip(np.searchsorted(knots, middle, side="right") - 1, 0, tied.size - 1)
    return RocPath(fpr, tpr, "linear", tied[k])
