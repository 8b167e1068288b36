"""Two models on the same examples: one plan, one release, one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from discreet.data.edges import EdgeRule, Edges, Listed
from discreet.entropy import SYSTEM, Entropy
from discreet.errors import InputError
from discreet.plan.bins import bins_for, spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Round
from discreet.privacy.claim import Setting
from discreet.report.build import named
from discreet.report.comparison import ModelComparison
from discreet.report.group_comparison import GroupedComparison
from discreet.statistic import Paired, PairedInGroups
from discreet.transport.inputs import (
    ColumnNames,
    Sources,
    check_weights,
    followup_of,
    is_one_source,
    model_of,
    sites_of,
)
from discreet.transport.per_site import own_groups
from discreet.transport.simulation import carried_out, check_grouped, checked_groups
from discreet.vocabulary import understood

if TYPE_CHECKING:
    from discreet.report.timed import TimedEvaluations

EXACT_JOINT_BINS: Final = 64
FEWEST_JOINT_BINS: Final = 5
_FEWER: Final = 3.6
"""Joint bins are so many times fewer than one histogram's under the same noise."""


class Choices(ColumnNames, total=False):
    """The keywords of ``compare`` that do not decide what it returns."""

    privacy: PrivacyModel | str | None
    epsilon: float | str | None
    delta: float | str | None
    form: Literal["marginals", "joint"]
    examples: int | None
    prevalence: float | None
    names: tuple[str, str] | None
    cuts: Sequence[float] | None
    intervals: int | None
    censoring: float | None
    entropy: Entropy


@overload
def compare(
    sites: Sources | Any,
    *,
    groups: None = ...,
    horizons: None = ...,
    **choices: Unpack[Choices],
) -> ModelComparison: ...


@overload
def compare(
    sites: Sources | Any,
    *,
    horizons: Sequence[float],
    **choices: Unpack[Choices],
) -> TimedEvaluations: ...


@overload
def compare(
    sites: Sources | Any,
    *,
    groups: Sequence[str] | None = ...,
    horizons: None = ...,
    **choices: Unpack[Choices],
) -> ModelComparison | GroupedComparison: ...


@overload
def compare(
    sites: Sources | Any,
    *,
    groups: Sequence[str] | None = ...,
    horizons: Sequence[float] | None,
    **choices: Unpack[Choices],
) -> ModelComparison | GroupedComparison | TimedEvaluations: ...


@understood
def compare(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sources | Any,
    *,
    privacy: PrivacyModel | str | None = None,
    epsilon: float | str | None = None,
    delta: float | str | None = None,
    form: Literal["marginals", "joint"] = "joint",
    examples: int | None = None,
    prevalence: float | None = None,
    names: tuple[str, str] | None = None,
    groups: Sequence[str] | None = None,
    horizons: Sequence[float] | None = None,
    cuts: Sequence[float] | None = None,
    intervals: int | None = None,
    censoring: float | None = None,
    entropy: Entropy = SYSTEM,
    **columns: Unpack[ColumnNames],
) -> ModelComparison | GroupedComparison | TimedEvaluations:
    """Compare the AUCs of two models whose scores are two columns of each site.

    ``joint`` counts pairs of bins (L1 sensitivity 1) and knows how the models' errors
    go together, which decides what a difference is worth; under noise it has few bins,
    and each model's own metrics are coarser than an evaluation's. ``marginals`` counts
    each model apart (L1 sensitivity 2) and treats their errors as uncorrelated, which
    is careful: models that err alike differ less. ``names`` are what the result calls
    the two models: by default their columns, ``score=[first, second]``. ``groups`` are
    names of disjoint groups in the column ``group=`` (of one frame of one's own, by
    default those in it): the result then has the
    differences within each group, and over all of them, from one release of the same
    sensitivity. Sites are given as to ``evaluate``.

    Of time to event, with ``horizons`` as in ``evaluate``, each model has a table of its
    own (L1 sensitivity 2), whatever the form.

    >>> import numpy as np
    >>> from discreet import Examples
    >>> rng = np.random.default_rng(1)
    >>> y = rng.random(20_000) < 0.3
    >>> good, poor = (1 / (1 + np.exp(-rng.normal(y * d, 1))) for d in (2.0, 0.5))
    >>> site = Examples(np.column_stack([good, poor]), y)
    >>> compare([site]).verdict()[:21]
    'a is better than b (a'
    """
    own = privacy is None and is_one_source(sites)
    sites = sites_of(sites, classes=None, columns=columns)
    check_weights(sites)
    if own and groups is None and horizons is None:
        groups = own_groups(sites[0])
    groups = checked_groups(sites, groups)
    if any(site.columns != 2 for site in sites):
        raise InputError(
            "a comparison needs sites with two score columns, one a model: "
            "score=[first, second]"
        )
    called: Sequence[str] = names or _called(columns)
    if isinstance(called, str) or len(called) != 2 or called[0] == called[1]:
        raise InputError(
            "two models need two different names, in the order of their scores: "
            "names=('new', 'old')"
        )
    first, second = called
    model = model_of(privacy, epsilon, delta)
    facts = PublicFacts(examples, prevalence, sites[0].scores, censoring)
    cohort = model.cohort(len(sites))
    setting: Setting = "own data" if own else "simulated"
    followup = followup_of(sites, horizons, cuts, intervals, models=True)
    if followup is not None and groups is not None:
        raise InputError("time to event of two models is compared without groups")
    if followup is not None:
        timed = recommend(facts, model, followup=followup, cohort=cohort)
        tables: TimedEvaluations = named(
            carried_out(timed, sites, entropy=entropy, setting=setting), (first, second)
        )
        return tables
    inverse_scale = model.inverse_scale(cohort, cells=1 if form == "joint" else 2)
    if form == "joint":
        rule = _joint_rule(facts, inverse_scale)
    else:
        rule = spread_over(bins_for(facts, inverse_scale), facts)
    edges = Edges.realise(rule, facts.scores)
    base = recommend(facts, model, cohort=cohort, edges=rule, thresholds=())
    statistic = Paired(edges, edges, form)
    if groups is not None:
        statistic = PairedInGroups(edges, edges, form, tuple(groups))
    plan = replace(base, rounds=(Round(statistic),))
    check_grouped(sites, groups)
    result = carried_out(plan, sites, entropy=entropy, setting=setting)
    compared: ModelComparison | GroupedComparison = named(result, (first, second))
    return compared


def _called(columns: ColumnNames) -> tuple[str, str]:
    score = columns.get("score", ())
    return ("a", "b") if isinstance(score, str) or not score else (score[0], score[1])


def _joint_rule(facts: PublicFacts, inverse_scale: float | None) -> EdgeRule:
    """Return few bins: every pair of them carries noise.

    Bins beyond the farthest edges, which one histogram can afford, would make a third
    of all pairs and hold next to nothing: they are joined to their neighbours.
    """
    if inverse_scale is None:
        return spread_over(EXACT_JOINT_BINS, facts)
    bins = max(round(bins_for(facts, inverse_scale) / _FEWER), FEWEST_JOINT_BINS)
    if facts.scores.kind == "other":
        return spread_over(bins, facts)
    values = Edges.realise(spread_over(bins + 2, facts), facts.scores).values
    return Listed((values[0], *values[2:-2], values[-1]))
