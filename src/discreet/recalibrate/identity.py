"""The map that changes nothing, for releases that do not allow better."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from discreet.arrays import FloatVector
from discreet.data.scores import ScoreRange
from discreet.recalibrate.curve import as_probabilities
from discreet.recalibrate.protocol import MAP_VERSION, checked_scores, score_fields

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Identity:
    """Scores as they are, and logits as the probabilities that they say."""

    reason: str = "asked for"
    scores: ScoreRange = field(default_factory=ScoreRange)

    @property
    def name(self) -> str:
        """It has one name."""
        return "identity"

    @property
    def monotone(self) -> bool:
        """It keeps every order."""
        return True

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the scores as probabilities."""
        return as_probabilities(checked_scores(scores, self.scores).copy(), self.scores)

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain values, with the version."""
        return {
            "version": MAP_VERSION,
            "form": "identity",
            "name": self.name,
            "reason": self.reason,
            "scores": score_fields(self.scores),
        }

    def to_json(self) -> str:
        """Return the saved form."""
        return json.dumps(self.to_dict(), allow_nan=False)
