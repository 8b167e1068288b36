"""A reading: one look at a release, from which every number and curve follows.

An estimator reads a released histogram once. The reading holds what it found: counts
without noise's impossibilities, the curves through them, what to warn of, why nothing
can be said if so, and how the release's noise reaches a metric. Metrics, intervals,
bands and calibration are functions of a reading and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector, IntVector
from discreet.estimate.curves import Curves, Interpolation, RocPath
from discreet.estimate.estimate import Estimate
from discreet.estimate.grid import Atoms
from discreet.estimate.inside_bins import Refits, possible_steps
from discreet.estimate.slopes import Cells, Slopes
from discreet.estimate.sub_bins import refined
from discreet.estimate.threshold_path import ThresholdPath
from discreet.estimate.ties import choose_interpolation, end_ties
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.protocol import Statistic

Way: TypeAlias = Literal["flat", "ties", "model", "totals", "tree", "unusable"]
"""How a release was read."""

NoisePath: TypeAlias = Literal["numeric", "slopes", "damped", "followed", "resampled"]
"""How the noise of a release reaches a metric of its reading:

- ``numeric``: by central differences of the value itself, counts joined by straight
  lines; a step from an empty bin only goes up;
- ``slopes``: by the metric's slopes in the counts that were read;
- ``damped``: likewise, but an area under the PR curve moves by less than its slopes
  where the highest bins hold little but noise;
- ``followed``: damped, and through the model's response to the released counts;
- ``resampled``: by reading the release again with noise of its law added.
"""


class Estimator(Protocol):
    """Reads a released histogram; never examples."""

    @property
    def name(self) -> str:
        """How the result names it."""
        ...

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Read a release: the same release always gives the same reading."""
        ...


class WithStatistic(Estimator, Protocol):
    """An estimator that reads one statistic alone, and names it."""

    def hierarchy(self) -> Statistic:
        """Return what a plan must count for it."""
        ...


class Other(NamedTuple):
    """The same release read without a model, which has less bias and more noise.

    Or read with another one. ``share`` of the distance between the two values is what
    the model may cost.
    """

    fit: Fit
    share: float


@dataclass(frozen=True, eq=False)
class Fit:
    """What a release was found to say, how, and what to warn of."""

    observed: NoisyHistogram
    """The release itself."""
    counts: NoisyHistogram
    """Counts per bin, none of them negative."""
    curves: Curves
    """The curves; a single point without rates when there are none."""
    estimator: str
    way: Way
    noise_path: NoisePath
    bend: RocPath | None = None
    """Another curve through the same counts: the shape inside the bins may cost as
    much as the distance to it."""
    notes: tuple[str, ...] = ()
    """What a reader should know about this release."""
    refusal: str | None = None
    """Why nothing that compares the classes can be told, if so."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Values of metrics that a published method defines itself."""
    resample: Callable[[], Sequence[Fit]] | None = None
    other: Other | None = None
    """The reading without a model, where a model read."""
    decodings: tuple[Other, ...] = ()
    """Readings of what was sent decoded with another smoothness."""
    atoms: Atoms | None = None
    """Counts at the multiples of a grid on which all scores lie, where one was seen."""
    response: FloatArray | None = None
    """How the counts moved with the released ones, where a model read them: a row a
    count, negatives' bins before positives'."""
    between: FloatArray | None = None
    """How far the counts of each fit of a model lie from the counts read, a row a fit,
    times the root of its weight."""

    has_curves: ClassVar[bool] = True

    @cached_property
    def resamples(self) -> Sequence[Fit]:
        """The release read again with more noise, where errors need that."""
        return () if self.resample is None else self.resample()

    @cached_property
    def bins(self) -> Cells:
        """The counts that were read, bin by bin."""
        return Cells(
            self.counts.negatives,
            self.counts.positives,
            tied=self.curves.joined_for_ties,
            edges=self.counts.edges,
        )

    @cached_property
    def pieces(self) -> Cells:
        """The counts cut finer along the curve, as unbinned scores would lie."""
        return Cells(
            *refined(self.counts, self.curves), tied=self.curves.joined_for_ties
        )

    @cached_property
    def damped(self) -> Cells:
        """The counts with their noise, whose examples are taken as spread out."""
        noise, at = self.observed.noise, _vector(self.counts)
        each = noise.covariance(at)
        return replace(self.bins, tied=False, noise=each.negatives + each.positives)

    def followed(self, slopes: Slopes) -> Slopes:
        r"""Return slopes in the released counts of a metric of the counts read.

        :math:`S^\top g` with S the response: what the estimator passes on of a
        count's noise, and what it spreads over the neighbours.
        """
        if self.response is None:
            return slopes
        return Slopes(*np.split(np.concatenate(slopes) @ self.response, 2))

    def unsure(self, slopes: Slopes) -> float:
        """Return the sd that the choice among fits gives a metric of the counts read."""
        if self.between is None:
            return 0.0
        return float(np.linalg.norm(self.between @ np.concatenate(slopes)))

    @cached_property
    def along(self) -> ThresholdPath | None:
        """The thresholds of the curve inside the bins.

        None where the curve has none there: scores on known values or a grid, ties in
        every bin, a published method's curve, no curve at all.
        """
        curves, edges = self.curves, self.counts.edges
        tied = curves.joined_for_ties or edges.atoms or self.atoms is not None
        if tied or self.way in ("tree", "unusable") or np.isnan(curves.fpr).any():
            return None
        if np.isnan(curves.tpr).any():
            return None
        return ThresholdPath.of(curves, edges)

    @cached_property
    def possible_steps(self) -> IntVector:
        """Grids of scores that the release allows: one that was seen is one of them."""
        return possible_steps(self.observed, self.counts)

    def moved(self, vector: FloatVector) -> Fit:
        """Return the reading of other counts, joined by straight lines."""
        negatives, positives = np.split(np.maximum(vector, 0.0), 2)
        counts = replace(self.counts, negatives=negatives, positives=positives)
        drawn = Curves.from_histogram(counts, "linear")
        path = RocPath(drawn.fpr, drawn.tpr, "linear")
        return replace(self, counts=counts, curves=replace(drawn, path=path), bend=None)


