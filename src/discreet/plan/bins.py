r"""How many bins, and where: rules of public facts alone. Nothing here sees examples.

*Examples alone in a cell.* Without noise a cell that one example fills shows that example. Before any data is
counted, a plan declares n examples of prevalence p. With C cells a class (bins, times
groups of people, times random groups of sites) a cell of the negatives is expected to
hold :math:`\lambda_0 = n (1 - p) / C` examples, one of the positives
:math:`\lambda_1 = n p / C`. Scores fill bins unevenly: some cells are crowded, many are
nearly empty. If the cells' own means spread exponentially around these, counts are
geometric and

.. math::
    C \left(\frac{\lambda_0}{(1 + \lambda_0)^2} + \frac{\lambda_1}{(1 + \lambda_1)^2}\right)

cells hold one example alone. On simulated and real scores (500 to 200,000 examples over
the bins that a plan gets) between .4 and 2.3 times as many did, and none of a model with
twelve different scores. Cells that are filled evenly would promise next to none where
there are a hundred. It is a guide, not a bound, and the declared size may be wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

from discreet.data.edges import EdgeRule, Uniform
from discreet.data.prior_spread import PriorSpread
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.plan.cohort import PublicFacts
from discreet.statistic.protocol import Statistic

EXACT_BINS: Final = 1024
"""The most bins that are chosen for an exact sum."""
FEWEST_EXACT_BINS: Final = 10
EXAMPLES_A_BIN: Final = 10
"""Examples that an exact sum leaves in a bin, on average: fewer examples get fewer bins,
because a cell with one example shows it."""
BLIND_EXACT_BINS: Final = 128
"""Bins of an exact sum when its size is not public: 1,280 examples leave ten in each."""
BLIND_BINS: Final = 40
"""Bins under noise when nothing is known in public about the size of the data."""
BLIND_PREVALENCE: Final = 0.05
"""A prevalence when none is known in public: its edges suit rare events and halves."""
_SPREAD: Final = (1.8, 20, 128)
_PLACED: Final = (1.0, 14, 96)
"""Factor, fewest and most bins: spread by a prior, or placed where scores are."""


def spread_over(bins: int, facts: PublicFacts) -> EdgeRule:
    """Return that many bins, where a model of this prevalence may put its scores."""
    if facts.scores.kind == "other":
        return Uniform(bins)
    known = facts.prevalence
    return PriorSpread(bins, BLIND_PREVALENCE if known is None else known)


def bins_for(
    facts: PublicFacts, inverse_scale: float | None, *, placed: bool = False
) -> int:
    """Return the number of bins, from public facts alone; no inverse scale means no noise.

    ``placed`` says that a pilot round places them, as it does where nothing is known.
    """
    if inverse_scale is None:
        return bins_of_exact_sum(facts.examples)
    minority = minority_of(facts)
    if minority is None:
        return BLIND_BINS
    placed = placed or facts.scores.kind == "other"
    return bins_under_noise(minority, inverse_scale, placed=placed)


def bins_of_exact_sum(examples: int | None, histograms: int = 1) -> int:
    """Return as many bins as leave ten examples in each, from 10 to 1,024.

    ``histograms`` says over how many the examples are spread, such as those of groups.

    >>> [bins_of_exact_sum(n) for n in (None, 50, 2000, 100_000)]
    [128, 10, 200, 1024]
    """
    if examples is None:
        return BLIND_EXACT_BINS
    bins = examples // (histograms * EXAMPLES_A_BIN)
    return min(max(bins, FEWEST_EXACT_BINS), EXACT_BINS)


def minority_of(facts: PublicFacts) -> float | None:
    """Return a public guess of the smaller class's size; None if there is none."""
    if facts.examples is None:
        return None
    prevalence = 0.5 if facts.prevalence is None else facts.prevalence
    return facts.examples * min(prevalence, 1 - prevalence)


