"""Twelve simulated hospitals of unequal size and prevalence, and a real model.

Used by the demo: a scikit-learn model is trained on pooled development data and
then measured at hospitals whose patients differ from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.errors import MissingExtraError

_SIZES = (9200, 6400, 4300, 3100, 2400, 1900, 1400, 1000, 700, 450, 300, 150)
_SEVERITY = (-1.9, -1.2, -2.0, -1.6, -1.6, -2.3, -1.1, -2.1, -1.0, -1.8, -1.3, -1.4)
_OFFSETS = (0.4, -1.6, 1.5, -0.2, 2.2, -2.0, 0.9, -1.1, 1.9, -0.7, 2.6, -1.4)
_SIGNAL = np.array([1.1, -0.8, 0.7, 0.5, -0.4, 0.0, 0.0, 0.3])


@dataclass(frozen=True, slots=True)
class Hospital:
    """One hospital's scored patients."""

    name: str
    scores: FloatVector
    labels: FloatVector

    def examples(self) -> Examples:
        """Return what discreet is given at this hospital."""
        return Examples(self.scores, self.labels, name=self.name)


def simulate_hospitals(seed: int = 1) -> list[Hospital]:
    """Train a model and score the patients of twelve hospitals with it.

    A hospital's case mix shifts its patients' measurements (``_OFFSETS``), which
    shifts the scores: so a local ranking says little about the pooled one.
    """
    try:
        from sklearn.ensemble import (  # noqa: PLC0415 - an optional extra
            HistGradientBoostingClassifier,
        )
    except ImportError:
        raise MissingExtraError("the demo", "demo") from None
    rng = np.random.default_rng(seed)
    x, y = _patients(rng, 12_000, severity=-1.5, offset=0.0, spread=1.5)
    model = HistGradientBoostingClassifier(max_iter=80, random_state=seed).fit(x, y)
    hospitals = []
    facts = zip(_SIZES, _SEVERITY, _OFFSETS, strict=True)
    for k, (size, severity, offset) in enumerate(facts):
        x, y = _patients(rng, size, severity=severity, offset=offset, spread=0.9)
        scores = model.predict_proba(x)[:, 1]
        hospitals.append(Hospital(f"hospital {k + 1}", scores, y))
    return hospitals


def _patients(
    rng: np.random.Generator,
    size: int,
    *,
    severity: float,
    offset: float,
    spread: float,
) -> tuple[FloatVector, FloatVector]:
    x = rng.normal(0.0, spread, (size, _SIGNAL.size))
    x[:, 0] += offset
    risk = x @ _SIGNAL + 0.5 * np.sin(2 * x[:, 1]) + 0.4 * x[:, 2] * x[:, 3] + severity
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-risk))
    return x, y.astype(np.float64)
