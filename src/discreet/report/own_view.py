"""A site's own view: its local values beside the opened ones. Nothing leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from discreet.data.examples import Examples
from discreet.errors import InputError
from discreet.plan.plan import Plan
from discreet.report.heterogeneity import inverse
from discreet.statistic.effect_terms import EffectTerms
from discreet.statistic.site_sums import SiteSums

_Z: Final = 1.959963984540054


def own_view(plan: Plan, examples: Examples, opened: Mapping[str, Any]) -> list[str]:
    """Say for each effect of a plan where this site stands among the others.

    Args:
        plan: the plan that was carried out.
        examples: this site's data, which stay here.
        opened: the result as ``to_dict`` or a JSON file gives it.
    """
    statistic = plan.statistic
    if not isinstance(statistic, SiteSums) or not statistic.effects:
        raise InputError(
            "this plan says nothing about how sites differ: make it with --heterogeneity auc"
        )
    if opened.get("plan_digest") != plan.digest().hex():
        raise InputError("this result is of another plan")
    try:
        spreads = opened["heterogeneity"]["effects"]
        return [
            _sentence(statistic, terms, examples, opened, spreads[terms.key])
            for terms in statistic.effects
        ]
    except (KeyError, TypeError):
        raise InputError("this file is no result of discreet, as JSON") from None


def _sentence(
    statistic: SiteSums,
    terms: EffectTerms,
    examples: Examples,
    opened: Mapping[str, Any],
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
    said = f"Your {terms.title} is {own:.2f} [{low:.2f}, {high:.2f}]"
    if spread["refusal"] is not None:
        return f"{said}; of the consortium nothing can be said: {spread['refusal']}."
    pooled = ""
    if terms.effect == "auc":
        pooled = f"the consortium's {opened['metrics']['auc']['value']:.2f} pooled and "
    least, most = spread["prediction95"]
    where = "inside" if least <= own <= most else "outside"
    return (
        f"{said}; {pooled}{spread['mean']:.2f} at the mean site, where a new site's is "
        f"expected {least:.2f} to {most:.2f}: {where}."
    )
