"""How sites differ and what a new site can expect, from the revealed sums.

Random groups of sites show a malicious site: it moves its own group and no other. The
pooled value without that group is free of it, and the median over g groups stays among
honest values while fewer than g/2 groups hold a malicious site. Groups of honest sites
differ too. So a group stands out only when the median lies outside its interval by more
than groups usually differ.

:func:`own_view` shows a site its local values beside the revealed ones. Nothing leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from discreet.data.examples import Examples
from discreet.errors import InputError, NotReleasedError
from discreet.estimate.estimate import Interval
from discreet.metrics.heterogeneity import (
    AnchoredSums,
    ClusterProducts,
    RandomEffects,
    lost_in_noise,
)
from discreet.metrics.table import METRICS
from discreet.plan.plan import Plan
from discreet.secagg.graph import SiteGroups
from discreet.statistic.effect_terms import EffectTerms, Link
from discreet.statistic.observed import cell_variance, noise_of_block
from discreet.statistic.site_sums import SiteSums, WithinSums, decoded_products

if TYPE_CHECKING:
    from discreet.report.build import RevealedRound
    from discreet.report.evaluation import Evaluation

_Z: Final = 1.959963984540054
_LEVEL: Final = 0.9999
_SDS: Final = 4.0
_MAD_TO_SD: Final = 1.4826
"""Of a normal distribution, the standard deviation over the median absolute deviation."""


@dataclass(frozen=True)
class SiteSpread:
    """One measure over the sites: its mean, its spread, a new site's.

    Values and intervals are on the measure's own scale; ``effects`` is the model on
    the scale on which sites are near normal.
    """

    terms: EffectTerms
    effects: RandomEffects
    contributors: int

    @property
    def refusal(self) -> str | None:
        """Why nothing can be said, None when it can."""
        if self.effects.refusal is not None or self.effects.noise is None:
            return self.effects.refusal
        return lost_in_noise(self.terms, self.effects)

    @property
    def sites(self) -> float:
        """How many sites had a value of their own; about, under noise."""
        return self.effects.sites

    @property
    def not_estimable(self) -> float:
        """How many had one class only, or too few examples."""
        return max(self.contributors - self.sites, 0.0)

    @property
    def mean(self) -> float:
        """The value of the mean site."""
        return self._back(self.effects.mean)

    def interval(self, level: float = 0.95) -> Interval:
        """Return Hartung and Knapp's interval of the mean."""
        return Interval(*map(self._back, self.effects.interval(level)))

    def prediction(self, level: float = 0.95) -> Interval:
        """Return where a new site's own value is expected."""
        return Interval(*map(self._back, self.effects.prediction(level)))

    def _back(self, value: float) -> float:
        return inverse(self.terms.row.link, value)

    def sentence(self) -> str:
        """Say it in one line."""
        title, exact = self.terms.title, self.effects.noise is None
        if self.refusal is not None:
            return f"{title} over the sites: {self.refusal}."
        low, high = self.interval()
        least, most = self.prediction()
        scale = {"logit": "logit ", "log": "log ", "identity": ""}[self.terms.row.link]
        share = f", I2 {self.effects.sums.i2:.0%}" if exact else ""
        left = round(self.not_estimable)
        out = f"; {left} more not estimable" if left else ""
        return (
            f"{title} over {'' if exact else 'about '}{self.sites:.0f} sites: mean "
            f"{self.mean:.4f} [{low:.4f}, {high:.4f}], a new site's {least:.2f} to "
            f"{most:.2f} (95%); between sites {scale}sd "
            f"{math.sqrt(self.effects.tau2):.3f}{share}{out}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        exact = self.effects.noise is None
        table: dict[str, Any] = {
            "refusal": self.refusal,
            "sites": self.sites,
            "not_estimable": self.not_estimable,
            "scale": self.terms.row.link,
        }
        if self.refusal is not None:
            return table
        return table | {
            "mean": self.mean,
            "interval95": list(self.interval()),
            "prediction95": list(self.prediction()),
            "tau2": self.effects.tau2,
            "anchor": self.effects.sums.anchor,
            "noisy": not exact,
            **({"i2": self.effects.sums.i2} if exact else {}),
        }


@dataclass(frozen=True, eq=False)
class RandomGroups:
    """Each group's evaluation alone, and that of all other groups without it."""

    members: SiteGroups
    alone: tuple[Evaluation, ...]
    without: tuple[Evaluation, ...]

    def values(self, metric: str) -> tuple[float, ...]:
        """Return each group's value; NaN where a group does not define it."""
        return tuple(group.metrics[metric].value for group in self.alone)

    def median(self, metric: str) -> float:
        """Return the median over the groups, which one malicious site cannot move far."""
        known = [v for v in self.values(metric) if not math.isnan(v)]
        return float(np.median(known)) if known else math.nan

    def spread(self, metric: str) -> Interval:
        """Return the least and the greatest value of a group."""
        return _range(self.values(metric))

    def without_one(self, metric: str) -> Interval:
        """Return the least and the greatest value when one group is left out."""
        return _range([others.metrics[metric].value for others in self.without])

    def stands_out(self, metric: str) -> tuple[int, ...]:
        """Return the places of groups that differ by more than chance allows."""
        middle = self.median(metric)
        away = [abs(v - middle) for v in self.values(metric) if not math.isnan(v)]
        usual = _SDS * _MAD_TO_SD * float(np.median(away)) if away else 0.0
        intervals = [group.metrics[metric].interval(_LEVEL) for group in self.alone]
        return tuple(
            place
            for place, (low, high) in enumerate(intervals)
            if middle < low - usual or middle > high + usual
        )

    def sentences(self, metrics: Iterable[str]) -> list[str]:
        """Return what stands below the tables, for these metrics."""
        lines = []
        outside: dict[int, list[str]] = {}
        for metric in metrics:
            title = METRICS[metric].title
            low, high = self.spread(metric)
            least, most = self.without_one(metric)
            lines.append(
                f"{title} in {len(self.members)} random groups of sites: {low:.4f} to "
                f"{high:.4f}, median {self.median(metric):.4f}; without one group "
                f"{least:.4f} to {most:.4f}."
            )
            for place in self.stands_out(metric):
                outside.setdefault(place, []).append(title)
        for place, titles in sorted(outside.items()):
            sites = ", ".join(map(str, self.members[place]))
            lines.append(
                f"Note: group {place + 1} (sites {sites}) stands out in "
                f"{', '.join(titles)}: check its sites before you use the pooled value."
            )
        return lines

    def to_dict(self, metrics: Sequence[str]) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "members": [list(group) for group in self.members],
            "metrics": {
                metric: {
                    "values": [_known(v) for v in self.values(metric)],
                    "median": _known(self.median(metric)),
                    "without_one": [_known(v) for v in self.without_one(metric)],
                    "stands_out": [place + 1 for place in self.stands_out(metric)],
                }
                for metric in metrics
            },
        }


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """How sites differ, as far as the plan asked for it."""

    spreads: Mapping[str, SiteSpread] = field(default_factory=dict)
    """By the measure's name, with its threshold if it has one."""
    within: WithinSums | None = None
    clusters: ClusterProducts | None = None
    random_groups: RandomGroups | None = None

    def __getitem__(self, name: str) -> SiteSpread:
        if name not in self.spreads:
            raise NotReleasedError(
                f"how sites differ in this measure was not asked for; plan with "
                f"heterogeneity={name!r}"
            )
        return self.spreads[name]

    def sentences(self, result: Evaluation) -> tuple[str, ...]:
        """Return what stands below the tables."""
        lines: list[str] = []
        if self.random_groups is not None:
            lines += self.random_groups.sentences(result.metrics)
        lines += [spread.sentence() for spread in self.spreads.values()]
        if self.within is not None:
            lines.append(self._within_sentence(self.within, result))
        return (*lines, *self._cluster_sentences(result))

    def _within_sentence(self, within: WithinSums, result: Evaluation) -> str:
        by_pairs, by_size = within.by_pairs(), within.by_size()
        if math.isnan(by_pairs[0]):
            return "No site has both classes: there are no pairs within sites."
        pairs, sizes = (
            f"{mean[0]:.4f} [{low:.4f}, {high:.4f}]"
            for mean in (by_pairs, by_size)
            for low, high in [_ends(*mean)]
        )
        pooled = ""
        if "auc" in result.metrics:
            pooled = (
                f"; over all pairs, also of two sites, it is {result.auc.value:.4f}"
            )
        return (
            f"Within a site, the AUC is {pairs} by pairs and {sizes} by size{pooled}."
        )

    def _cluster_sentences(self, result: Evaluation) -> list[str]:
        """Return each metric's interval over clusters, where they were added up."""
        if self.clusters is None:
            return []
        kind, intervals = self.clusters.kind, []
        for name, estimate in result.metrics.items():
            if estimate.clustered is not None:
                low, high = estimate.interval(cluster=kind)
                intervals.append(f"{METRICS[name].title} [{low:.4f}, {high:.4f}]")
        if not intervals:
            return []
        return [f"If rows of one {kind} are alike (95%): {', '.join(intervals)}."]

    def to_dict(self, metrics: Sequence[str] = ()) -> dict[str, Any]:
        """Return plain values for JSON, by the document's keys; none where none apply."""
        values: dict[str, Any] = {}
        if self.random_groups is not None:
            values["random_groups"] = self.random_groups.to_dict(metrics)
        if not self.spreads and self.within is None:
            return values
        table: dict[str, Any] = {
            "effects": {name: s.to_dict() for name, s in self.spreads.items()}
        }
        if self.within is not None:
            table["within_site"] = {
                "by_pairs": _plain(*self.within.by_pairs()),
                "by_size": _plain(*self.within.by_size()),
            }
        return values | {"heterogeneity": table}

    def rows(self, name: str, result: Evaluation) -> list[tuple[str, float, Interval]]:
        """Return the mean site's value, a new site's, that of pairs within, the pooled.

        Each with its interval; a new site has no value. Empty where nothing can be said.
        ``name`` is a key of ``spreads``.
        """
        spread = self[name]
        if spread.refusal or result.fit.refusal:
            return []
        rows = [
            ("The mean site", spread.mean, spread.interval()),
            ("A new site", math.nan, spread.prediction()),
        ]
        if name != "auc":
            return rows
        if self.within is not None and self.within.pairs > 0:
            value, sd = self.within.by_pairs()
            rows.append(("Pairs within a site", value, _ends(value, sd)))
        pooled = result.metrics["auc"]
        return [*rows, ("All sites pooled", pooled.value, pooled.interval())]


