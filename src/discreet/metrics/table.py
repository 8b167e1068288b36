"""The table of metrics: one row each, and everything that reports iterates over it.

A row says what a metric is (value, slopes, limits), how its interval is shaped, what
it is called and where it comes from. Text, JSON, pages, plots, the planner and the
comparison of models know no metric by name: adding one is adding a row,

    METRICS.add("gini", MetricRow(name="gini", title="Gini", ...))

or, in this house, a row and its line below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from discreet.estimate.estimate import UNIT, Interval
from discreet.registry import Registry

if TYPE_CHECKING:
    from discreet.estimate.estimate import Binning
    from discreet.estimate.fit import Fit
    from discreet.estimate.intervals import Shape
    from discreet.estimate.slopes import Cells, Slopes

Metric: TypeAlias = str
"""The name of a row."""

Better: TypeAlias = Literal["higher", "lower", "one", "zero"]
"""Which way a metric is good; ``one`` and ``zero`` are values to be near to."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of a reading, over all thresholds."""

    name: str
    """What plans, JSON and ``result.metric(name)`` call it."""
    title: str
    """What people call it."""
    value: Callable[[Fit], float]
    """The value; NaN where the reading does not define it."""
    limits: Callable[[Fit, float], Binning]
    """What the bins hide: limits of the value, whatever the scores inside them, and
    the error that is usual. Values outside the limits are moved to them."""
    slopes: Callable[[Cells], Slopes]
    """The derivative in every count: sampling error and noise follow from it."""
    shape: Callable[[Fit], Shape]
    """How the error changes with the value: decides the interval's two sides."""
    better: Better
    needs_probabilities: bool
    """Whether it reads scores as probabilities, not as a ranking alone."""
    source: str
    """Who defined it, or whose convention is followed."""
    unseen: Callable[[float, float], float] | None = None
    """By how much one more positive above all others would move it, given the value and
    so many positives: what a sample cannot show of places where it holds nobody."""
    one_class: bool = False
    """Whether it is defined when one class is missing."""
    alone: tuple[float, float] | None = None
    """What convention makes of it without positives, and without negatives."""
    support: Interval = UNIT
    """The values that it can have."""
    formula: str = ""
    hides: str = ""
    """What this number does not show, in one line."""
    smooth: bool = False
    """Whether its slopes are those of its value wherever counts lie: noise needs no
    central differences then."""
    influence: Callable[[float, float, float], float] | None = None
    """By how much one site of at most so many examples can move it, given so many
    positives and negatives in all; None where no bound is known."""


METRICS: Final[Registry[MetricRow]] = Registry(
    "metric",
    {
        "auc": "discreet.metrics.ranking:AUC",
        "average_precision": "discreet.metrics.ranking:AVERAGE_PRECISION",
        "aupr": "discreet.metrics.ranking:AUPR",
        "brier": "discreet.metrics.brier:BRIER",
        "gini": "discreet.metrics.partial_areas:GINI",
        "ks": "discreet.metrics.partial_areas:KS",
        "partial_auc": "discreet.metrics.partial_areas:PARTIAL_AUC",
        "partial_auc_corrected": "discreet.metrics.partial_areas:PARTIAL_AUC_CORRECTED",
        "partial_auc_sensitivity": (
            "discreet.metrics.partial_areas:PARTIAL_AUC_SENSITIVITY"
        ),
        "partial_auc_sensitivity_corrected": (
            "discreet.metrics.partial_areas:PARTIAL_AUC_SENSITIVITY_CORRECTED"
        ),
        "sensitivity_at_95_specificity": (
            "discreet.metrics.partial_areas:SENSITIVITY_AT_SPECIFICITY"
        ),
        "specificity_at_95_sensitivity": (
            "discreet.metrics.partial_areas:SPECIFICITY_AT_SENSITIVITY"
        ),
        "pr_gain_area": "discreet.metrics.partial_areas:PR_GAIN_AREA",
        "observed_expected": "discreet.metrics.probabilities:OBSERVED_EXPECTED",
        "calibration_in_the_large": "discreet.metrics.cox:CALIBRATION_IN_THE_LARGE",
        "calibration_intercept": "discreet.metrics.cox:CALIBRATION_INTERCEPT",
        "calibration_slope": "discreet.metrics.cox:CALIBRATION_SLOPE",
        "ece": "discreet.metrics.groupwise:ECE",
        "ici": "discreet.metrics.smooth_calibration:ICI",
        "e50": "discreet.metrics.smooth_calibration:E50",
        "e90": "discreet.metrics.smooth_calibration:E90",
        "emax": "discreet.metrics.smooth_calibration:EMAX",
        "eci": "discreet.metrics.smooth_calibration:ECI",
        "log_loss": "discreet.metrics.probabilities:LOG_LOSS",
        "scaled_brier": "discreet.metrics.brier:SCALED_BRIER",
        "mean_absolute_error": "discreet.metrics.probabilities:MEAN_ABSOLUTE_ERROR",
        "miscalibration": "discreet.metrics.groupwise:MISCALIBRATION",
        "discrimination": "discreet.metrics.groupwise:DISCRIMINATION",
        "uncertainty": "discreet.metrics.groupwise:UNCERTAINTY",
        "mcfadden_r2": "discreet.metrics.probabilities:MCFADDEN",
        "cox_snell_r2": "discreet.metrics.probabilities:COX_SNELL",
        "nagelkerke_r2": "discreet.metrics.probabilities:NAGELKERKE",
        "discrimination_slope": "discreet.metrics.probabilities:DISCRIMINATION_SLOPE",
    },
)
"""Every metric over all thresholds, in the order in which they are shown."""

DEFAULT_METRICS: Final[tuple[Metric, ...]] = (
    "auc",
    "average_precision",
    "aupr",
    "brier",
)
"""What a plan asks for when nobody says otherwise: part of its digest."""
