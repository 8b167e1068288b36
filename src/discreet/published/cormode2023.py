r"""Equi-depth buckets and the AUC of Cormode and Markov (2023).

Bucket edges are quantiles of all examples, read from the released tree; the two
classes are then counted per bucket in the same tree, and the AUC is equation 5:
pairs in different buckets are decided, pairs inside a bucket count one half.

Three statements of the paper do not hold as printed (each has a test):

- **Theorem 5** bounds the noise of the AUC by O(1/(eps M)) at any number B of
  buckets. It adds the variances of the products :math:`p_i n_j` and drops their
  covariances, but all products in a row share :math:`p_i` and all in a column
  :math:`n_j`. With noise of its own in each of B flat buckets the error grows
  like :math:`\sqrt B`: measured 1.1 sqrt(B)/(eps M) at an AUC of .5 and 1.33 at
  .95, for P = N, eps = 1 and every B from 8 to 2,048. ``auc_noise_variance`` is
  the corrected formula.
- **Theorem 6** takes :math:`h^2 e^\epsilon/(e^\epsilon - 1)^2` as the variance of
  optimized unary encoding on h levels; a factor 4 is missing
  (``unary_variance``).
- **Theorem 2**'s :math:`B = (\epsilon M)^{2/3}` balances the error of precision,
  recall and accuracy at *one* threshold. As a rule for curves or areas on a flat
  histogram it is far too large: about 1,000 buckets for 32,561 examples at
  eps = 1, where 25 to 50 are best.

And its equation 2 counts a tie as lost while equation 5 counts it as one half:
the "no error due to spikes" of Theorem 4 holds for the latter only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import PlanError, ReleaseError
from discreet.published.xu2025.quantiles import tree_quantiles
from discreet.statistic.hierarchy import NoisyTree


class BucketRule(Enum):
    r"""The paper's numbers of buckets, by what they are for.

    M examples (one per client), privacy eps. Constants are 1, as the paper has
    them; ``AUC_DISTRIBUTED`` is the number past which its figures are flat.
    """

    RATES_DISTRIBUTED = "precision, recall, accuracy under distributed noise"
    RATES_LOCAL = "precision, recall, accuracy under local noise"
    AUC_DISTRIBUTED = "AUC under distributed noise"
    AUC_LOCAL = "AUC under local noise"
    CALIBRATION = "calibration, exact or under distributed noise"
    CALIBRATION_LOCAL = "calibration under local noise"

    def buckets(self, examples: int, epsilon: float, *, height: int = 10) -> int:
        r"""Return B, at least 2.

        Theorem 2: :math:`(\epsilon M)^{2/3}` and :math:`\epsilon^{2/3} M^{1/3}`;
        section 7.2: 20; Theorem 6: :math:`\sqrt{M/V}`, V its variance of a range
        query on a tree of this height, here with the missing factor 4;
        Theorems 7 and 8: :math:`M^{1/3}` and :math:`\epsilon^{1/2} M^{1/4}`.

        >>> BucketRule.RATES_DISTRIBUTED.buckets(32_561, 1.0)
        1020
        """
        if examples < 1 or not epsilon > 0 or height < 1:
            raise PlanError("a rule needs examples, a positive epsilon and a height")
        local = math.sqrt(examples / unary_variance(epsilon)) / height
        wanted = {
            BucketRule.RATES_DISTRIBUTED: math.pow(epsilon * examples, 2 / 3),
            BucketRule.RATES_LOCAL: math.pow(epsilon, 2 / 3)
            * math.pow(examples, 1 / 3),
            BucketRule.AUC_DISTRIBUTED: 20.0,
            BucketRule.AUC_LOCAL: local,
            BucketRule.CALIBRATION: math.pow(examples, 1 / 3),
            BucketRule.CALIBRATION_LOCAL: math.sqrt(epsilon)
            * math.pow(examples, 1 / 4),
        }
        return max(2, round(wanted[self]))


def exact_tree_height(buckets: int) -> int:
    r"""Return the height that exact sums need for B buckets, :math:`2 + \log_2 B`.

    Section 2.3, for scores whose density is bounded by 1; a leaf is then at most
    a quarter of a bucket. Under noise the paper names ranges instead: 10 to 20
    levels (distributed) and 5 to 10 (local), and uses 10.

    >>> exact_tree_height(20)
    7
    """
    if buckets < 1:
        raise PlanError(f"need at least 1 bucket, got {buckets}")
    return 2 + math.ceil(math.log2(buckets))


def unary_variance(epsilon: float) -> float:
    r"""Return the variance of one client's debiased bit, unary encoding.

    A 1 is kept with p = 1/2, a 0 turned with :math:`q = 1/(e^\epsilon + 1)`; for
    a bit that is 0,

    .. math:: \frac{q(1-q)}{(p-q)^2} = \frac{4 e^\epsilon}{(e^\epsilon - 1)^2}

    (Wang 2017). The paper's Theorem 6 has a quarter of it.
    """
    return 4.0 * math.exp(epsilon) / math.expm1(epsilon) ** 2


@dataclass(frozen=True, eq=False)
class EquiDepth:
    """Class counts in buckets with about as many examples each.

    Counts may be noisy and below zero: equation 5 is linear in each class, so it
    needs no clipping, and clipping would bias it.
    """

    edges: FloatVector
    negatives: FloatVector
    positives: FloatVector

    def __post_init__(self) -> None:
        shape = (self.edges.size - 1,)
        if self.negatives.shape != shape or self.positives.shape != shape:
            raise ReleaseError(f"these edges make {shape[0]} buckets")
        if self.negatives.sum() <= 0 or self.positives.sum() <= 0:
            raise ReleaseError(
                "a class total is not positive: too few examples for this epsilon"
            )

    @classmethod
    def from_tree(cls, observed: NoisyTree, buckets: int) -> EquiDepth:
        """Cut the consistent tree at the quantiles of all examples.

        Edges that coincide (a score with more than one bucket's share of the
        examples) are merged, so there may be fewer buckets than asked for.
        """
        if buckets < 1:
            raise PlanError(f"need at least 1 bucket, got {buckets}")
        tree = observed.consistent
        fractions = np.arange(1, buckets) / buckets
        inner = tree_quantiles(tree.merged, tree.edges, fractions)
        low, high = tree.edges.array[0], tree.edges.array[-1]
        edges = np.unique(np.concatenate([[low], inner, [high]]))
        starts = np.searchsorted(tree.edges.array[:-1], edges[:-1])
        return cls(
            edges,
            np.add.reduceat(tree.negatives[-1], starts),
            np.add.reduceat(tree.positives[-1], starts),
        )

    @property
    def auc(self) -> float:
        """Equation 5."""
        return histogram_auc(self.negatives, self.positives)

    @property
    def uncertainty(self) -> float:
        r"""The worst error from pairs inside buckets, :math:`\sum p_b n_b/(2PN)`.

        At most 1/(2B) for buckets of exactly equal depth (Lemma 3); about
        1/(3 B^2) of it is real for smooth scores.
        """
        pairs = self.negatives.sum() * self.positives.sum()
        return abs(float(self.negatives @ self.positives)) / (2.0 * float(pairs))


def histogram_auc(negatives: FloatVector, positives: FloatVector) -> float:
    r"""Return :math:`H_B = \frac1{PN} \sum_i p_i (\sum_{j<i} n_j + \tfrac12 n_i)`.

    Equation 5 of Cormode and Markov (2023); bins ascend.

    >>> histogram_auc(np.array([3.0, 1.0]), np.array([0.0, 2.0]))
    0.875
    """
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below) / float(positives.sum() * negatives.sum())


def auc_noise_variance(
    negatives: FloatVector, positives: FloatVector, variance: float
) -> float:
    r"""Return the noise variance of equation 5 on flat counts, to first order.

    Independent noise of variance :math:`\sigma^2` in every cell of both classes.
    With :math:`a_i` the share of negatives below bucket i (half of its own
    included), :math:`d_j` that of positives above j, and A the AUC,

    .. math::
        \sigma^2 \Bigl(\frac1{P^2} \sum_i (a_i - A)^2
        + \frac1{N^2} \sum_j (d_j - A)^2\Bigr).

    The sums grow with B: hence :math:`O(\sqrt B/(\epsilon M))` where Theorem 5
    claims :math:`O(1/(\epsilon M))`. It does not cover totals that are not many
    times :math:`\sigma \sqrt B`, where products of two noises matter.
    """
    p, n = float(positives.sum()), float(negatives.sum())
    area = histogram_auc(negatives, positives)
    below = (np.cumsum(negatives) - negatives / 2) / n
    above = 1.0 - (np.cumsum(positives) - positives / 2) / p
    from_positives = float(((below - area) ** 2).sum()) / p**2
    from_negatives = float(((above - area) ** 2).sum()) / n**2
    return variance * (from_positives + from_negatives)
