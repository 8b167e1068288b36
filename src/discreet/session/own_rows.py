r"""A site's own rows beside a plan's public facts, for the operator's screen alone.

An inverted label, a wrong column or other people pass every check of types and ranges,
and spend the budget on a wrong result. So before a site joins, its operator is shown how
many examples and positives were read and their AUC, and is asked to confirm what is odd:

- *the share of positives*, with odds that differ by more than a factor of 4 from those
  that the plan declares, by more than two standard errors beyond that factor;
- *the AUC*, below one half by more than two standard errors of an AUC without
  information, :math:`\sqrt{(n + m + 1) / (12 n m)}` for n negatives and m positives.

Nothing inside a session looks at this: no message, no refusal and no waiting depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Batch, Examples
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.session.preview import plan_cuts
from discreet.statistic.protocol import BinCounts
from discreet.statistic.site_sums import auc_and_variance

FAR_ODDS: Final = 4.0
"""Sites differ in prevalence; inverted labels of prevalence 1/3 change the odds by 4."""
ERRORS: Final = 2.0
"""Standard errors beyond which chance is no explanation."""
CONFIRM: Final = "mend the rows, or say --confirmed if they are what you mean"
_BINS: Final = 4096
_ABOUT_PREVALENCE: Final = (
    "the share of positives is far from the one that the plan declares; likely causes: "
    "inverted labels, another label column, another --positive, or other people"
)
_ABOUT_AUC: Final = (
    "is below one half; likely causes: inverted labels or scores, another column, or "
    "percents among probabilities"
)


@dataclass(frozen=True, slots=True)
class OwnAuc:
    """One score column's own AUC, and its standard error if scores told nothing."""

    column: str
    value: float
    error: float

    @property
    def inverted(self) -> bool:
        """Whether it is below one half by more than chance; not where it is undefined."""
        return self.value < 0.5 - ERRORS * self.error


@dataclass(frozen=True, slots=True)
class OwnRows:
    """What one site's rows are, beside what the plan declares of all.

    Args:
        examples: how many there are.
        positives: how many are positive; None where there are several classes.
        areas: the AUC of each score column; of each class against the rest.
        prevalence: what the plan declares, None if nothing.
        a_site: how many examples the plan declares for a site, on average.
    """

    examples: int
    positives: int | None
    areas: tuple[OwnAuc, ...]
    prevalence: float | None = None
    a_site: int | None = None

    def concerns(self) -> tuple[str, ...]:
        """Return what the operator has to confirm, a sentence each, without a number."""
        found = [_ABOUT_PREVALENCE] if self.far_prevalence else []
        found += [f"the AUC{a.column} {_ABOUT_AUC}" for a in self.areas if a.inverted]
        return tuple(found)

    @property
    def far_prevalence(self) -> bool:
        """Whether the odds are more than four times off, by more than chance."""
        if self.positives is None or self.prevalence is None or not self.examples:
            return False
        odds = self.prevalence / (1 - self.prevalence)
        for factor, side in ((FAR_ODDS, 1), (1 / FAR_ODDS, -1)):
            limit = factor * odds / (1 + factor * odds)
            excess = side * (self.positives - self.examples * limit)
            if excess > ERRORS * math.sqrt(self.examples * limit * (1 - limit)):
                return True
        return False

    def __str__(self) -> str:
        expected = "" if self.a_site is None else f" (the plan: {self.a_site:,} a site)"
        parts = [f"{self.examples:,} examples{expected}"]
        if self.positives is not None and self.examples:
            declared = "none" if self.prevalence is None else f"{self.prevalence:.3g}"
            share = self.positives / self.examples
            parts.append(f"{self.positives:,} positive")
            parts.append(f"prevalence {share:.3g} (the plan: {declared})")
        for area in self.areas:
            value = "undefined" if math.isnan(area.value) else f"{area.value:.3f}"
            parts.append(f"AUC{area.column} {value}")
        return ", ".join(parts)


def own_rows(plan: Plan, examples: Examples) -> OwnRows:
    """Read the rows once, or ask the engine for the plan's counts, and add them up.

    Scores are compared to a 4,096th part of their range; of an engine's counts, and of
    a file of counts, up to the plan's bins. Every row counts as one, whatever its weight.
    """
    rule = spread_over(_BINS, PublicFacts(scores=examples.scores))
    edges = Edges.realise(rule, examples.scores)
    bins, classes = len(edges), examples.label_code.classes
    several = classes is not None and len(classes) > 2

    def counted(batches: Iterator[Batch]) -> IntVector:
        total = np.zeros((examples.columns, 2 * bins), dtype=np.int64)
        for batch in batches:
            for k, scores in enumerate(batch.scores):
                positive = batch.labels == (k if several else 1)
                cells = edges.bins_of(scores) + bins * positive
                total[k] += batch.tally(cells, 2 * bins)
        return total

    told_apart = any(r.statistic.binnings for r in plan.rounds)
    cuts = plan_cuts(plan, examples.columns) if told_apart else ()
    total = sum(
        examples.scan(counted, cuts),
        np.zeros((examples.columns, 2 * bins), dtype=np.int64),
    )
    titles = [""]
    if several and classes is not None:
        titles = [f" of class {name}" for name in classes]
    elif examples.columns > 1:
        titles = [f" of score {k + 1}" for k in range(examples.columns)]
    sites = plan.cohort.least_sites
    if plan.roster is not None:
        sites = len(plan.roster.sites)
    declared = plan.facts.examples
    return OwnRows(
        int(total[0].sum()),
        None if several else int(total[0, bins:].sum()),
        tuple(_area(title, row) for title, row in zip(titles, total, strict=True)),
        None if several else plan.facts.prevalence,
        None if declared is None else round(declared / sites),
    )


def _area(title: str, row: IntVector) -> OwnAuc:
    negatives, positives = np.split(row.astype(np.float64), 2)
    n, m = float(negatives.sum()), float(positives.sum())
    if not (n and m):
        return OwnAuc(title, math.nan, math.nan)
    area, _ = auc_and_variance(BinCounts(negatives, positives))
    return OwnAuc(title, area, math.sqrt((n + m + 1) / (12 * n * m)))
