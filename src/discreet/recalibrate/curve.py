"""A map by a formula: log-odds linear in log s and log (1 - s), and no map at all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.metrics.logistic import CLOSEST, sigmoid
from discreet.recalibrate.protocol import MAP_VERSION, checked_scores, score_fields

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class LogCurve:
    r""":math:`\operatorname{logit} q = c + a \log s - b \log(1 - s)`, a and b not negative.

    With a = b it is Platt's map of the log-odds; in general beta calibration
    (Kull, Silva Filho and Flach 2017). Logits are taken through the sigmoid.

    >>> LogCurve("platt", 0.0, 1.0, 1.0).apply([0.25, 0.5]).round(6).tolist()
    [0.25, 0.5]
    """

    name: str
    intercept: float
    on_log: float
    on_rest: float
    scores: ScoreRange = field(default_factory=ScoreRange)
    reason: str = "asked for"

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.intercept, self.on_log, self.on_rest))):
            raise InputError("the coefficients of a calibration map are finite numbers")
        if self.on_log < 0 or self.on_rest < 0:
            raise InputError("a calibration curve does not fall: a, b are 0 or more")

    @property
    def monotone(self) -> bool:
        """Both logarithms rise with the score."""
        return True

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the probability of each score."""
        s = as_probabilities(checked_scores(scores, self.scores), self.scores)
        s = np.clip(s, CLOSEST, 1 - CLOSEST)
        odds = self.intercept + self.on_log * np.log(s) - self.on_rest * np.log1p(-s)
        return sigmoid(odds)

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain values, with the version."""
        return {
            "version": MAP_VERSION,
            "form": "curve",
            "name": self.name,
            "reason": self.reason,
            "scores": score_fields(self.scores),
            "intercept": self.intercept,
            "on_log": self.on_log,
            "on_rest": self.on_rest,
        }

    def to_json(self) -> str:
        """Return the saved form."""
        return json.dumps(self.to_dict(), allow_nan=False)


def as_probabilities(values: FloatVector, scores: ScoreRange) -> FloatVector:
    """Return probabilities as they are and logits through the sigmoid."""
    match scores.kind:
        case "probability":
            return values
        case "logit":
            return sigmoid(values)
        case "other":
            raise InputError("scores of kind 'other' are not probabilities")
