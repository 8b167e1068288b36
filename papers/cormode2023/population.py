r"""Stand-ins for the paper's three Kaggle sets, which cannot be had without an account.

The paper prints their rows, AUCs (table 2) and, in section 7.3, how far the scores
are from calibrated: about .1 (Sep), less than local noise (Oct) and .08 (Nov). Each is
drawn from the calibrated binormal model with equal classes, and its logits are
stretched, :math:`s = \sigma(k \operatorname{logit} p)`, to that error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, logit

from discreet.arrays import FloatVector
from papers.data import Data, Facts, Scored, simulate_binormal


@dataclass(frozen=True)
class StandIn:
    """What the paper prints of a set, and the stretch that gives its ECE."""

    rows: int
    auc: float
    ece: float
    stretch: float


KAGGLE: Final = {
    "sep": StandIn(958_000, 0.79, 0.10, 2.0),
    "oct": StandIn(1_000_000, 0.85, 0.01, 1.08),
    "nov": StandIn(600_000, 0.73, 0.08, 1.7),
}
REAL: Final = "cover-xgb"
"""One real set of this size beside them."""
SETS: Final = (*KAGGLE, REAL)


def draw(data: Data, name: str, rows: int, rng: np.random.Generator) -> Scored:
    """Draw that many examples, of a stand-in anew or of the real set."""
    if name == REAL:
        pool = data.scored(REAL)
        some = rng.choice(
            pool.labels.size, min(data.rows(rows), pool.labels.size), replace=False
        )
        return Scored(name, pool.scores[some], pool.labels[some], pool.simulated)
    facts = KAGGLE[name]
    wanted = min(data.rows(rows), facts.rows)
    scores, labels = simulate_binormal(Facts(wanted, 0.5, facts.auc), rng)
    stretched = np.asarray(expit(facts.stretch * logit(scores)), dtype=np.float64)
    return Scored(name, stretched, labels, simulated=True)


def sources(data: Data) -> tuple[str, ...]:
    """Say what stands in for what."""
    words = [
        f"{name}: simulated stand-in for Kaggle {name.title()} 2021, AUC {s.auc}, equal "
        f"classes, ECE about {s.ece:g}"
        for name, s in KAGGLE.items()
    ]
    return (*words, data.scored(REAL).source)


def calibration_error(said: FloatVector, labels: FloatVector, bins: int) -> float:
    """Return the ECE of the positive class over bins of equal width (Naeini 2015).

    >>> calibration_error(np.array([0.2, 0.2]), np.array([0.0, 1.0]), 10)
    0.3
    """
    place = np.minimum((said * bins).astype(np.int64), bins - 1)
    off = np.bincount(place, said - labels, bins)
    return round(float(np.abs(off).sum()) / labels.size, 12)
