"""The default estimator under noise: a smooth model where it is safe, else as it is.

``docs/estimators.md`` says why. Every choice here is made from the release alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector, IntVector
from discreet.data.edges import even_places
from discreet.estimate.curves import Curves, RocPath
from discreet.estimate.fit import Fit, Flat, Other, flat_fit, too_little, unusable_fit
from discreet.estimate.score_grid import ScoreGrid, find_grid
from discreet.estimate.spline_model import FEWEST_BINS, ModelAverage, symmetric_average
from discreet.estimate.ties import (
    STEPS_NOTE,
    Ties,
    end_ties,
    find_ties,
    is_stepped,
    values_a_bin,
    with_steps,
)
from discreet.statistic.observed import NoisyHistogram

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
_CROWDED: Final = 0.15
"""Share of pairs inside bins from which on the bins are badly placed."""
_HEAPED: Final = 0.02
"""Share of pairs beyond the farthest edges from which on it matters how they lie there."""
_END_COST: Final = 1.5
"""Share of the distance to a fit without ties there that may be the error: a curve
drawn into an end bin takes off two thirds of it or more."""
_ROUNDING: Final = 1e-9
_MODEL_COST: Final = 0.5
"""Share of the distance to the flat fit that the model's bias is taken for."""
_CROWDING: Final = (
    "the scores sit in few bins: {:.0%} of the pairs of a positive and a "
    "negative share one; let a pilot round find where scores lie (pilot=True), or give "
    "edges at quantiles of public reference scores, or more bins"
)
_ON_GRID: Final = (
    "the scores lie on a grid of 1/{0}; declare it (edges=discreet.Grid(1/{0})) to have "
    "every value counted"
)
_HEAP: Final = (
    "{:.0%} of the pairs of a positive and a negative lie beyond the farthest "
    "edge and are taken as ties; if these scores differ, give the plan edges there "
    "(quantiles of public reference scores)"
)


@dataclass(frozen=True, slots=True)
class Smooth:
    """A joint empirical-Bayes model of both classes, with fallbacks to ``Flat``.

    - exact counts, known score values, fewer than 4 bins, or noise shared by the
      classes: as ``Flat`` fits them;
    - ties (heavy bins between empty ones, examples beyond the farthest edges): gaps
      are emptied, ties joined by straight lines, and the model fits the rest;
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
        """Fit a release: the same release always gives the same fit."""
        if observed.exact:
            return replace(Flat().fit(observed), estimator=self.name)
        if (reason := too_little(observed, "little data", least=0.0)) is not None:
            return unusable_fit(
                observed, observed.projected(), reason, estimator=self.name
            )
        if observed.edges.atoms:
            return self._flat(observed, find_ties(observed))
        if (grid := find_grid(observed)) is not None:
            return _on_grid(grid, observed, self._off_grid(grid.spread(observed)))
        return self._off_grid(observed)

    def _off_grid(self, observed: NoisyHistogram) -> Fit:
        """Fit scores that are not known to lie on a grid."""
        ties, ends = find_ties(observed), end_ties(observed)
        rest = int(np.count_nonzero(~(ties.tied | ties.gaps)))
        if ties.gaps.any() and rest < FEWEST_BINS:
            return self._ties(observed)
        inside = _pairs_inside_bins(observed, ties.tied)
        heaped = _pairs_inside_bins(observed, ~ends)
        notes = (_CROWDING.format(inside),) if inside >= _CROWDED else ()
        if heaped >= _HEAPED:
            notes = (*notes, _HEAP.format(heaped))
        average, dispersion = None, 1.0
        if rest >= FEWEST_BINS:
            average, dispersion = _model_counts(observed, ties)
        stepped = is_stepped(observed, ties, dispersion)
        if average is None:
            fit = self._flat(observed, ties, notes, stepped=stepped)
        else:
            fit = self._drawn(observed, average, ties, notes, stepped=stepped)
        if heaped < _HEAPED:
            return fit
        bent = self._flat(observed, ties._replace(tied=ties.tied & ~ends))
        return replace(fit, other=Other(bent, _END_COST))

    def _flat(
        self,
        observed: NoisyHistogram,
        ties: Ties,
        notes: tuple[str, ...] = (),
        *,
        stepped: bool = False,
    ) -> Fit:
        """Join the counts as they are, none of them in gaps."""
        kept = replace(
            observed,
            negatives=np.where(ties.gaps, 0.0, observed.negatives),
            positives=np.where(ties.gaps, 0.0, observed.positives),
        )
        flat = flat_fit(
            observed,
            kept.projected(),
            "linear" if observed.edges.atoms else "pchip",
            estimator=self.name,
            way="flat",
            noise_path="damped",
            notes=notes,
            ties=ties.tied if ties.tied.any() else None,
        )
        if not stepped:
            return flat
        curves = with_steps(flat.curves, flat.counts, values_a_bin(observed, ties))
        return replace(
            flat, curves=curves, bend=flat.curves.roc, notes=(*flat.notes, STEPS_NOTE)
        )

    def _ties(self, observed: NoisyHistogram) -> Fit:
        """Empty the bins between ties, where there is only noise; join linearly."""
        filled = observed.totals >= _GAP * max(observed.noise.scale, 1.0)
        counts = replace(
            observed,
            negatives=np.where(filled, np.maximum(observed.negatives, 0.0), 0.0),
            positives=np.where(filled, np.maximum(observed.positives, 0.0), 0.0),
        )
        return flat_fit(
            *(observed, counts, "linear"),
            estimator=self.name,
            way="ties",
            noise_path="damped",
        )

    def _drawn(
        self,
        observed: NoisyHistogram,
        average: ModelAverage,
        ties: Ties,
        notes: tuple[str, ...],
        *,
        stepped: bool,
    ) -> Fit:
        """Draw the average of the model's sub-cells and PCHIP through its counts."""
        cells, crowded = average.cells, bool(notes)
        negatives, positives = cells.sum(axis=2)
        counts = replace(observed, negatives=negatives, positives=positives)
        tied = ties.tied if ties.tied.any() else None
        drawn = Curves.from_histogram(counts, "pchip", ties=tied)
        model = RocPath(_rates(cells[0]), _rates(cells[1]), "linear")
        curves = replace(drawn, path=_average(model, drawn.roc, _MODEL))
        if stepped:
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
            response=average.response,
            between=average.between,
        )


