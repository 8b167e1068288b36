r"""Maps of several classes' scores, and the top label's calibration, from one release.

A one-vs-rest release has, for each class k, how its column's scores go with its label.

- *Temperature*: one slope for all, :math:`\operatorname{logit} P(y = k) = b
  \operatorname{logit} s_k`, then probabilities are divided by their sum. One number, so
  noise hardly moves it (Maddock, Cormode and Maple 2025 find it best under noise).
- *Vector*: an intercept and a slope per class.

Temperature scaling of logits is fitted here on each class against the rest, because the
whole vector of an example is in no release: its b is not exactly 1/T of a softmax.

*Top label.* A class whose score is above one half is the top one; below, no histogram
tells. So the top label's calibration error is known from the examples of which the model
is that sure, and for the others only between none and all of their share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatArray, FloatVector
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.slopes import Slopes, noise_sd
from discreet.estimate.sub_bins import cell_scores
from discreet.metrics.calibration import raw_predictions
from discreet.metrics.logistic import fit_logistic, logit, sigmoid
from discreet.recalibrate.choose import cell_counts
from discreet.statistic.observed import NoisyHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

ClassMap: TypeAlias = Literal["temperature", "vector"]
_GROUPS: Final = 15
_SURE: Final = 0.5


@dataclass(frozen=True, eq=False)
class SeveralClassesMap:
    """Intercepts and slopes on the log-odds of every class's score."""

    name: ClassMap
    intercepts: FloatVector
    slopes: FloatVector

    def apply(self, scores: ArrayLike) -> FloatArray:
        """Return probabilities that add up to 1, one row per example."""
        z = logit(np.asarray(scores, dtype=np.float64))
        if z.ndim != 2 or z.shape[1] != self.slopes.size:
            raise InputError(f"scores have a column a class, {self.slopes.size} here")
        each = sigmoid(self.intercepts + self.slopes * z)
        rows: FloatArray = each / each.sum(axis=1, keepdims=True)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "intercepts": self.intercepts.tolist(),
            "slopes": self.slopes.tolist(),
        }


def fit_classes(
    classes: Mapping[str, NoisyHistogram], name: ClassMap = "temperature"
) -> SeveralClassesMap:
    """Fit a map to every class's counts against the rest."""
    parts = [_cells(counts) for counts in classes.values()]
    if name == "vector":
        fits = [
            fit_logistic(
                np.stack([np.ones_like(z), z]), n, p, start=np.array([0.0, 1.0])
            ).coefficients
            for z, n, p in parts
        ]
        return SeveralClassesMap(name, *np.array(fits).T)
    if name != "temperature":
        raise InputError("a map of several classes is 'temperature' or 'vector'")
    z, n, p = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    (slope,) = fit_logistic(z[None, :], n, p, start=np.ones(1)).coefficients
    return SeveralClassesMap(name, np.zeros(len(parts)), np.full(len(parts), slope))


def _cells(
    counts: NoisyHistogram,
) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return every cell's log-odds, negatives and positives."""
    scores = cell_scores(counts.edges)
    return logit(scores).ravel(), *cell_counts(counts, scores.shape[1])


def top_label_error(classes: Mapping[str, NoisyHistogram]) -> Estimate:
    r"""Return the top label's ECE over the examples whose top score is above a half.

    :math:`\frac1M \sum_g |\sum_k P_{kg} - F_{kg}|` over fifteen groups of equal width,
    of which those above one half are filled. The limits add the share of the other
    examples; half of that is the usual error.
    """
    every = list(classes.values())
    total = float(np.mean([c.total_negatives + c.total_positives for c in every]))
    if not total > 0:
        return Estimate.undefined("there are no examples")
    members = [_members(c) for c in every]
    off, sure = np.zeros(_GROUPS), 0.0
    for counts, (share, mean) in zip(every, members, strict=True):
        t = counts.negatives + counts.positives
        off += share @ counts.positives - mean @ t
        sure += float((share @ t).sum())
    value = float(np.abs(off).sum()) / total
    sign = np.sign(off) / total
    sampling = noise = 0.0
    for counts, (share, mean) in zip(every, members, strict=True):
        on_n, on_p = -sign @ mean, sign @ (share - mean)
        sampling += float(np.maximum(counts.negatives, 0.0) @ on_n**2)
        sampling += float(np.maximum(counts.positives, 0.0) @ on_p**2)
        noise += noise_sd(Slopes(on_n, on_p), counts) ** 2
    unsure = min(max(1 - sure / total, 0.0), 1.0)
    return Estimate(
        value,
        math.sqrt(sampling),
        math.sqrt(noise),
        Binning(value, min(value + unsure, 1.0), 0.0),
        caution=(
            f"of the top scores {unsure:.1%} lie below one half, where no class's own "
            "histogram tells which label is the top one"
        )
        if unsure > 0.01
        else None,
    )


def _members(counts: NoisyHistogram) -> tuple[FloatArray, FloatArray]:
    """Return each bin's share in every group above a half, and its mean score there."""
    cells = raw_predictions(counts).cells
    group = np.minimum(np.floor(cells * _GROUPS), _GROUPS - 1)
    each = (group[None] == np.arange(_GROUPS)[:, None, None]) & (cells > _SURE)[None]
    share: FloatArray = each.mean(axis=2)
    return share, np.where(each, cells[None], 0.0).mean(axis=2)
