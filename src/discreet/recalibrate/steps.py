"""A map in steps: one probability for all scores between two cuts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.scores import ScoreRange
from discreet.errors import InputError
from discreet.recalibrate.protocol import MAP_VERSION, checked_scores, score_fields

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Steps:
    """Probabilities between cuts: a score at a cut belongs to the upper step.

    >>> steps = Steps("binning", (0.5,), (0.1, 0.8))
    >>> steps.apply([0.2, 0.5, 1.0]).tolist()
    [0.1, 0.8, 0.8]
    """

    name: str
    cuts: tuple[float, ...]
    rates: tuple[float, ...]
    scores: ScoreRange = field(default_factory=ScoreRange)
    reason: str = "asked for"

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.cuts) + 1:
            raise InputError(
                f"{len(self.cuts)} cuts make {len(self.cuts) + 1} steps, got "
                f"{len(self.rates)}"
            )
        if not all(0 <= rate <= 1 for rate in self.rates):
            raise InputError("every step of a calibration map is a probability")
        if not (np.diff(self.cuts) > 0).all():
            raise InputError("the cuts of a calibration map increase strictly")

    @classmethod
    def between(
        cls, name: str, edges: Edges, starts: IntVector, rates: FloatVector
    ) -> Steps:
        """Put a rate on each run of bins; ``starts`` are the runs' first bins."""
        cuts = tuple(float(edges.values[k]) for k in starts[1:])
        within = np.clip(rates, 0.0, 1.0)
        return cls(name, cuts, tuple(within.tolist()), edges.scores)

    @property
    def monotone(self) -> bool:
        """Whether the steps rise."""
        return bool((np.diff(self.rates) >= 0).all())

    def apply(self, scores: ArrayLike) -> FloatVector:
        """Return the step of each score."""
        values = checked_scores(scores, self.scores)
        found: FloatVector = np.asarray(self.rates)[
            np.searchsorted(np.asarray(self.cuts), values, side="right")
        ]
        return found

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain values, with the version."""
        return {
            "version": MAP_VERSION,
            "form": "steps",
            "name": self.name,
            "reason": self.reason,
            "scores": score_fields(self.scores),
            "cuts": list(self.cuts),
            "rates": list(self.rates),
        }

    def to_json(self) -> str:
        """Return the saved form."""
        return json.dumps(self.to_dict(), allow_nan=False)
