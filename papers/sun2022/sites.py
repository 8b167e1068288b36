r"""All sites at once: the Laplace mechanisms as four weights a site.

Site k draws two independent Laplace variables of scale 1 and reports sums that are
off by :math:`(s_1 n_1 + s_2 n_2)/\varepsilon` in S and
:math:`(p_1 n_1 + p_2 n_2)/\varepsilon` in P. The weights follow from the site's public
ranks. This is :mod:`discreet.label.mechanisms` for real-valued noise, as the paper has
it, and for hundreds of thousands of sites; the tests compare the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.label.mechanisms import build, option_for
from discreet.label.ranks import SiteRanks, TotalsCovariance, add_covariances, noise_sd
from discreet.label.released_sums import SummedEndpoint, response_variance
from discreet.privacy.loss import PureDP
from papers.sun2022.criteo import Ranked

Split: TypeAlias = Literal["IID", "non-IID"]
SPLITS: Final[tuple[Split, ...]] = ("IID", "non-IID")


@dataclass(frozen=True, eq=False)
class Sites:
    """The public ranks of every site, as far as the mechanisms use them."""

    examples: int
    low: FloatVector
    high: FloatVector
    mean: FloatVector

    @property
    def spread(self) -> FloatVector:
        """The largest distance of a rank from the site's mean."""
        found: FloatVector = np.maximum(self.high - self.mean, self.mean - self.low)
        return found


def pieces(examples: int, sites: int, how: Split) -> list[IntVector]:
    """Give the ranks to sites: at random, or neighbours together."""
    places = np.arange(examples)
    if how == "IID":
        places = np.random.default_rng([examples, sites]).permutation(examples)
    return np.array_split(places, sites)


@lru_cache(maxsize=32)
def sites_of(examples: int, sites: int, how: Split) -> Sites:
    """Return the public ranks of ``sites`` sites."""
    count = min(sites, examples)
    split = pieces(examples, count, how)
    places = np.concatenate(split)
    sizes = np.array([piece.size for piece in split])
    starts = np.append(0, np.cumsum(sizes)[:-1])
    return Sites(
        examples,
        np.minimum.reduceat(places, starts).astype(np.float64),
        np.maximum.reduceat(places, starts).astype(np.float64),
        np.add.reduceat(places, starts) / sizes,
    )


@dataclass(frozen=True, eq=False)
class Weights:
    """How much of each site's two unit draws is in S and in P, at epsilon 1."""

    s: tuple[FloatVector, FloatVector]
    p: tuple[FloatVector, FloatVector]

    def sd(self, ranked: Ranked, epsilon: float) -> float:
        """Return the standard deviation of the AUC by the delta method."""
        off = [s - ranked.centre * p for s, p in zip(self.s, self.p, strict=True)]
        squared = sum(float(one @ one) for one in off)
        return math.sqrt(2 * squared) / (epsilon * ranked.pairs)

    def simulate_auc(
        self, ranked: Ranked, epsilon: float, rng: np.random.Generator
    ) -> float:
        """Draw every site's noise once and return the AUC."""
        off_s = off_p = 0.0
        for s, p in zip(self.s, self.p, strict=True):
            noise = rng.laplace(size=s.size) / epsilon
            off_s += float(s @ noise)
            off_p += float(p @ noise)
        return ranked.noisy_auc(off_s, off_p)


def global_weights(sites: Sites, alpha: float = 0.5) -> Weights:
    """Noise for the rank M - 1 at every site, a share alpha for S (section N)."""
    return _apart(np.full_like(sites.high, sites.examples - 1.0), alpha)


def local_weights(sites: Sites, alpha: float = 0.5) -> Weights:
    """Noise for the site's own greatest rank (section 5.2)."""
    return _apart(sites.high, alpha)


def _apart(greatest: FloatVector, alpha: float) -> Weights:
    """Return two sums with a noise each; with alpha 1 the exact P is used."""
    nothing = np.zeros_like(greatest)
    count = np.full_like(greatest, 1 / (1 - alpha)) if alpha < 1 else nothing
    return Weights((greatest / alpha, nothing), (nothing, count))


def orthogonal_weights(sites: Sites, beta: float | FloatVector) -> Weights:
    """Noise on P and on what is left around the mean rank (section 5.3)."""
    alone = sites.spread == 0  # one noisy count gives both sums
    share = np.where(alone, 1.0, beta)
    rest = np.divide(
        sites.spread, 1 - share, out=np.zeros_like(sites.mean), where=~alone
    )
    return Weights((sites.mean / share, rest), (1 / share, np.zeros_like(rest)))


def adaptive_beta(sites: Sites) -> FloatVector:
    """Return each site's share of P at which S has the least variance."""
    u, v = sites.mean ** (2 / 3), sites.spread ** (2 / 3)
    # A site with nothing but the rank 0 has u = v = 0 and takes all for P.
    found: FloatVector = np.divide(u, u + v, out=np.ones_like(u), where=v > 0)
    return np.maximum(found, 1e-4)


def adaptive_weights(sites: Sites) -> Weights:
    """Noise by the paper's adaptive allocation."""
    return orthogonal_weights(sites, adaptive_beta(sites))


def endpoint_weights(sites: Sites) -> Weights:
    """Ours: sums towards both ends, each with noise of the whole epsilon."""
    two = (sites.high > sites.low).astype(np.float64)
    one = np.ones_like(two)
    return Weights((sites.high, sites.low * two), (one, two))


def response_sd(ranked: Ranked, epsilon: float) -> float:
    r"""Return :math:`\sqrt{e^\varepsilon/(e^\varepsilon-1)^2 \sum (r-c)^2}/(PN)`."""
    around = ranked.rank_moments.variance_at(ranked.centre)
    return math.sqrt(response_variance(epsilon) * around) / ranked.pairs


def simulate_response(
    ranked: Ranked, epsilon: float, rng: np.random.Generator
) -> tuple[float, float]:
    r"""Flip every label once; return the errors of the decoded S and P.

    A label's error is :math:`(f - \rho)(1 - 2y)/(1 - 2\rho)`, f its flip.
    """
    rho = 1.0 / (1.0 + math.exp(epsilon))
    response_key = rng.random(ranked.examples, dtype=np.float32) < rho
    errors = (response_key - rho) * (1.0 - 2.0 * ranked.labels) / (1.0 - 2.0 * rho)
    return float(np.arange(ranked.examples) @ errors), float(errors.sum())


@lru_cache(maxsize=64)
def choice_sd(ranked: Ranked, sites: int, how: Split, epsilon: int) -> float:
    """Return the standard deviation of our per-site choice, from its mechanisms."""
    budget = PureDP(Fraction(epsilon))
    split = pieces(ranked.examples, min(sites, ranked.examples), how)
    ranks = [SiteRanks(2 * piece.astype(np.int64), ranked.examples) for piece in split]
    options = [option_for("choice", site, budget) for site in ranks]
    covariance: TotalsCovariance = add_covariances(
        build(o, r, budget).covariance for o, r in zip(options, ranks, strict=True)
    )
    return noise_sd(ranked.sums, ranked.examples, covariance)


def secure_sum_sd(ranked: Ranked, epsilon: float) -> float:
    """Return the standard deviation when only the sum of all sites is revealed."""
    common = SummedEndpoint(ranked.examples, PureDP(Fraction(epsilon)), 2)
    return noise_sd(ranked.sums, ranked.examples, common.covariance(2))