def heterogeneity_of(revealed: RevealedRound) -> Heterogeneity:
    """Return how sites differ, as far as the plan asked for it."""
    statistic = revealed.statistic
    if not isinstance(statistic, SiteSums):
        return Heterogeneity()
    exact = revealed.noise.scale == 0
    spreads = {}
    if statistic.effects:
        each = 0.0 if exact else cell_variance(noise_of_block(revealed.noise, 1))
        for terms, numbers in statistic.cut(revealed.counts).items():
            matrix = terms.sums()
            sums = AnchoredSums.of_numbers(terms.totals(numbers), terms.anchor)
            if exact:
                sums = replace(sums, sites=float(round(sums.sites)))
            effects = RandomEffects(sums, None if exact else each * (matrix @ matrix.T))
            spreads[terms.key] = SiteSpread(terms, effects, revealed.contributors)
    within = clusters = None
    if statistic.within:
        within = WithinSums.decoded(statistic.pair_sums(revealed.counts))
    if statistic.clusters is not None:
        numbers = statistic.cluster_sums(revealed.counts)
        products = decoded_products(statistic.clusters, numbers)
        clusters = ClusterProducts(statistic.clusters, products, revealed.contributors)
    return Heterogeneity(spreads, within, clusters)


def inverse(link: Link, value: float) -> float:
    """Return from the scale of the sum to the measure's own."""
    match link:
        case "logit":
            return 1.0 / (1.0 + math.exp(-value))
        case "log":
            return math.exp(value)
        case "identity":
            return value


