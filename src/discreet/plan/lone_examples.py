r"""How many examples a cell of an exact sum holds, by a plan's public facts alone.

Without noise a cell that one example fills shows that example. Before any data is
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
from typing import Self

from discreet.plan.cohort import PublicFacts
from discreet.statistic.protocol import Statistic


def cells_a_class(statistic: Statistic, random_groups: int = 1) -> int:
    """Return over how many cells the examples of one class are spread; 0 without bins."""
    bins = [len(edges) for edges in statistic.binnings]
    if not bins:
        return 0
    told_apart = math.prod(bins) if statistic.joint else max(bins)
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
