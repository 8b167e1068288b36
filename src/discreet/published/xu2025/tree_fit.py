"""The papers' methods as estimators: they read a released tree, not a histogram."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.areas import trapezoid_area
from discreet.estimate.curves import Curves, Polyline, RocPath, Traced, precision_of
from discreet.estimate.fit import Fit, WithStatistic, unusable_fit
from discreet.published.xu2025.quantiles import Ecdf
from discreet.statistic.hierarchy import Hierarchy, NoisyTree
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram

_PIECES: Final = 16
_POINTS: Final = 2048
"""About so many points of a curve with their thresholds."""
_RESAMPLES: Final = 40
_NOTE: Final = "a published method, for comparison"


class TreeMethod(WithStatistic, Protocol):
    """A published method: a tree in, curves out."""

    def hierarchy(self) -> Hierarchy:
        """Return the tree that a plan must release for it."""
        ...

    def curves(self, observed: NoisyTree) -> ScoreCurves:
        """Return the curves from a released tree."""
        ...


class Trace(NamedTuple):
    """Points of the curves from (0, 0) to (1, 1); precision 1 where none is found."""

    fpr: FloatVector
    tpr: FloatVector
    precision: FloatVector


@dataclass(frozen=True, eq=False)
class ScorePath:
    """A curve (x, y) traced by the threshold, from the highest one down.

    ``kind`` names the axes. Between the knots of the ECDFs it is drawn as
    finely as asked; a jump of an ECDF is a straight line, as ties are.
    """

    curves: ScoreCurves
    kind: Literal["roc", "pr"]

    @property
    def piecewise_linear(self) -> bool:
        """Whether straight lines between the knots are the curve."""
        ecdfs = (self.curves.negatives, self.curves.positives)
        linear = all(ecdf.interpolation == "linear" for ecdf in ecdfs)
        return self.kind == "roc" and linear

    def polyline(self, pieces: int) -> Polyline:
        """Cut each gap between knots into ``pieces``."""
        traced = self.curves.trace(pieces)
        if self.kind == "roc":
            return Polyline(traced.fpr, traced.tpr)
        return Polyline(traced.tpr, traced.precision)


@dataclass(frozen=True, eq=False)
class ScoreCurves:
    """ROC and PR curves from the score distributions of the two classes.

    ``everyone`` is the ECDF of all examples where the ``combine`` strategy
    reads the number of predicted positives from it, else None.
    """

    negatives: Ecdf
    positives: Ecdf
    total_negatives: float
    total_positives: float
    everyone: Ecdf | None = None

    def __post_init__(self) -> None:
        if self.total_negatives <= 0 or self.total_positives <= 0:
            raise ReleaseError(
                "a class total is not positive: too few examples for this epsilon"
            )

    @property
    def roc(self) -> ScorePath:
        """The ROC curve."""
        return ScorePath(self, "roc")

    @property
    def pr(self) -> ScorePath:
        """The PR curve."""
        return ScorePath(self, "pr")

    @cached_property
    def _knots(self) -> FloatVector:
        ecdfs = [self.negatives, self.positives]
        if self.everyone is not None:
            ecdfs.append(self.everyone)
        knots: FloatVector = np.unique(np.concatenate([e.places for e in ecdfs]))
        return knots

    def trace(self, pieces: int) -> Trace:
        """Return the curve's points, every gap between knots cut into ``pieces``.

        ``separate`` divides the true positives by the sum of both classes;
        ``combine`` by the number of all examples above the threshold, read from
        quantiles of the merged release, and clips at 1. Both cost the same
        budget. The paper finds ``separate`` better, since its ratio cannot
        exceed 1.
        """
        return self._rates(lambda ecdf: self._survival(ecdf, pieces))

    def traced(self, edges: FloatVector) -> Traced:
        """Return the curve's points at its knots, at edges and between the knots.

        A jump of an ECDF has a threshold on either side of it: at the knot and at
        the next number above it. Points where nothing changes are left out.
        """
        knots = self._knots
        pieces = min(max(_POINTS // knots.size, 1), _PIECES)
        steps = np.arange(pieces) / pieces
        inner = (knots[:-1, None] + np.diff(knots)[:, None] * steps).ravel()
        finite = np.concatenate([inner, knots, np.nextafter(knots, np.inf), edges])
        thresholds = np.append(np.inf, np.unique(finite)[::-1])

        def above(ecdf: Ecdf) -> FloatVector:
            above = np.append(0.0, 1.0 - ecdf.before(thresholds[1:]))
            return np.maximum.accumulate(above)

        f, t, precision = self._rates(above)
        moves = np.append(True, (np.diff(f) > 0) | (np.diff(t) > 0))
        return Traced(thresholds[moves], f[moves], t[moves], precision[moves])

    def _rates(self, above: Callable[[Ecdf], FloatVector]) -> Trace:
        """Return both rates and the precision, from shares above thresholds."""
        f, t = above(self.negatives), above(self.positives)
        true_positives = self.total_positives * t
        if self.everyone is None:
            false_positives = self.total_negatives * f
        else:
            total = self.total_negatives + self.total_positives
            predicted = total * above(self.everyone)
            false_positives = predicted - true_positives
        raw = precision_of(true_positives, false_positives)
        precision = np.clip(np.where(np.isnan(raw), 1.0, raw), 0.0, 1.0)
        return Trace(f, t, precision)

    @cached_property
    def auc(self) -> float:
        """Area under the ROC curve."""
        traced = self.trace(1 if self.roc.piecewise_linear else _PIECES)
        return trapezoid_area(traced.fpr, traced.tpr)

    @cached_property
    def average_precision(self) -> float:
        """Average precision: the area under the PR curve, a step at each jump.

        The papers sum steps over 10,000 thresholds, which comes to the same.
        """
        traced = self.trace(_PIECES)
        rises = np.diff(traced.tpr)
        before, after = traced.precision[:-1], traced.precision[1:]
        jumps = np.arange(rises.size) % (_PIECES + 1) == 0
        return float(rises @ np.where(jumps, after, (before + after) / 2))

    def _survival(self, ecdf: Ecdf, pieces: int) -> FloatVector:
        """Return 1 - ECDF downwards: 0, ``pieces`` + 1 points a gap, 1.

        Both limits at each knot: points 0 and 1, and so on every ``pieces`` + 1,
        are the two ends of a jump.
        """
        knots = self._knots
        steps = np.arange(1, pieces) / pieces
        inner = (knots[:-1, None] + np.diff(knots)[:, None] * steps).ravel()
        inside = ecdf.at(inner).reshape(knots.size - 1, pieces - 1)
        start, stop = ecdf.at(knots[:-1]), ecdf.before(knots[1:])
        rising = np.column_stack([start, inside, stop]).ravel()
        whole = np.concatenate([[0.0], np.maximum.accumulate(rising), [1.0]])
        return 1.0 - whole[::-1]


def read_tree(method: TreeMethod, observed: NoisyHistogram) -> Fit:
    """Read a released tree by a published method.

    The noise error comes from fitting it again with noise of its own distribution added, by a
    generator seeded by the release: two readers get the same number.
    """
    tree = observed.tree
    if tree is None:
        raise PlanError("this method reads a released tree; ask for one in the plan")
    notes = (*observed.notes, _NOTE)
    try:
        found = method.curves(tree)
    except ReleaseError as refusal:
        reason = str(refusal)
        nothing = unusable_fit(
            observed, observed.projected(), reason, estimator=method.name
        )
        return replace(nothing, notes=notes)
    return Fit(
        observed,
        observed.projected(),
        _drawn(found, observed),
        method.name,
        "tree",
        "resampled",
        notes=notes,
        refusal=observed.refusal,
        own={name: area(found) for name, area in _AREAS.items()},
        resample=lambda: _resampled(method, tree.consistent, observed),
    )


def _drawn(found: ScoreCurves, observed: NoisyHistogram) -> Curves:
    """Return the curves, at the leaves' edges and as drawn by the method."""
    edges = observed.edges.array[-2::-1]
    above = [1.0 - e.before(edges) for e in (found.positives, found.negatives)]
    tp, fp = (
        np.append(0.0, np.maximum.accumulate(a)) * total
        for a, total in zip(
            above, (found.total_positives, found.total_negatives), strict=True
        )
    )
    trace = found.trace(_PIECES)
    path = RocPath(trace.fpr, trace.tpr, "linear")
    return Curves(
        np.append(np.inf, edges),
        tp,
        fp,
        "linear",
        path,
        found.pr,
        traced=found.traced(edges),
    )


