r"""The paper's evaluation sets: stand-ins of their size, prevalence and AUCs.

The Criteo scores are not to be had. Standing in for them: binormal scores
:math:`z = e + d y`, e normal, with d fitted so that the AUC *of the draw* is the one
that the paper prints. Ranks are then 0 .. M - 1 without ties, and
:math:`\sigma(d z - d^2/2 + \operatorname{logit}(P/M))` is the calibrated posterior.
The noise of every mechanism depends on sizes, ranks and the AUC alone, so the tables
of standard deviations lose nothing by it; tables that depend on the scores
themselves (8 and 9) do, and say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import norm

from discreet.arrays import FloatVector, IntVector
from discreet.label.ranks import RankTotals, TotalsCovariance, centre_of
from papers.data import Data

Size: TypeAlias = Literal["small", "large"]
EPOCHS: Final = (1, 2, 3)
LAST: Final = 3
_STEPS: Final = 6
_CLOSE: Final = 2e-7
"""A sixth digit of the AUC, the last that the paper prints, is met."""


@dataclass(frozen=True)
class Facts:
    """Table 4, and the AUCs of scikit-learn in Tables 5 and 6."""

    examples: int
    positives: int
    aucs: tuple[float, float, float]


FACTS: Final[dict[Size, Facts]] = {
    "small": Facts(458_407, 117_317, (0.749383, 0.766477, 0.770219)),
    "large": Facts(4_584_062, 1_173_981, (0.750509, 0.768045, 0.772007)),
}


@dataclass(frozen=True, eq=False)
class Ranked:
    """All examples by rising score: labels and calibrated posteriors."""

    labels: IntVector
    posteriors: FloatVector

    @property
    def examples(self) -> int:
        """M."""
        return int(self.labels.size)

    @cached_property
    def sums(self) -> RankTotals:
        """The exact rank sum and number of positives."""
        places = np.flatnonzero(self.labels)
        return RankTotals(float(places.sum()), float(places.size))

    @cached_property
    def auc(self) -> float:
        """The exact AUC."""
        return self.sums.auc(self.examples)

    @property
    def positives(self) -> float:
        """P."""
        return self.sums.positives

    @property
    def pairs(self) -> float:
        """P times N."""
        return self.positives * (self.examples - self.positives)

    @property
    def centre(self) -> float:
        """The rank c whose flip leaves the AUC where it is."""
        return centre_of(self.positives, self.examples - self.positives, self.auc)

    @cached_property
    def rank_moments(self) -> TotalsCovariance:
        """The sums of r^2, r and 1, from which randomized response has its errors."""
        m = float(self.examples)
        return TotalsCovariance(m * (m - 1) * (2 * m - 1) / 6, m * (m - 1) / 2, m)

    def aucs_of(self, rank_sum: FloatVector, positives: FloatVector) -> FloatVector:
        """Return the AUCs that noisy sums give, wild ones included."""
        n = self.examples - positives
        found: FloatVector = (rank_sum - positives * (positives - 1) / 2) / (
            positives * n
        )
        return found

    def noisy_auc(self, rank_sum: float, positives: float) -> float:
        """Return the AUC when the sums are off by so much."""
        s, p = self.sums.rank_sum + rank_sum, self.positives + positives
        return float(self.aucs_of(np.array([s]), np.array([p]))[0])


def evaluation_set(data: Data, size: Size = "small", epoch: int = LAST) -> Ranked:
    """Return the stand-in of an evaluation set, smaller if ``--rows`` says so."""
    facts = FACTS[size]
    rows = data.rows(facts.examples)
    positives = round(facts.positives * rows / facts.examples)
    return _fitted(rows, positives, facts.aucs[epoch - 1], epoch)


@lru_cache(maxsize=6)
def _fitted(examples: int, positives: int, auc: float, seed: int) -> Ranked:
    rng = np.random.default_rng([examples, seed])
    labels = np.zeros(examples, dtype=np.int64)
    labels[:positives] = 1
    around = rng.standard_normal(examples)
    apart = math.sqrt(2) * float(ndtri(auc))
    odds = math.log(positives / (examples - positives))
    found = _sorted(labels, around, apart, odds)
    for _ in range(_STEPS):
        if abs(found.auc - auc) < _CLOSE:
            break
        # Newton: the binormal AUC is Phi(d / sqrt 2).
        rising = float(norm.pdf(apart / math.sqrt(2))) / math.sqrt(2)
        apart += (auc - found.auc) / rising
        found = _sorted(labels, around, apart, odds)
    return found


def _sorted(
    labels: IntVector, around: FloatVector, apart: float, odds: float
) -> Ranked:
    scores = around + apart * labels
    order = np.argsort(scores)
    logits = odds + apart * scores[order] - apart**2 / 2
    return Ranked(labels[order], np.asarray(expit(logits), dtype=np.float64))


def shrunk(data: Data) -> str:
    """Return the reason why printed numbers cannot be met, if there is one."""
    whole = all(data.rows(f.examples) == f.examples for f in FACTS.values())
    return "" if whole else "fewer rows were asked for than the paper has"


def source(data: Data, size: Size = "small") -> str:
    """Say what stands in for the Criteo set."""
    ranked = evaluation_set(data, size)
    return (
        f"Criteo ({size}) is not to be had: a stand-in of {ranked.examples:,} binormal "
        f"scores, {int(ranked.positives):,} of positives, fitted to the AUCs that the "
        "paper prints"
    )
