"""A class histogram, and beside it what sites add up to say how they differ.

The further numbers travel in the same vector of the same sum: no further round, and
nobody sees a site's own. They are functions of the site's own exact counts, computed
where these are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Self

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Examples
from discreet.errors import InputError, PlanError
from discreet.privacy.loss import amount_from_text, decimal_text
from discreet.privacy.unit import Sensitivity, Unit
from discreet.statistic import cluster_products, within_site
from discreet.statistic.blocks import Block, law_of_block
from discreet.statistic.bounds import Bound
from discreet.statistic.cluster_products import Clusters
from discreet.statistic.effect_terms import FEWEST, EffectTerms
from discreet.statistic.histogram import ClassHistogram
from discreet.statistic.observed import NoiseDistribution, NoisyHistogram
from discreet.statistic.protocol import Before, Statistic

FEWEST_EXACT: Final = 10
"""Sites whose numbers are added up without noise."""
_FEWEST_NOISY: Final = 3
"""Sites of a sum with noise, without which nothing can be said of how they differ."""
_FARTHEST_LOGIT: Final = 30.0
"""Of a threshold at which sites compare their rates."""
MOST_BYTES: Final = 400
"""What the further numbers may add to a site's message."""
USUAL_SHARE: Final = Fraction(1, 4)


