"""A fit: an estimator's view of one release, from which every number and curve follows.

An estimator fits a released histogram once. The fit holds counts without noise's
impossibilities, the curves through them, notes, the reason if nothing can be estimated, and
how the release's noise reaches a metric. Metrics, intervals, bands and calibration
are functions of a fit and of nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from discreet.arrays import BoolVector, FloatArray, FloatVector, IntVector, product
from discreet.estimate.curves import Curves, Interpolation, RocPath, ThresholdPath
from discreet.estimate.estimate import Estimate
from discreet.estimate.score_grid import GridCounts, possible_steps
from discreet.estimate.slopes import Cells, Slopes
from discreet.estimate.sub_bins import refined
from discreet.estimate.ties import choose_interpolation, end_ties
from discreet.noise.arc_decoder import DecodedNoise
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.protocol import Statistic

Way: TypeAlias = Literal["flat", "ties", "model", "totals", "tree", "unusable"]
"""How a release was fitted."""

NoisePath: TypeAlias = Literal["numeric", "slopes", "damped", "followed", "resampled"]
"""How the noise of a release reaches a metric of its fit:

- ``numeric``: by central differences of the value itself, counts joined by straight
  lines; a step from an empty bin only goes up;
- ``slopes``: by the metric's slopes in the fitted counts;
- ``damped``: likewise, but an area under the PR curve moves by less than its slopes
  where the highest bins hold little but noise;
- ``followed``: damped, and through the model's response to the released counts;
- ``resampled``: by fitting the release again with more noise of its distribution.
"""

_DECODED_COST: Final = 1.0
"""Of the distance to another decoding's value: what the chosen smoothness may cost."""
_SURE: Final = 4.0
"""A class total below this many standard deviations of its noise is no total."""
_MOST_ROUNDS: Final = 2000
_CLOSE: Final = 1e-3
"""Examples by which the corrections of Dykstra's last two rounds may differ."""


class Estimator(Protocol):
    """Fits a released histogram; it never sees examples."""

    @property
    def name(self) -> str:
        """How the result names it."""
        ...

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Fit a release: the same release always gives the same fit."""
        ...


class WithStatistic(Estimator, Protocol):
    """An estimator that fits one statistic alone, and names it."""

    def hierarchy(self) -> Statistic:
        """Return what a plan must count for it."""
        ...


class Other(NamedTuple):
    """Another fit of a release: without a model (less bias, more noise), or with another.

    ``share`` of the distance between the two values is what the model may cost.
    """

    fit: Fit
    share: float


@dataclass(frozen=True, eq=False)
class Fit:
    """The counts and curves of a release, how they were found, and what to warn of."""

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
    """The fit without a model, where a model was fitted."""
    decodings: tuple[Other, ...] = ()
    """Fits of what was sent decoded with another smoothness."""
    atoms: GridCounts | None = None
    """Counts at the multiples of a grid on which all scores lie, where one was seen."""
    response: Callable[[FloatArray], FloatArray] | None = None
    """Turns slopes in the counts, a row each, into slopes in the released ones, where a
    model was fitted."""
    between: FloatArray | None = None
    """How far the counts of each fit of a model lie from these counts, a row a fit,
    times the root of its weight."""

    has_curves: ClassVar[bool] = True

    @cached_property
    def resamples(self) -> Sequence[Fit]:
        """The release fitted again with more noise, where errors need that."""
        return () if self.resample is None else self.resample()

    @cached_property
    def bins(self) -> Cells:
        """The counts, bin by bin."""
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
        each = self.observed.noise.covariance(self.counts.vector)
        return replace(self.bins, tied=False, noise=each.negatives + each.positives)

    def followed(self, slopes: Slopes) -> Slopes:
        r"""Return slopes in the released counts of a metric of the fitted counts.

        :math:`S^\top g` with S the response: what the estimator passes on of a
        count's noise, and what it spreads over the neighbours.
        """
        if self.response is None:
            return slopes
        row = np.concatenate(slopes)[None, :]
        return Slopes(*np.split(self.response(row)[0], 2))

    def unsure(self, slopes: Slopes) -> float:
        """Return the sd that the choice among a model's fits gives a metric."""
        if self.between is None:
            return 0.0
        column = np.concatenate(slopes)[:, None]
        return float(np.linalg.norm(product(self.between, column)))

    @cached_property
    def along(self) -> ThresholdPath | None:
        """The thresholds of the curve inside the bins.

        None where the curve has none there: scores on known values or a grid, ties in
        every bin, a published method's curve, no curve at all.
        """
        curves, edges = self.curves, self.counts.edges
        tied = curves.joined_for_ties or edges.atoms or self.atoms is not None
        if tied or self.way in ("tree", "unusable"):
            return None
        if np.isnan(curves.fpr).any() or np.isnan(curves.tpr).any():
            return None
        return ThresholdPath.of(curves, edges)

    @cached_property
    def possible_steps(self) -> IntVector:
        """Grids of scores that the release allows: one that was seen is one of them."""
        return possible_steps(self.observed, self.counts)

    def moved(self, vector: FloatVector) -> Fit:
        """Return the fit of other counts, joined by straight lines."""
        negatives, positives = np.split(np.maximum(vector, 0.0), 2)
        counts = replace(self.counts, negatives=negatives, positives=positives)
        drawn = Curves.from_histogram(counts, "linear")
        path = RocPath(drawn.fpr, drawn.tpr, "linear")
        return replace(self, counts=counts, curves=replace(drawn, path=path), bend=None)