def _resampled(
    method: TreeMethod, tree: NoisyTree, observed: NoisyHistogram
) -> list[Fit]:
    """Fit the tree again with fresh noise added; unusable fits are left out."""
    flat = np.concatenate([*tree.negatives, *tree.positives])
    seed = hashlib.sha256(flat.tobytes()).digest()
    rng = np.random.default_rng(int.from_bytes(seed, "big"))
    noises = observed.noise.sample(flat, _RESAMPLES, rng)
    again = [
        read_tree(method, histogram_of(_moved(tree, noise), observed.noise))
        for noise in noises
    ]
    return [fit for fit in again if fit.refusal is None]


def histogram_of(tree: NoisyTree, noise: NoiseDistribution) -> NoisyHistogram:
    """Return a tree's consistent leaves as a class histogram that remembers it."""
    leaves = tree.consistent
    return NoisyHistogram(
        tree.edges, leaves.negatives[-1], leaves.positives[-1], noise, tree=tree
    )


def _moved(tree: NoisyTree, noise: FloatVector) -> NoisyTree:
    """Return the tree with noise added to every node."""
    levels, height = (*tree.negatives, *tree.positives), len(tree.negatives)
    parts = np.split(noise, np.cumsum([level.size for level in levels])[:-1])
    moved = tuple(a + b for a, b in zip(levels, parts, strict=True))
    return replace(tree, negatives=moved[:height], positives=moved[height:])


_AREAS: Final[Mapping[str, Callable[[ScoreCurves], float]]] = {
    "auc": lambda curves: curves.auc,
    "average_precision": lambda curves: curves.average_precision,
    "aupr": lambda curves: trapezoid_area(*curves.trace(_PIECES)[1:]),
}
