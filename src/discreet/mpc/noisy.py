r"""Opening a private AUC: noise inside, so that no exact value is ever opened.

The two integers are those of the curator's ``pair-count`` mechanism
(``discreet.curator.weighted_count``), with M the public number of rows:

.. math:: Q = 2U - nm, \qquad G = nM,

joint L1 sensitivity :math:`2M - 1` for one row replaced. Both are polynomials of
secret sums, so the parties need no lookup in a table of weights; the price is up to
half as much noise again as the best weights would have.

Each compute party adds a Polya share of discrete Laplace noise of scale
:math:`(2M-1)/\varepsilon`. Shares are sized for **two** honest parties of three:
a party that tells its share to the analyst takes away nothing that the claim
needs. As all three do add theirs, the noise has 1.5 times that variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.special import k1

from discreet.arrays import FloatVector, IntVector
from discreet.curator.private_estimate import (
    AucSampling,
    PrivateEstimate,
    ReleasedScalar,
    private_estimate,
    too_little,
    weighted_count_errors,
)
from discreet.curator.weighted_count import WeightedCount, pair_count_weights
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.mpc.model import SharedRows
from discreet.mpc.program import PARTIES, Program
from discreet.noise.mechanism import AdditiveNoise
from discreet.noise.polya import PolyaNoise, PolyaShares
from discreet.privacy.claim import Claim
from discreet.privacy.loss import Loss, PureDP
from discreet.privacy.unit import ROW

HONEST: Final = 2
"""Compute parties whose noise nobody else knows: one of three may be curious."""
_NODES: Final = 128


def mechanism(rows: int, epsilon: Fraction) -> PolyaShares:
    """Return the noise that each compute party adds a share of.

    >>> mechanism(500, Fraction(1)).sensitivity.l1
    999
    """
    if rows < 2:
        raise InputError("a noisy AUC needs at least 2 rows")
    shared = SharedRows(rows, ("auc",))
    return PolyaShares(PureDP(epsilon), shared.sensitivity(ROW), HONEST)


def noise_share(rows: int, epsilon: Fraction, *, entropy: Entropy) -> IntVector:
    """Draw one party's share, which it then shares like an owner's data."""
    nothing = np.zeros(2, dtype=np.int64)
    return mechanism(rows, epsilon).protect(nothing, entropy=entropy)


def noise_law(rows: int, epsilon: Fraction) -> PolyaNoise:
    """Return the law of the noise in each opened integer."""
    return mechanism(rows, epsilon).noise(PARTIES)


@dataclass(frozen=True, slots=True)
class NoiseInside(AdditiveNoise):
    """The parties' noise as a plan sees it: owners add none to what they share."""

    rows: int
    epsilon: Fraction

    def sent(self, cells: int) -> int:
        """Two integers are opened, from which one area is read."""
        return 2 * cells

    def protect(self, exact: IntVector, *, entropy: Entropy) -> IntVector:
        """Return an owner's rows as they are: they leave as shares only."""
        del entropy
        return exact

    def loss(self) -> Loss:
        """What one opening costs."""
        return PureDP(self.epsilon)

    def noise(self, contributors: int) -> PolyaNoise:
        """Return the noise of all three parties, however many owners there are."""
        del contributors
        return noise_law(self.rows, self.epsilon)


@dataclass(frozen=True, slots=True)
class NoisyPair:
    """What a noisy program opens: Q and G with noise, and its public facts."""

    balance: int
    code: int
    rows: int
    epsilon: Fraction

    @classmethod
    def of(cls, program: Program, opened: IntVector) -> NoisyPair:
        """Read an opening, which must belong to a noisy program."""
        if program.epsilon is None:
            raise PlanError("this program opens exact areas, not a noisy pair")
        if opened.shape != (2,):
            raise InputError("a noisy opening has two integers")
        return cls(int(opened[0]), int(opened[1]), program.rows, program.epsilon)

    @property
    def positives(self) -> float:
        """The number of positives that the opened code stands for."""
        found = pair_count_weights(self.rows).counts_of(np.array([float(self.code)]))
        return float(found[0])

    def estimate(self, claim: Claim) -> PrivateEstimate:
        """Return the AUC with its errors, or a refusal if noise hides it."""
        value, errors = self.read()
        negatives = self.rows - self.positives
        return private_estimate(
            ReleasedScalar(value, errors, AucSampling(self.positives, negatives)),
            claim=claim,
            mechanism="pair-count, shares of discrete Laplace noise on two integers",
            positives=self.positives,
            refusal=too_little(float(self.epsilon), self.positives, self.rows),
        )

    def read(self) -> tuple[float, FloatVector]:
        """Return the value before it is cut to 0 .. 1, and equally likely errors."""
        scale = noise_law(self.rows, self.epsilon).scale
        return weighted_count_errors(
            WeightedCount(self.balance, self.code, Fraction(scale)),
            pair_count_weights(self.rows),
            scale * _likely_noise(),
        )


@cache
def _likely_noise() -> FloatVector:
    r"""Return equally likely values of the noise over its scale.

    Three halves of discrete Laplace noise of a large scale are the difference of
    two Gamma(3/2) variables, whose density is :math:`|x| K_1(|x|)/\pi`.
    """
    x = np.linspace(1e-6, 40.0, 40_001)
    upper = 0.5 + cumulative_trapezoid(x * k1(x) / np.pi, x, initial=0.0)
    half = np.interp(0.5 + (np.arange(_NODES // 2) + 0.5) / _NODES, upper, x)
    return np.append(-half[::-1], half)