@dataclass(frozen=True, eq=False)
class ScalarFit:
    """A few numbers that were revealed as they are: no counts, no curve.

    Rank sums under label privacy, areas under multi-party computation and a
    curator's single numbers are such values. Asking for more is an error
    that names the way to get it.
    """

    given: Mapping[str, Estimate]
    """What was revealed."""
    remedy: str
    """How to get what was not revealed, the end of a sentence."""
    notes: tuple[str, ...] = ()
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    """How the values were obtained (rows, bytes, rounds), for the report."""
    refusal: str | None = None

    has_curves: ClassVar[bool] = False


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
        decoded = isinstance(noise, DecodedNoise)
        flat = flat_fit(
            observed,
            observed.projected(),
            self.interpolation or choose_interpolation(observed),
            estimator=self.name,
            way="flat",
            # Decoded counts are smooth: none is held at 0 by the projection.
            noise_path="slopes" if decoded else "numeric",
            ties=ends if ends.any() else None,
        )
        if not isinstance(noise, DecodedNoise):
            return flat
        others = []
        for negatives, positives in (np.split(v, 2) for v in noise.otherwise):
            counts = replace(observed, negatives=negatives, positives=positives)
            if counts.missing_class is None:
                drawn = Curves.from_histogram(counts, flat.curves.interpolation)
                other = replace(flat, counts=counts, curves=drawn)
                others.append(Other(other, _DECODED_COST))
        return replace(flat, decodings=tuple(others))


@dataclass(frozen=True, slots=True)
class PublicTotals:
    r"""Fits a histogram whose bin totals are exact and whose labels are noisy.

    Under label privacy the release holds :math:`\tilde p_b`, the positives of bin b with
    an unbiased noise of variance :math:`v_b`, and the examples :math:`t_b` exactly; the
    noise of the negatives is the opposite. The fit is the cumulative positives nearest
    (in least squares) to the released ones that rise in every bin by at least 0 and at
    most :math:`t_b`: neither rate falls and no count is negative, while clipping bins one
    by one would add the positive part of the noise to each.

    A metric with slopes :math:`g^+, g^-` has the noise variance
    :math:`\sum_b (g^+_b - g^-_b)^2\, v_b`. For the AUC under randomized response, bins of
    one example, this is
    :math:`\frac{e^\varepsilon}{(e^\varepsilon-1)^2}\sum_i\frac{(r_i-c)^2}{(PN)^2}` with
    :math:`c = P - \frac12 + A(N - P)`, the ranks r from 0.
    """

    interpolation: Interpolation | None = None

    @property
    def name(self) -> str:
        """What the result calls it."""
        return "known bin totals, monotone projection of the positives"

    def fit(self, observed: NoisyHistogram) -> Fit:
        """Project the cumulative positives; every bin keeps its total."""
        totals = np.maximum(observed.totals, 0.0)
        positives = rising_within(observed.positives, totals)
        counts = replace(observed, negatives=totals - positives, positives=positives)
        reason = too_little(observed, "few labels", least=1.0)
        if reason is not None:
            return unusable_fit(
                observed, counts, reason, estimator=self.name, noise_path="slopes"
            )
        return flat_fit(
            observed,
            counts,
            self.interpolation or choose_interpolation(observed),
            estimator=self.name,
            way="totals",
            noise_path="slopes",
        )


def rising_within(steps: FloatVector, most: FloatVector) -> FloatVector:
    r"""Return steps in [0, most] whose running sum is nearest to the given one's.

    Dykstra's (1983) algorithm between two closed convex sets: running sums x that start
    at 0 or above and do not fall, and those for which :math:`\sum most - x` does so
    (clipping an isotonic regression at 0 projects on such a set). The corrections u
    and v make it converge to the nearest point, not to any common point.

    >>> steps = rising_within(np.array([1.0, -1.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    >>> steps.round(2).tolist()
    [0.67, 0.0, 2.0]
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

    if not steps.size:
        return steps
    ceiling = np.cumsum(most)
    x = np.cumsum(steps)
    u, v = np.zeros_like(x), np.zeros_like(x)
    for _ in range(_MOST_ROUNDS):
        before = u, v
        rising = np.maximum(isotonic_regression(x + u).x, 0.0)
        u = x + u - rising
        below = isotonic_regression(ceiling - (rising + v)).x
        bounded = ceiling - np.maximum(below, 0.0)
        v = rising + v - bounded
        x = bounded
        # x may rest while the corrections still move it on (Birgin and Raydan
        # 2005): the end is where these rest.
        if max(np.abs(u - before[0]).max(), np.abs(v - before[1]).max()) < _CLOSE:
            break
    return np.clip(np.diff(x, prepend=0.0), 0.0, most)


def flat_fit(
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
    """Return the fit of counts that are joined as they are.

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


def unusable_fit(
    observed: NoisyHistogram,
    counts: NoisyHistogram,
    reason: str,
    *,
    estimator: str,
    noise_path: NoisePath = "damped",
) -> Fit:
    """Return one point without rates: no curve that could be drawn by mistake."""
    none = Curves(np.array([np.inf]), np.zeros(1), np.zeros(1), "linear")
    return Fit(
        observed,
        counts,
        none,
        estimator,
        "unusable",
        noise_path,
        notes=observed.notes,
        refusal=observed.refusal or reason,
    )


def too_little(observed: NoisyHistogram, what: str, *, least: float) -> str | None:
    """Return why there is no curve, if so: a class total below its noise or ``least``."""
    noise = observed.covariance
    for name, total, variance in (
        ("positives", observed.total_positives, noise.positives),
        ("negatives", observed.total_negatives, noise.negatives),
    ):
        sd = math.sqrt(float(variance.sum()))
        if total < max(_SURE * sd, least) or total <= 0:
            return (
                f"too {what} for this epsilon: the release counts {total:,.0f} "
                f"{name} with a noise of {sd:,.0f}, and curves need {_SURE:g} times "
                "the noise; use more data, a larger epsilon or fewer bins"
            )
    return None
