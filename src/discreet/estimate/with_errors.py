r"""Attach sampling error, passed-on noise and the interval's shape to estimates.

An estimator finds values and binning limits. The errors of all estimators are
alike in kind and are worked out here, from the release, the counts that the
estimator read and the curve that it drew:

- *sampling*: the delta method on the estimator's counts
  (:mod:`discreet.estimate.sampling`), cut finer along the curve;
- *noise*: what the estimator says; for the smooth model, which passes on only part
  of a cell's noise, the metric's slopes with, for a count c and a noise variance V,

  .. math::
      V\,\left(w^2 + \kappa(1 - w^2)\right), \qquad w = \frac{c}{c + V},

  because the model follows a count that rises above its noise and averages over
  neighbours where it does not. Measured on binormal scores, n from 200 to 50,000,
  eps 1 and .3: kappa = .55 for the AUC and the Brier score, .35 for areas under
  the PR curve, whose slopes are largest in the emptiest bins
  (``docs/error-bars.md``);
- *rates at a threshold* use the released counts themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from discreet.arrays import FloatArray
from discreet.estimate.curves import Curves
from discreet.estimate.estimate import Estimate, Normal, ScalarLaw, Zero
from discreet.estimate.estimator import Estimator
from discreet.estimate.intervals import (
    SYMMETRIC,
    AreaShape,
    ProportionShape,
    RatioShape,
    Shape,
)
from discreet.estimate.noise_error import covariance_of
from discreet.estimate.refined import refined
from discreet.estimate.sampling import (
    PrecisionRule,
    Slopes,
    auc_slopes,
    brier_slopes,
    precision_area_slopes,
    sampling_sd,
)
from discreet.estimate.smooth import Smooth
from discreet.estimate.thresholds import (
    AtThreshold,
    at_threshold,
    confusion_weights,
    shares_above,
)
from discreet.metrics.names import Metric
from discreet.statistic import BinCounts
from discreet.statistic.observed import NoisyHistogram

FEWEST_EXAMPLES: Final = 50
"""Below so many examples of a class, or noise scales of them, an area is unsure."""
FEWEST_TRIALS: Final = 20
"""Below so many counted examples a rate is unsure."""
_PASSED: Final = {
    "auc": 0.55,
    "brier": 0.55,
    "average_precision": 0.35,
    "aupr": 0.35,
}
_POWER: Final = 1.5
"""Areas under the PR curve: between a proportion's spread (1) and a logit's (2)."""


def metrics_with_errors(
    estimator: Estimator, observed: NoisyHistogram, wanted: Iterable[Metric]
) -> dict[Metric, Estimate]:
    """Let an estimator read a release, and attach the errors to what it finds."""
    return with_errors(
        estimator.metrics(observed, wanted),
        observed=observed,
        counts=estimator.counts(observed),
        curves=estimator.curves(observed),
        smoothed=isinstance(estimator, Smooth)
        and estimator.read(observed).way == "model",
    )


def at_with_errors(
    estimator: Estimator, observed: NoisyHistogram, threshold: float
) -> AtThreshold:
    """Return the thresholded metrics of an estimator's counts, with their errors."""
    counts = estimator.counts(observed)
    found = at_threshold(counts, threshold)
    return threshold_with_errors(found, observed=observed, counts=counts)


def with_errors(
    metrics: Mapping[Metric, Estimate],
    *,
    observed: NoisyHistogram,
    counts: NoisyHistogram,
    curves: Curves,
    smoothed: bool,
) -> dict[Metric, Estimate]:
    """Return the estimates with sampling, noise, shape and caution filled in.

    ``counts`` are those that the estimator read the release as and drew
    ``curves`` through; ``smoothed`` says that a smooth model found them, which
    passes on part of the noise; other estimators know their own. Undefined
    estimates stay as they are.
    """
    found = dict(metrics)
    for metric, estimate in metrics.items():
        if math.isnan(estimate.value):
            continue
        noise = estimate.noise
        if smoothed:
            slopes = _slopes(metric, counts, curves)
            noise = _passed_noise(slopes, observed, counts, _PASSED[metric])
        found[metric] = replace(
            estimate,
            sampling=Normal(_sampling(metric, counts, curves)),
            noise=noise,
            shape=_shape(metric, counts),
            caution=_few_examples(counts),
        )
    return found


def threshold_with_errors(
    found: AtThreshold, *, observed: NoisyHistogram, counts: NoisyHistogram
) -> AtThreshold:
    """Return thresholded metrics with their sampling error and intervals.

    The counts of a confusion matrix are those of these data: nothing is sampled.
    """
    weights = confusion_weights(shares_above(observed.edges, found.threshold)[0])
    released = weights @ np.concatenate([observed.negatives, observed.positives])
    read = weights @ np.concatenate([counts.negatives, counts.positives])
    noise = covariance_of(observed, weights)

    def rate(name: str, estimate: Estimate) -> Estimate:
        if math.isnan(estimate.value):
            return estimate
        successes, failures = _PARTS[name]
        a, b = successes @ released, failures @ released
        trials = max(float((successes + failures) @ read), 0.0)
        twice = name == "f1"
        shape = RatioShape(
            float(a),
            float(b),
            trials,
            max(float(successes @ noise @ successes), 0.0),
            max(float(failures @ noise @ failures), 0.0),
            float(successes @ noise @ failures),
            twice=twice,
        )
        both = successes + failures
        spread = math.sqrt(max(float(both @ noise @ both), 0.0))
        return replace(
            estimate,
            sampling=Normal(_rate_sd(estimate.value, trials, twice=twice)),
            shape=shape,
            caution=_few_trials(trials, spread),
        )

    def counted(estimate: Estimate) -> Estimate:
        return replace(estimate, sampling=Zero())

    return replace(
        found,
        precision=rate("precision", found.precision),
        recall=rate("recall", found.recall),
        specificity=rate("specificity", found.specificity),
        accuracy=rate("accuracy", found.accuracy),
        f1=rate("f1", found.f1),
        true_positives=counted(found.true_positives),
        false_positives=counted(found.false_positives),
        false_negatives=counted(found.false_negatives),
        true_negatives=counted(found.true_negatives),
    )