@dataclass(frozen=True, eq=False)
class ScalarFit:
    """A few numbers that were opened as they are: no counts, no curve.

    Rank sums under label privacy, areas under multi-party computation and a
    curator's single numbers open values. Asking for more than was opened is an error
    that names the way to get it.
    """

    given: Mapping[str, Estimate]
    """What was opened."""
    remedy: str
    """How to get what was not opened, the end of a sentence."""
    notes: tuple[str, ...] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    """How the values were obtained (rows, bytes, rounds), for the report."""
    refusal: str | None = None

    has_curves: ClassVar[bool] = False


_DECODED_COST: Final = 1.0
"""Of the way to another decoding's value: what the chosen smoothness may cost."""

AnyFit: TypeAlias = Fit | ScalarFit


@dataclass(frozen=True, slots=True)
class Flat:
    """Curves through the bins' cumulative counts.

    ``linear`` counts pairs inside a bin as ties and equals scikit-learn on the
    binned scores. ``pchip`` follows the curve's bend inside the bins. None
    chooses from the release.
    """

    interpolation: Interpolation | None = None

    @property
    def name(self) -> str:
        """The interpolation, or that it is chosen from the release."""
        return f"flat, {self.interpolation or 'interpolation chosen from the release'}"

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Draw the curves through the projected counts."""
        ends, noise = end_ties(observed), observed.noise
        found = flat_reading(
            observed,
            observed.projected(),
            self.interpolation or choose_interpolation(observed),
            estimator=self.name,
            way="flat",
            # Decoded counts are smooth: none is held at 0 by the projection.
            noise_path="slopes" if isinstance(noise, Refits) else "numeric",
            ties=ends if ends.any() else None,
        )
        if not isinstance(noise, Refits):
            return found
        decoded = (
            replace(observed, negatives=negatives, positives=positives)
            for negatives, positives in (np.split(v, 2) for v in noise.otherwise)
        )
        return replace(
            found,
            decodings=tuple(
                Other(_redrawn(found, counts), _DECODED_COST)
                for counts in decoded
                if counts.missing_class is None
            ),
        )


def flat_reading(
    observed: NoisyHistogram,
    counts: NoisyHistogram,
    interpolation: Interpolation,
    *,
    estimator: str,
    way: Way,
    noise_path: NoisePath,
    notes: tuple[str, ...] = (),
    ties: BoolVector | None = None,
) -> Fit:
    """Return the reading of counts that are joined as they are.

    PCHIP's typical error is its distance to straight lines; straight lines are for
    ties, which have none.
    """
    curves = Curves.from_histogram(counts, interpolation, ties=ties)
    bend = None
    if interpolation == "pchip":
        bend = RocPath(curves.fpr, curves.tpr, "linear", curves.ties)
    missing = counts.missing_class
    absent = None if missing is None else f"the pooled data hold no {missing}"
    return Fit(
        observed,
        counts,
        curves,
        estimator,
        way,
        noise_path,
        bend,
        observed.notes + notes,
        observed.refusal or absent,
    )


def _redrawn(fit: Fit, counts: NoisyHistogram) -> Fit:
    """Return the reading with other counts, joined alike."""
    drawn = Curves.from_histogram(counts, fit.curves.interpolation)
    return replace(fit, counts=counts, curves=drawn)


def unusable_reading(
    observed: NoisyHistogram, counts: NoisyHistogram, reason: str, *, estimator: str
) -> Fit:
    """Return one point without rates: no curve that could be drawn by mistake."""
    none = Curves(np.array([np.inf]), np.zeros(1), np.zeros(1), "linear")
    return Fit(
        observed,
        counts,
        none,
        estimator,
        "unusable",
        "damped",
        notes=observed.notes,
        refusal=observed.refusal or reason,
    )


def _vector(counts: NoisyHistogram) -> FloatVector:
    return np.concatenate([counts.negatives, counts.positives])