def _ends(value: float, sd: float) -> Interval:
    return Interval(max(value - _Z * sd, 0.0), min(value + _Z * sd, 1.0))


def _plain(value: float, sd: float) -> dict[str, Any]:
    if math.isnan(value):
        return {"value": None, "interval95": [None, None]}
    return {"value": value, "interval95": list(_ends(value, sd))}


def _range(values: Sequence[float]) -> Interval:
    known = [v for v in values if not math.isnan(v)]
    return Interval(min(known), max(known)) if known else Interval(math.nan, math.nan)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def own_view(plan: Plan, examples: Examples, result: Mapping[str, Any]) -> list[str]:
    """Say for each effect of a plan where this site stands among the others.

    Args:
        plan: the plan that was carried out.
        examples: this site's data, which stay here.
        result: the revealed result as ``to_dict`` or a JSON file gives it.
    """
    statistic = plan.statistic
    if not isinstance(statistic, SiteSums) or not statistic.effects:
        raise InputError(
            "this plan says nothing about how sites differ: make it with --heterogeneity auc"
        )
    if result.get("plan_digest") != plan.digest().hex():
        raise InputError("this result is of another plan")
    try:
        spreads = result["heterogeneity"]["effects"]
        return [
            _sentence(statistic, terms, examples, result, spreads[terms.key])
            for terms in statistic.effects
        ]
    except (KeyError, TypeError):
        raise InputError("this file is no result of discreet, as JSON") from None


def _sentence(
    statistic: SiteSums,
    terms: EffectTerms,
    examples: Examples,
    result: Mapping[str, Any],
    spread: Mapping[str, Any],
) -> str:
    counts = statistic.inner.count(examples).astype(np.float64)
    halves = statistic.inner.split(counts)
    if min(float(half.sum()) for half in halves) < terms.fewest:
        return (
            f"Your {terms.title} cannot be estimated: there are fewer than "
            f"{terms.fewest} examples of a class."
        )
    effect = terms.row.of(statistic.edges, halves, terms.at)
    reach = _Z * math.sqrt(effect.variance)
    own, low, high = (
        inverse(terms.row.link, effect.value + d) for d in (0.0, -reach, reach)
    )
    own_value = f"Your {terms.title} is {own:.2f} [{low:.2f}, {high:.2f}]"
    if spread["refusal"] is not None:
        return (
            f"{own_value}; of the consortium nothing can be said: {spread['refusal']}."
        )
    pooled = ""
    if terms.effect == "auc":
        pooled = f"the consortium's {result['metrics']['auc']['value']:.2f} pooled and "
    least, most = spread["prediction95"]
    where = "inside" if least <= own <= most else "outside"
    return (
        f"{own_value}; {pooled}{spread['mean']:.2f} at the mean site, where a new site's is "
        f"expected {least:.2f} to {most:.2f}: {where}."
    )