_PARTS: Final = {
    "precision": (np.array([1, 0, 0, 0]), np.array([0, 0, 1, 0])),
    "recall": (np.array([1, 0, 0, 0]), np.array([0, 1, 0, 0])),
    "specificity": (np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0])),
    "accuracy": (np.array([1, 0, 0, 1]), np.array([0, 1, 1, 0])),
    "f1": (np.array([1, 0, 0, 0]), np.array([0, 1, 1, 0])),
}
"""Successes and failures of each rate among TP, FN, FP, TN; F1 by Jaccard's index."""


def _slopes(metric: Metric, counts: NoisyHistogram, curves: Curves) -> Slopes:
    """Return the slopes in the release's own bins, damped where it is all noise."""
    if metric == "brier":
        return brier_slopes(counts)
    if metric == "auc":
        return auc_slopes(counts.negatives, counts.positives)
    each = counts.law.covariance(np.concatenate([counts.negatives, counts.positives]))
    return precision_area_slopes(
        counts.negatives,
        counts.positives,
        _rule(metric, curves),
        noise=each.negatives + each.positives,
    )


def _sampling(metric: Metric, counts: NoisyHistogram, curves: Curves) -> float:
    cells = BinCounts(counts.negatives, counts.positives)
    if metric == "brier":
        return sampling_sd(brier_slopes(counts), *cells)
    cells = refined(counts, curves)
    if metric == "auc":
        return sampling_sd(auc_slopes(*cells), *cells)
    return sampling_sd(precision_area_slopes(*cells, _rule(metric, curves)), *cells)


def _rule(metric: Metric, curves: Curves) -> PrecisionRule:
    if curves.interpolation == "pchip" or curves.path is not None:
        return "smooth"
    return "step" if metric == "average_precision" else "trapezoid"


def _passed_noise(
    slopes: Slopes, observed: NoisyHistogram, counts: NoisyHistogram, passed: float
) -> ScalarLaw:
    both = np.concatenate(slopes)
    at = np.concatenate([observed.negatives, observed.positives])
    noise = observed.law.covariance(at)
    each = np.concatenate([noise.negatives, noise.positives])
    cells = np.concatenate([counts.negatives, counts.positives])
    share = np.divide(
        cells, cells + each, out=np.zeros_like(cells), where=cells + each > 0
    )
    left: FloatArray = both * np.sqrt(share**2 + passed * (1 - share**2))
    variance = covariance_of(observed, left[None, :])[0, 0]
    return Normal(math.sqrt(max(float(variance), 0.0)))


def _shape(metric: Metric, counts: NoisyHistogram) -> Shape:
    match metric:
        case "auc":
            return AreaShape(counts.total_positives, counts.total_negatives)
        case "average_precision" | "aupr":
            return ProportionShape(_POWER)
        case "brier":
            return SYMMETRIC


def _few_examples(counts: NoisyHistogram) -> str | None:
    """Say when a class is too small for its errors to be near normal."""
    fewer = min(counts.total_positives, counts.total_negatives)
    name = "positives" if fewer == counts.total_positives else "negatives"
    if fewer < FEWEST_EXAMPLES:
        return (
            f"wide because there are few {name}, about {fewer:,.0f}: intervals are "
            f"sure from {FEWEST_EXAMPLES} on"
        )
    if fewer < FEWEST_EXAMPLES * counts.law.scale:
        return (
            f"wide because of the noise: about {fewer:,.0f} {name} beside a noise of "
            f"scale {counts.law.scale:.3g} a bin; use more data or a larger epsilon"
        )
    return None


def _few_trials(trials: float, noise: float) -> str | None:
    if trials < FEWEST_TRIALS:
        return (
            f"wide because the rate rests on few examples, about {trials:,.0f}: "
            f"intervals are sure from {FEWEST_TRIALS} on"
        )
    if trials < 2 * noise:
        return (
            f"wide because of the noise: about {trials:,.0f} examples with a noise "
            f"of {noise:,.0f}"
        )
    return None


def _rate_sd(value: float, trials: float, *, twice: bool) -> float:
    """Return a proportion's standard deviation; F1 is 2J/(1 + J) of one."""
    share = value / (2 - value) if twice else value
    spread = math.sqrt(max(share * (1 - share), 0.0) / max(trials, 1.0))
    return spread * 2 / (1 + share) ** 2 if twice else spread
