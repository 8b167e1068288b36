"""The papers' methods as estimators: they read a released tree, not a histogram."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from discreet.errors import ReleaseError
from discreet.estimate.areas import (
    auc_limits,
    aupr_limits,
    average_precision_limits,
    trapezoid_area,
)
from discreet.estimate.brier import brier_score
from discreet.estimate.curves import Curves, RocPath
from discreet.estimate.estimate import Binning, Estimate, Normal, NotYet, Zero
from discreet.estimate.fedcurve import FedCurve, ScoreCurves
from discreet.estimate.range_queries import RangeQueries
from discreet.metrics.names import Metric
from discreet.statistic.observed import NoiseLaw, NoisyHistogram
from discreet.statistic.tree import NoisyTree

TreeMethod: TypeAlias = FedCurve | RangeQueries
_PIECES: Final = 16
_RESAMPLES: Final = 40


@dataclass(frozen=True, eq=False)
class OnTree:
    """A method of the papers applied to one released tree.

    The noise error comes from resampling the tree with the law of its noise,
    with a generator seeded by the release: two readers get the same number.
    """

    tree: NoisyTree
    law: NoiseLaw
    method: TreeMethod

    @property
    def name(self) -> str:
        """The method's own name."""
        return self.method.name

    def observed(self) -> NoisyHistogram:
        """Return the tree's consistent leaves as a class histogram."""
        tree = self.tree.consistent
        return NoisyHistogram(
            tree.edges, tree.negatives[-1], tree.positives[-1], self.law
        )

    def counts(self, observed: NoisyHistogram) -> NoisyHistogram:
        """Return the leaves without negative counts."""
        return observed.projected()

    def notes(self, observed: NoisyHistogram) -> tuple[str, ...]:
        """Say what this is."""
        return (*observed.notes, "a published method, for comparison")

    @cached_property
    def _found(self) -> ScoreCurves | str:
        try:
            return self.method.curves(self.tree)
        except ReleaseError as refusal:
            return str(refusal)

    def curves(self, observed: NoisyHistogram) -> Curves:
        """Return the curves, at the leaves' edges and as drawn by the method."""
        found = self._found
        if isinstance(found, str):
            return Curves(np.array([np.inf]), np.zeros(1), np.zeros(1), "linear")
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
        return Curves(np.append(np.inf, edges), tp, fp, "linear", path, found.pr)

    def metrics(
        self, observed: NoisyHistogram, wanted: Iterable[Metric]
    ) -> Mapping[Metric, Estimate]:
        """Return the method's areas, with the tree's leaves for the limits."""
        counts = self.counts(observed)
        spread = self._spread()
        found: dict[Metric, Estimate] = {}
        for metric in sorted(wanted):
            if metric == "brier":
                found[metric] = replace(brier_score(counts), noise=spread[metric])
            elif isinstance(self._found, str):
                found[metric] = Estimate.undefined(self._found)
            else:
                low, high = _LIMITS[metric](counts.negatives, counts.positives)
                value = _AREAS[metric](self._found)
                # A published curve may lie outside what its leaves allow.
                binning = Binning(min(low, value), max(high, value), 0.0)
                found[metric] = Estimate(value, NotYet(), spread[metric], binning)
        return found

    def _spread(self) -> dict[Metric, Normal | Zero]:
        """Return each metric's noise by resampling the release."""
        metrics: tuple[Metric, ...] = ("auc", "average_precision", "aupr", "brier")
        if self.law.scale == 0 or isinstance(self._found, str):
            return dict.fromkeys(metrics, Zero())
        tree = self.tree.consistent
        flat = np.concatenate([*tree.negatives, *tree.positives])
        seed = hashlib.sha256(flat.tobytes()).digest()
        rng = np.random.default_rng(int.from_bytes(seed, "big"))
        draws: dict[Metric, list[float]] = {metric: [] for metric in metrics}
        for noise in self.law.sample(flat, _RESAMPLES, rng):
            again = _moved(tree, noise)
            curves = OnTree(again, self.law, self.method)
            if isinstance(curves._found, str):
                continue
            for metric, area in _AREAS.items():
                draws[metric].append(area(curves._found))
            draws["brier"].append(brier_score(curves.observed().projected()).value)
        return {m: Normal(float(np.std(v, ddof=1))) for m, v in draws.items()}


def _moved(
    tree: NoisyTree, noise: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> NoisyTree:
    """Return the tree with noise added to every node."""
    sizes = [level.size for level in (*tree.negatives, *tree.positives)]
    parts = np.split(noise, np.cumsum(sizes)[:-1])
    height = len(tree.negatives)
    return replace(
        tree,
        negatives=tuple(
            a + b for a, b in zip(tree.negatives, parts[:height], strict=True)
        ),
        positives=tuple(
            a + b for a, b in zip(tree.positives, parts[height:], strict=True)
        ),
    )


def _aupr(curves: ScoreCurves) -> float:
    trace = curves.trace(_PIECES)
    return trapezoid_area(trace.tpr, trace.precision)


_AREAS: Final[dict[Metric, Callable[[ScoreCurves], float]]] = {
    "auc": lambda curves: curves.auc,
    "average_precision": lambda curves: curves.average_precision,
    "aupr": _aupr,
}
_LIMITS: Final = {
    "auc": auc_limits,
    "average_precision": average_precision_limits,
    "aupr": aupr_limits,
}