def bins_under_noise(minority: float, epsilon: float, *, placed: bool = False) -> int:
    r"""Return the number of bins for noisy counts: a rule of public facts.

    .. math::
        B = 1.8 (\varepsilon^2 n)^{2/5}, \text{ rounded up to an even number in } 20..128

    with n a public guess of the minority class's size and 1/eps the noise's
    scale in a cell. Noise adds :math:`\sqrt B/(\varepsilon n)` to a curve, and a
    bin hides a random walk of size :math:`1/\sqrt{nB}`: curves balance the two at
    :math:`(\varepsilon^2 n)^{1/2}`, areas, in which the second averages out to
    :math:`1/(B \sqrt n)`, at :math:`(\varepsilon^2 n)^{1/3}`. The rule lies
    between; a guess wrong by a factor of 3 moves it by 1.55. Bins that a pilot round
    ``placed`` where the scores are need none for places without any: the factor is 1.

    >>> bins_under_noise(10_000, 1.0), bins_under_noise(10_000, 0.1)
    (72, 20)
    """
    if not (math.isfinite(minority) and minority > 0):
        raise PlanError("the guess of the minority class's size must be positive")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError("epsilon must be positive")
    factor, fewest, most = _PLACED if placed else _SPREAD
    pairs = math.ceil(factor * math.pow(epsilon * epsilon * minority, 0.4) / 2)
    return min(max(2 * pairs, fewest), most)


def default_thresholds(scores: ScoreRange) -> tuple[float, ...]:
    """Return the usual decision threshold: one half, on the scores' own scale."""
    match scores.kind:
        case "probability":
            return (0.5,)
        case "logit":
            return (0.0,)
        case "other":
            return ()


def cells_a_class(statistic: Statistic, random_groups: int = 1) -> int:
    """Return over how many cells the examples of one class are spread; 0 without bins."""
    bins = [len(edges) for edges in statistic.binnings]
    if not bins:
        return 0
    told_apart = math.prod(bins) if statistic.joint else max(bins)
    if statistic.time_cuts is not None:
        told_apart *= len(statistic.time_cuts)
    return told_apart * max(len(statistic.told_apart), 1) * random_groups


def expected_in_cell(
    statistic: Statistic, facts: PublicFacts, random_groups: int = 1
) -> float | None:
    """Return the expected examples of the smaller class in a cell of a sum.

    None where the facts lack examples or prevalence, or nothing is counted in bins.

    >>> from discreet import SecureAggregation, recommend
    >>> facts = PublicFacts(20_000, 0.1)
    >>> expected_in_cell(recommend(facts, SecureAggregation(), thresholds=()).statistic, facts)
    1.953125
    """
    cells = cells_a_class(statistic, random_groups)
    if not cells or facts.examples is None or facts.prevalence is None:
        return None
    return facts.examples * min(facts.prevalence, 1 - facts.prevalence) / cells


@dataclass(frozen=True, slots=True)
class LoneExamples:
    """Cells that are expected to hold one example alone, among all cells of a sum."""

    expected: float
    cells: int

    def __str__(self) -> str:
        return (
            f"by the plan's public facts about {self.expected:,.0f} of {self.cells:,} "
            "cells hold one example alone"
        )

    @classmethod
    def of(
        cls, statistic: Statistic, facts: PublicFacts, random_groups: int = 1
    ) -> Self | None:
        """Return them; None where no number of examples is declared.

        Without a declared prevalence the classes are taken to be equally large.

        >>> from discreet import SecureAggregation, recommend
        >>> facts = PublicFacts(2000, 0.1)
        >>> print(LoneExamples.of(recommend(facts, SecureAggregation()).statistic, facts))
        by the plan's public facts about 68 of 402 cells hold one example alone
        """
        apart = cells_a_class(statistic, random_groups)
        if not apart or facts.examples is None:
            return None
        cells = statistic.size - sum(statistic.beside_counts.values())
        p = 0.5 if facts.prevalence is None else facts.prevalence
        each = (facts.examples * (1 - p) / apart, facts.examples * p / apart)
        alone = sum(mean / (1 + mean) ** 2 for mean in each) / 2
        return cls(alone * cells * random_groups, cells * random_groups)