def _on_grid(grid: ScoreGrid, observed: NoisyHistogram, spread: Fit) -> Fit:
    """Put the fit of spread scores back on the multiples of a grid."""
    multiples = grid.at_multiples(spread.counts)
    if min(multiples.negatives.sum(), multiples.positives.sum()) <= 0:
        return replace(spread, observed=observed)
    negatives, positives = np.split(grid.widened(spread.counts.vector[None, :])[0], 2)
    counts = replace(observed, negatives=negatives, positives=positives)
    response, other, between = spread.response, spread.other, spread.between
    if response is not None:
        response = grid.responding(response)
    if other is not None:
        other = other._replace(fit=_on_grid(grid, observed, other.fit))
    return replace(
        spread,
        observed=observed,
        counts=counts,
        curves=grid.curves(counts, multiples),
        bend=None,
        notes=(*observed.notes, _ON_GRID.format(grid.steps)),
        other=other,
        response=response,
        between=None if between is None else grid.widened(between),
        atoms=multiples,
    )


def _pairs_inside_bins(observed: NoisyHistogram, but: BoolVector) -> float:
    """Return the share of pairs of both classes that share a bin, but for some bins."""
    counts = observed.projected()
    inside = np.where(but, 0.0, counts.negatives * counts.positives)
    return float(inside.sum()) / (counts.total_negatives * counts.total_positives)


def _model_counts(
    observed: NoisyHistogram, ties: Ties
) -> tuple[ModelAverage | None, float]:
    """Return the model's counts and their dispersion.

    Ties and gaps say nothing of a smooth density: the model does not follow them.
    Ties keep their counts, gaps have none. None where there is no fit, or one too far
    from the released counts.
    """
    noise = observed.covariance
    if (noise.cross != 0).any():
        return None, 1.0
    released = np.stack([observed.negatives, observed.positives])
    # The Laplace distribution of the same variance, whatever the release's own.
    scale = np.sqrt(np.stack([noise.negatives, noise.positives]) / 2)
    out = ties.tied | ties.gaps
    average = symmetric_average(
        np.where(out, np.maximum(released, 0.0), released),
        noise_scale=np.where(out, _LEFT_OUT, 1.0) * scale,
        places=even_places(observed.edges),
    )
    if average is None:
        return None, 1.0
    cells, response, between, dispersion = average
    counts = cells.sum(axis=2)
    if float(np.mean((np.abs(counts - released) / scale)[:, ~out])) > _MISFIT:
        return None, dispersion
    reach = (math.log(2 * len(observed.edges)) + _BEYOND) * scale
    kept = np.maximum(np.clip(counts, released - reach, released + reach), 0.0)
    spread = np.divide(kept, counts, out=np.zeros_like(kept), where=counts > 0)
    bounded = cells * spread[:, :, None]
    even = np.maximum(released, 0.0) / cells.shape[2]
    bounded[:, ties.tied] = even[:, ties.tied, None]
    bounded[:, ties.gaps] = 0.0
    response = response.held(np.tile(ties.tied, 2), 1.0)
    response = response.held(np.tile(ties.gaps, 2), 0.0)
    between[:, np.tile(out, 2)] = 0.0
    return ModelAverage(bounded, response, between, dispersion), dispersion


def _rates(cells: FloatArray) -> FloatVector:
    """Accumulate from the highest score down, as a share of all."""
    running = np.append(0.0, np.cumsum(cells.ravel()[::-1]))
    return running / float(running[-1])


def _average(first: RocPath, second: RocPath, share: float) -> RocPath:
    """Average two curves through the same knots at equal places (F + T)/2.

    Where the second has ties, so has the average, each a single segment.
    """
    places = np.unique(np.concatenate([first.knots[0], second.places(8)]))
    knots, tied = second.knots[0], second.tied

    def segment(w: FloatVector) -> IntVector:
        return np.clip(np.searchsorted(knots, w, side="right") - 1, 0, tied.size - 1)

    if tied.any():
        k = segment(places)
        inside = np.minimum(places - knots[k], knots[k + 1] - places) > _ROUNDING
        places = places[~(tied[k] & inside)]
    points = (
        share * one + (1 - share) * other
        for one, other in zip(first.at(places), second.at(places), strict=True)
    )
    # Rounding may turn a level stretch into a fall of one unit in the last place.
    fpr, tpr = (np.minimum(np.maximum.accumulate(p), 1.0) for p in points)
    middle = (places[1:] + places[:-1]) / 2
    ties = tied[segment(middle)] if tied.any() else None
    return RocPath(fpr, tpr, "linear", ties)
