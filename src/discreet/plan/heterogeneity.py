"""What is asked about how sites differ, and what noise leaves of it.

Nothing here sees examples: the share of the budget, and whether it is any use, follow
from public facts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from discreet.data.edges import Edges, Uniform
from discreet.errors import PlanError
from discreet.metrics.heterogeneity import AnchoredSums, RandomEffects, lost_in_noise
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.privacy.unit import Unit
from discreet.statistic.effect_terms import SITE_EFFECTS, EffectTerms
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import cell_variance, noise_of_block
from discreet.statistic.site_sums import USUAL_SHARE, Clusters, SiteSums
from discreet.vocabulary import metric_name

if TYPE_CHECKING:
    from discreet.plan.privacy_model import PrivacyModel

SHARES: Final = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2))
"""Of the budget, for the sites' effects: the least that is enough."""
_EACH: Final = 1000
_PREVALENCE: Final = 0.2
"""Examples a site, and positives among them, where nothing is known in public."""


@dataclass(frozen=True, slots=True)
class HeterogeneityQuestion:
    """What somebody wants to know about how sites differ.

    Args:
        effects: names of effects, ``recall@0.5`` for one at a threshold.
        within: whether to compare pairs within sites with all pairs.
        clusters: whose rows are alike, if intervals are to say so.
        share: of the budget, under noise; None leaves it to the planner.
    """

    effects: tuple[str, ...] = ("auc",)
    within: bool = True
    clusters: Clusters | None = None
    share: Fraction | None = None

    @classmethod
    def asked(
        cls, wanted: HeterogeneityQuestion | Sequence[str] | bool
    ) -> HeterogeneityQuestion | None:
        """Read yes, no, or the names of measures."""
        if isinstance(wanted, bool):
            return cls() if wanted else None
        if isinstance(wanted, HeterogeneityQuestion):
            return wanted
        names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        return cls(names)

    def statistic(self, inner: ClassHistogram, unit: Unit | None) -> SiteSums:
        """Return the histogram with what sites add to it."""
        private = unit is not None
        terms = []
        for text in self.effects:
            name = metric_name(text.partition("@")[0], SITE_EFFECTS)
            terms.append(EffectTerms.of(name, private=private, at=_threshold(text)))
        return SiteSums(
            inner,
            tuple(terms),
            self.within and not private,
            self.share or USUAL_SHARE,
            self.clusters,
        )


def _threshold(text: str) -> float | None:
    """Read the threshold of an effect's name, if it has one."""
    _, at, threshold = text.partition("@")
    try:
        return float(threshold) if at else None
    except ValueError:
        raise PlanError("an effect at a threshold is written name@number") from None


@dataclass(frozen=True, slots=True)
class PredictedSpread:
    """What noise is expected to do to one effect, where sites differ as usual.

    Reaches are half the width of a new site's interval on the effect's scale.
    """

    title: str
    noise_of_tau2: float
    usual: float
    """The variance between sites that is assumed."""
    reach: float
    reach_without_noise: float
    refusal: str | None


def shared(
    heterogeneity: HeterogeneityQuestion,
    model: PrivacyModel,
    facts: PublicFacts,
    cohort: Cohort,
) -> HeterogeneityQuestion:
    """Choose the share of the budget: the least whose noise is half of what is usual."""
    if heterogeneity.share is not None or not heterogeneity.effects:
        return replace(heterogeneity, share=heterogeneity.share or USUAL_SHARE)
    for share in SHARES:
        candidate = replace(heterogeneity, share=share)
        statistic = candidate.statistic(_few_bins(facts, heterogeneity), model.protects)
        if all(
            spread.noise_of_tau2 <= spread.usual / 2
            for spread in predicted_spreads(statistic, model, facts, cohort)
        ):
            return candidate
    return replace(heterogeneity, share=SHARES[-1])


def _few_bins(
    facts: PublicFacts, heterogeneity: HeterogeneityQuestion
) -> ClassHistogram:
    """Return a histogram over few bins: noise in the effects does not depend on it."""
    cuts = [t for t in map(_threshold, heterogeneity.effects) if t is not None]
    return ClassHistogram(Edges.realise(Uniform(2), facts.scores, thresholds=cuts))


def predicted_spreads(
    statistic: SiteSums, model: PrivacyModel, facts: PublicFacts, cohort: Cohort
) -> list[PredictedSpread]:
    r"""Predict each effect under a model's noise, from public facts alone.

    All sites are as large as each other, have an effect in the middle of its range and
    the variance :math:`2/(n \pi (1 - \pi))`, and differ by what is usual.
    """
    from discreet.plan.rounds import ResolvedRound  # noqa: PLC0415 - it imports this module

    sites = cohort.min_survivors
    noise = model.mechanism_for(ResolvedRound(0, statistic, model.loss), cohort)
    revealed = noise.open(np.zeros(statistic.size, dtype=np.int64), sites)
    each = (
        cell_variance(noise_of_block(revealed.noise, 1))
        if revealed.noise.scale
        else 0.0
    )
    size = _EACH if facts.examples is None else max(facts.examples / sites, 1.0)
    share = _PREVALENCE if facts.prevalence is None else facts.prevalence
    variance = 2.0 / (size * share * (1 - share))
    found = []
    for terms in statistic.effects:
        usual = terms.row.defaults.usual
        sums = _typical(terms, variance, sites, usual)
        matrix = terms.sums()
        plain = RandomEffects(sums)
        noisy = RandomEffects(sums, noise=each * (matrix @ matrix.T)) if each else plain
        few = plain.refusal or lost_in_noise(terms, noisy)
        found.append(
            PredictedSpread(
                terms.title,
                noisy.noise_of_tau2(),
                usual,
                np.nan if few else noisy.prediction().high - sums.mean,
                np.nan if plain.refusal else plain.prediction().high - sums.mean,
                few,
            )
        )
    return found


def _typical(
    terms: EffectTerms, variance: float, sites: int, usual: float
) -> AnchoredSums:
    kept = max(variance, terms.least)
    middle = (terms.low + terms.high) / 2
    sums = AnchoredSums.of_sites(
        np.full(sites, middle), np.full(sites, kept), terms.anchor
    )
    q = float(sums.expected_q(usual))
    return replace(sums, effect_squared=sums.effect_squared + q)