@dataclass(frozen=True)
class SiteSums(Statistic):
    """A class histogram, the sites' effects, pairs within sites, clusters.

    Args:
        inner: the histogram.
        effects: the effects whose spread over sites is wanted.
        within: whether pairs within sites are added up.
        clusters: whose rows are alike, if that is to enter the intervals.
        share: of the budget for the effects, under noise.
    """

    inner: ClassHistogram
    effects: tuple[EffectTerms, ...] = ()
    within: bool = False
    clusters: Clusters | None = None
    share: Fraction = USUAL_SHARE

    name: ClassVar[str] = "site-sums"

    def __post_init__(self) -> None:
        if not self.effects and not self.within and self.clusters is None:
            raise PlanError("sums over sites name at least one thing to add up")
        if len({(terms.effect, terms.at) for terms in self.effects}) < len(
            self.effects
        ):
            raise PlanError("an effect is added up once")
        if self.clusters not in (None, "site", "subject"):
            raise PlanError("clusters are of a site or of a subject")
        if not 0 < self.share < 1:
            raise PlanError("the effects' share of the budget lies between 0 and 1")
        scores = self.inner.edges.scores
        for terms in self.effects:
            if terms.row.needs_probabilities and scores.kind == "other":
                raise PlanError(f"{terms.title} needs probabilities or logits")
            if terms.at is not None and terms.at not in self.inner.edges.values:
                raise PlanError(
                    f"{terms.title} is taken at one of the plan's thresholds"
                )
            if scores.kind == "logit" and abs(terms.at or 0.0) > _FARTHEST_LOGIT:
                raise PlanError(
                    f"sites compare their rates at logits up to {_FARTHEST_LOGIT:g}"
                )
        if 8 * self.further > MOST_BYTES:
            raise PlanError(
                f"what sites add beside their counts takes {8 * self.further} bytes, and "
                f"at most {MOST_BYTES} are allowed: ask for fewer effects"
            )

    @property
    def binnings(self) -> tuple[Edges, ...]:
        """The histogram's."""
        return self.inner.binnings

    @property
    def edges(self) -> Edges:
        """The histogram's."""
        return self.inner.edges

    @property
    def further(self) -> int:
        """Numbers beside the histogram."""
        effects = sum(terms.size for terms in self.effects)
        within = within_site.SIZE if self.within else 0
        return effects + within + (cluster_products.SIZE if self.clusters else 0)

    @property
    def size(self) -> int:
        """The histogram and what is beside it."""
        return self.inner.size + self.further

    @property
    def beside_counts(self) -> Mapping[str, int]:
        """What is opened that counts nobody."""
        found = {
            f"of the sites' own {terms.title}, each summed over the sites": terms.size
            for terms in self.effects
        }
        if self.within:
            found["of pairs within a site, each summed over the sites"] = (
                within_site.SIZE
            )
        if self.clusters:
            whose = "sites" if self.clusters == "site" else "people"
            found[f"of products of {whose}' sums, summed over the sites"] = (
                cluster_products.SIZE
            )
        return found

    def admits(self, unit: Unit | None, sites: int) -> None:
        """Refuse so few sites that the sums would show each of them.

        Exact sums of as many numbers as there are unknown ones determine these, but for
        which site is which. The sites' sizes are often public: a site then has one
        unknown number an effect, one more where pairs are added up (the variance of its
        area), four more where there are clusters. With k sites, k times these must be
        half as many again as all numbers that are opened; and never are
        fewer than ``FEWEST_EXACT`` sites added up without noise.
        """
        if unit is not None and (self.within or self.clusters):
            raise PlanError(
                "pairs within sites and clusters are added up exactly: under noise ask "
                "for the sites' effects alone"
            )
        fewest = _FEWEST_NOISY
        if unit is None:
            beside = self.within + 4 * (self.clusters is not None)
            unknown = len(self.effects) + beside
            fewest = max(FEWEST_EXACT, -(-3 * self.further // (2 * unknown)))
            if any(terms.fewest != FEWEST for terms in self.effects):
                # Who takes part would tell how many examples a site has.
                raise PlanError(f"without noise every site has {FEWEST} of each class")
        if sites < fewest:
            raise PlanError(
                f"sums over fewer than {fewest} sites would show each site's own values: "
                f"ask for at least {fewest} surviving sites that do not collude, or "
                "leave them out"
            )

    @property
    def chooses_sites(self) -> bool:
        """A site without a value of its own stays out."""
        return bool(self.effects or self.within)

    def takes(self, exact: IntVector) -> None:
        """Refuse a site that has no effect of its own: a sum would hold fewer of them.

        Of a sum to which one site alone adds, everybody reads that site's value; and how
        many add to it is known only when it is open.
        """
        halves = self.inner.split(exact[: self.inner.size].astype(np.float64))
        smaller = min(float(c.sum()) for c in halves)
        fewest = max([FEWEST * self.within, *(terms.fewest for terms in self.effects)])
        if smaller < fewest:
            raise InputError(
                f"this site has fewer than {fewest} examples of a class and so no value of "
                "its own to compare: without noise every site of such a sum needs one; "
                "leave this site out, or do not compare sites"
            )

    def count(self, examples: Examples) -> IntVector:
        """Count one site's examples, and work out what it adds beside them."""
        counts = self.inner.count(examples)
        halves = self.inner.split(counts.astype(np.float64))
        found = [counts]
        found += [terms.encoded(self.edges, halves) for terms in self.effects]
        if self.within:
            found.append(within_site.encoded(halves))
        if self.clusters is not None:
            found.append(
                cluster_products.encoded(self.clusters, self.inner, counts, examples)
            )
        return np.concatenate(found)

    def sensitivity(self, unit: Unit) -> Sensitivity:
        """All blocks together."""
        blocks = [block.sensitivity for block in self.blocks(unit)]
        return Sensitivity(
            sum(s.l1 for s in blocks),
            sum(s.l2_squared for s in blocks),
            max(s.linf for s in blocks),
            unit,
        )

    def bounds(self, unit: Unit | None) -> tuple[Bound, ...]:
        """The histogram's own, and those of what is beside it."""
        found = [*self.inner.bounds(unit)]
        for terms in self.effects:
            found += terms.bounds()
        if self.within:
            found.append(within_site.BOUND)
        if self.clusters is not None:
            found.append(cluster_products.BOUND)
        return tuple(found)

    def blocks(self, unit: Unit) -> tuple[Block, ...]:
        """The histogram, and the effects, each with its share of the budget."""
        self.admits(unit, sites=_FEWEST_NOISY)
        effects = [terms.sensitivity(unit) for terms in self.effects]
        together = Sensitivity(
            sum(s.l1 for s in effects),
            sum(s.l2_squared for s in effects),
            max(s.linf for s in effects),
            unit,
        )
        return (
            Block(self.inner.size, self.inner.sensitivity(unit), 1 - self.share),
            Block(self.further, together, self.share),
        )

    def parts(
        self, counts: FloatVector, noise: NoiseDistribution
    ) -> Mapping[str, NoisyHistogram]:
        """The histogram."""
        return self.inner.parts(counts[: self.inner.size], law_of_block(noise, 0))

    def cut(self, counts: FloatVector) -> dict[EffectTerms, FloatVector]:
        """Return each effect's totals."""
        found, start = {}, self.inner.size
        for terms in self.effects:
            found[terms] = counts[start : start + terms.size]
            start += terms.size
        return found

    def pair_sums(self, counts: FloatVector) -> FloatVector:
        """Return the totals of pairs within sites."""
        start = self.inner.size + sum(terms.size for terms in self.effects)
        return counts[start : start + within_site.SIZE]

    def cluster_sums(self, counts: FloatVector) -> FloatVector:
        """Return the totals of clusters' products."""
        return counts[self.size - cluster_products.SIZE :]

    def table(self) -> dict[str, Any]:
        """Return what is added up beside the counts."""
        table: dict[str, Any] = {
            "effects": [terms.table() for terms in self.effects],
            "within": self.within,
            "share": decimal_text(self.share),
        }
        return table if self.clusters is None else {**table, "clusters": self.clusters}

    @classmethod
    def from_table(
        cls, table: Mapping[str, Any], edges: Sequence[Edges], before: Before
    ) -> Self:
        """Read what ``table`` wrote."""
        return cls(
            ClassHistogram.from_table(table, edges, before),
            tuple(EffectTerms.from_table(terms) for terms in table["effects"]),
            bool(table["within"]),
            table.get("clusters"),
            amount_from_text(table["share"], name="share"),
        )
