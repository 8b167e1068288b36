"""The whole federation in one process: sites count, counts are added."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from discreet.codec.parsing import whole
from discreet.data.edges import EdgeRule
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import IgnoredWarning, InputError
from discreet.estimate.curves import Interpolation
from discreet.estimate.fit import Estimator, WithStatistic
from discreet.label.rank_terms import RankSumTerms
from discreet.label.response_keys import ResponseKeys
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.heterogeneity import HeterogeneityQuestion
from discreet.plan.plan import ModelRef, Plan
from discreet.plan.privacy_model import PrivacyModel
from discreet.plan.rounds import Multiclass, Question, Round
from discreet.privacy.claim import Setting
from discreet.report.build import Result, result_of
from discreet.report.evaluation import Evaluation
from discreet.report.several import MultiEvaluation
from discreet.secagg.graph import FEWEST_GROUPS
from discreet.session.respond import check_scored
from discreet.statistic.rank_sums import RankSums
from discreet.transport.in_process import Aggregation, simulate
from discreet.transport.inputs import (
    ColumnNames,
    Scorer,
    Sources,
    all_examples,
    check_group_names,
    check_weights,
    followup_of,
    is_one_source,
    model_of,
    numbers,
    sites_of,
)
from discreet.transport.per_site import OWN_BINS, sites_and_rows
from discreet.vocabulary import understood

if TYPE_CHECKING:
    from discreet.report.timed import TimedEvaluations
    from discreet.report.timed_evaluation import TimedEvaluation


class Choices(ColumnNames, total=False):
    """The keywords of ``evaluate`` that do not decide what it returns."""

    privacy: PrivacyModel | str | None
    epsilon: float | str | None
    delta: float | str | None
    model: Any
    name: str
    examples: int | None
    prevalence: float | None
    thresholds: Sequence[float] | None
    edges: EdgeRule | None
    interpolation: Interpolation | None
    method: WithStatistic | None
    multiclass: Multiclass
    scores: Sequence[str] | None
    weight: str | None
    max_weight: int | None
    pilot: bool
    max_examples_per_site: int | None
    random_groups: int | None
    heterogeneity: HeterogeneityQuestion | Sequence[str] | bool
    cuts: Sequence[float] | None
    intervals: int | None
    censoring: float | None
    aggregation: Aggregation
    progress: Callable[[int], None] | None


@overload
def evaluate(
    sites: Sources | Any,
    *,
    classes: None = ...,
    groups: None = ...,
    horizons: None = ...,
    labels: None = ...,
    site: None = ...,
    per_site: Literal[False] | None = ...,
    **choices: Unpack[Choices],
) -> Evaluation: ...


@overload
def evaluate(
    sites: Sources | Any,
    *,
    groups: None = ...,
    horizons: Sequence[float],
    **choices: Unpack[Choices],
) -> TimedEvaluation: ...


@overload
def evaluate(
    sites: Sources | Any,
    *,
    groups: Sequence[str],
    horizons: Sequence[float],
    **choices: Unpack[Choices],
) -> TimedEvaluations: ...


@overload
def evaluate(
    sites: Sources | Any,
    *,
    classes: Sequence[str] | None = ...,
    groups: Sequence[str] | None = ...,
    horizons: None = ...,
    labels: Sequence[str] | None = ...,
    site: str | None = ...,
    per_site: bool | None = ...,
    **choices: Unpack[Choices],
) -> MultiEvaluation: ...


@overload
def evaluate(
    sites: Sources | Any,
    *,
    classes: Sequence[str] | None = ...,
    groups: Sequence[str] | None = ...,
    horizons: Sequence[float] | None = ...,
    labels: Sequence[str] | None = ...,
    site: str | None = ...,
    per_site: bool | None = ...,
    **choices: Unpack[Choices],
) -> Result: ...


@understood
def evaluate(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sources | Any,
    *,
    site: str | None = None,
    per_site: bool | None = None,
    labels: Sequence[str] | None = None,
    scores: Sequence[str] | None = None,
    privacy: PrivacyModel | str | None = None,
    epsilon: float | str | None = None,
    delta: float | str | None = None,
    model: Any = None,
    name: str = "",
    examples: int | None = None,
    prevalence: float | None = None,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    interpolation: Interpolation | None = None,
    method: WithStatistic | None = None,
    classes: Sequence[str] | None = None,
    multiclass: Multiclass = "ovr",
    groups: Sequence[str] | None = None,
    weight: str | None = None,
    max_weight: int | None = None,
    pilot: bool = False,
    max_examples_per_site: int | None = None,
    random_groups: int | None = None,
    heterogeneity: HeterogeneityQuestion | Sequence[str] | bool = False,
    horizons: Sequence[float] | None = None,
    cuts: Sequence[float] | None = None,
    intervals: int | None = None,
    censoring: float | None = None,
    aggregation: Aggregation = "plain",
    progress: Callable[[int], None] | None = None,
    **columns: Unpack[ColumnNames],
) -> Result:
    """Evaluate the pooled data of several sites in one process.

    The plan is made from the arguments alone; each site then counts, and only
    the sum of the counts is evaluated.

    Args:
        sites: a list of the sites' Examples, frames or paths, or a mapping of the
            sites' names to them; or one frame or file. Where no privacy model is
            named, one frame is your own data, of which nothing has to be hidden.
        site: the column of one frame that says at which site a row is: the result has
            one row per site, a pooled row, and what a new site can expect.
        per_site: whether every site has a row. Under a privacy model such rows are
            further results, released and charged for when you say True; False says
            that the pooled result is all you want.
        labels: names of the label columns of examples that have several: one result
            each, from one release.
        scores: the score column of each label, in the same order.
        privacy: the privacy model, or its name beside ``epsilon``; exact sums by
            default. ``LabelDP`` gives the AUC alone unless its mechanism releases
            curves, ``ExactMPC`` the areas alone.
        epsilon: the loss of a privacy model that is given by its name.
        delta: likewise.
        model: scores the sites' rows of features: a path to an ONNX file, a
            ``ModelFile``, or in a simulation any object with ``predict_proba``. Without
            it the sites have a column of scores.
        name: what the measured model is called.
        examples: public: roughly how many examples there are in all.
        prevalence: public: roughly which share of them is positive.
        thresholds: decision thresholds to report; they become bin edges.
        edges: how scores are binned; by default chosen from the public facts.
        interpolation: ``linear`` (scikit-learn on the binned scores) or
            ``pchip``; by default chosen from the release.
        method: a published method to compare with, ``FedCurve(...)`` or
            ``RangeQueries(...)``: the plan then releases the tree that it reads.
        classes: names of the classes of a multi-class problem: one result each.
        multiclass: ``ovr``, or ``ovo`` to release what pairs of classes need.
        groups: names of disjoint groups: one result each.
        weight: the column of frames and files that says how much a row counts.
        max_weight: public: the largest weight. Weights are whole numbers from 0 to it;
            under noise one example may then move the counts by as much.
        pilot: under noise, spend 5 to 20% of the budget on a pilot round that estimates
            where the scores lie, and place the bins there.
        max_examples_per_site: public: no site has more. The result then says how far
            one malicious site can move each metric.
        random_groups: split the sites at random into so many groups with a sum each,
            and show how the groups differ: one malicious site is in only one of them.
        heterogeneity: whether to say how sites differ, and what a new site can expect;
            names of measures, or a ``HeterogeneityQuestion``, say of what.
        horizons: of time to event, with ``time=`` and ``event=`` columns: public times at
            which risks and areas are wanted. Probabilities are of the last one, or give a
            score column for each. ``prevalence`` is then the share of events by it.
        cuts: all ends of the time intervals; by default chosen from the public facts.
        intervals: how many intervals to choose.
        censoring: public: roughly which share leaves before the last horizon without an
            event.
        aggregation: ``plain`` adds the vectors; ``secagg`` runs the real protocol,
            every site and the coordinator in this process.
        progress: called with the number of sites that have answered.
        columns: where frames and files keep labels, scores, groups and subjects, and
            what the scores are: the keywords of ``discreet.read``.

    Classes or groups give several evaluations by name, everything else one.

    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 20_000)
    >>> north = Examples(scores, scores > 0.3)
    >>> south = Examples(scores, scores > 0.7)
    >>> result = evaluate([north, south])
    >>> round(result.auc.value, 3), result.source.releases[0].contributors
    (0.92, 2)
    """
    named = privacy is not None
    own = not named and is_one_source(sites)
    private = model_of(privacy, epsilon, delta)
    columns = _with_labels(columns, labels, scores, read=not all_examples(sites))
    scorer = None
    if model is not None:
        scorer, columns = Scorer.of(model, classes=classes, columns=columns)
    sites, groups = sites_and_rows(
        sites,
        private,
        named=named,
        site=site,
        per_site=per_site,
        groups=groups,
        classes=classes,
        columns=columns,
        weight=weight,
        scorer=scorer,
    )
    check_weights(sites, max_weight)
    groups = checked_groups(sites, groups)
    if random_groups is not None:
        whole(random_groups, "the number of random groups", least=FEWEST_GROUPS)
        if random_groups > len(sites):
            raise InputError(
                f"{random_groups} random groups need at least as many sites, got "
                f"{len(sites)}"
            )
    followup = followup_of(sites, horizons, cuts, intervals)
    facts = PublicFacts(examples, prevalence, sites[0].scores, censoring)
    if own and edges is None and not pilot and followup is None:
        edges = spread_over(OWN_BINS, facts)
    question = Question(
        facts,
        numbers("thresholds", thresholds, "0.5"),
        edges,
        None if classes is None else tuple(classes),
        multiclass,
        None if groups is None else tuple(groups),
        HeterogeneityQuestion.asked(heterogeneity),
        max_weight,
        pilot,
        followup,
        None if labels is None else tuple(labels),
    )
    # Every group's sum is revealed by itself: the noise must suffice in the smallest.
    together = sites if random_groups is None else sites[: len(sites) // random_groups]
    plan = private.plan_for(question, together)
    cohort = replace(
        plan.cohort,
        max_examples_per_site=max_examples_per_site,
        random_groups=random_groups or 1,
    )
    ref = ModelRef(name) if name else plan.model
    plan = replace(plan, cohort=cohort, model=scorer.ref(name) if scorer else ref)
    if followup is not None and (method or interpolation):
        raise InputError(
            "a published method and an interpolation are of two classes, not of time to "
            "event: leave out method= and interpolation="
        )
    if method is not None:
        plan = replace(plan, rounds=(Round(method.hierarchy()),))
    fitted_by = None if interpolation is None else plan.privacy.estimator(interpolation)
    check_grouped(sites, groups)
    return carried_out(
        plan,
        sites,
        estimator=fitted_by or method,
        aggregation=aggregation,
        progress=progress,
        setting="own data" if own else "simulated",
    )


def _with_labels(
    columns: ColumnNames,
    labels: Sequence[str] | None,
    scores: Sequence[str] | None,
    *,
    read: bool,
) -> ColumnNames:
    """Return the columns with those of several labels, where sources are ``read``."""
    if labels is None and scores is None:
        return columns
    if labels is None:
        raise InputError(
            "scores= names the score column of each of several labels=: give both, or "
            "score= for one label"
        )
    if isinstance(labels, str) or isinstance(scores, str):
        raise InputError(
            "labels= and scores= are lists of columns; of one label label= names the "
            "column and score= its scores"
        )
    if "label" in columns or "score" in columns:
        raise InputError(
            "labels= and scores= take the place of label= and score=: leave these out"
        )
    if scores is None and read:
        raise InputError(
            "name the score column of each label with scores=[...], in the order of "
            "labels="
        )
    if scores is None or not read:
        return columns
    return {**columns, "label": tuple(labels), "score": tuple(scores)}


def checked_groups(
    sites: Sequence[Examples], groups: Sequence[str] | None
) -> Sequence[str] | None:
    """Say when groups are there and nobody asks; an empty list: do not group."""
    if isinstance(groups, str):
        raise InputError(_GROUPS)
    check_group_names(groups)
    if groups is None and any(site.grouped for site in sites):
        first = sites[0]
        remedy = "name them with groups=[...], or give"
        if first.timed and first.columns > 1:
            remedy = "with time to event they need one score column; give"
        warnings.warn(
            f"the sites' groups are not used: {remedy} groups=[] to evaluate all "
            "examples together",
            IgnoredWarning,
            stacklevel=4,
        )
    return groups or None


_GROUPS: Final = (
    "groups= lists the names of groups, groups=['f', 'm'], and group= names the column "
    "that holds them, group='sex'"
)


def check_grouped(sites: Sequence[Examples], groups: Sequence[str] | None) -> None:
    """Refuse names of groups where no column holds them."""
    if groups and not all(site.grouped for site in sites):
        raise InputError(_GROUPS)


def check_sites(sites: Sequence[Examples]) -> None:
    """Refuse what is no list of sites that can be pooled."""
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if not sites:
        raise InputError("there are no sites: give at least one")
    if len({site.scores for site in sites}) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    check_weights(sites)


@understood
def run(
    plan: Plan,
    sites: Sources,
    *,
    entropy: Entropy = SYSTEM,
    estimator: Estimator | None = None,
    aggregation: Aggregation = "plain",
    response_keys: Sequence[ResponseKeys] | None = None,
    progress: Callable[[int], None] | None = None,
    model: str | Path | None = None,
    **columns: Unpack[ColumnNames],
) -> Result:
    """Carry out a plan, made by ``recommend`` or read from a file, in one process.

    Args:
        plan: what is asked.
        sites: a source for each site: ``Examples``, frames, or paths.
        entropy: secret bytes; only tests give other ones.
        estimator: fits the release; by default the privacy model's own.
        aggregation: ``"secagg"`` adds the vectors up by the real protocol.
        response_keys: what each site keeps from one evaluation to the next under
            randomized response: with it, a second model on the same labels costs
            nothing more.
        progress: called with the number of sites that have sent their counts.
        model: the file that the plan names, where it says that sites score with it.
        **columns: names of columns, as in ``evaluate``.

    >>> import discreet
    >>> scores = [k / 1000 for k in range(1000)]
    >>> sites = [discreet.Examples(scores, [s > 0.7 for s in scores]) for _ in range(3)]
    >>> facts = discreet.PublicFacts(examples=3000, prevalence=0.3)
    >>> plan = discreet.recommend(facts, discreet.DistributedDP(epsilon=4))
    >>> discreet.run(plan, sites).auc.value > 0.97
    True
    """
    if model is not None:
        classes = getattr(plan.statistic, "classes", None)
        scorer, columns = Scorer.of(model, classes=classes, columns=columns, plan=plan)
        sites = sites_of(sites, classes=classes, columns=columns, scorer=scorer)
    else:
        sites = sites_of(sites, classes=None, columns=columns)
    return carried_out(
        plan,
        sites,
        entropy=entropy,
        estimator=estimator,
        aggregation=aggregation,
        response_keys=response_keys,
        progress=progress,
    )


def carried_out(
    plan: Plan,
    sites: Sequence[Examples],
    *,
    entropy: Entropy = SYSTEM,
    estimator: Estimator | None = None,
    aggregation: Aggregation = "plain",
    response_keys: Sequence[ResponseKeys] | None = None,
    progress: Callable[[int], None] | None = None,
    setting: Setting = "simulated",
) -> Result:
    """Carry out a plan over these sites; ``setting`` is what the claim says of it."""
    for site in sites:
        plan.statistic.check_followed(site)
        check_scored(plan, site)
    own: Result | None = plan.protocol.run(plan, sites, entropy=entropy)
    if own is not None:
        return own
    kept = response_keys
    if kept is None and plan.privacy.keeps_keys:
        kept = ResponseKeys.of_sites(len(sites), entropy)
    if isinstance(entropy, Seeded):
        setting = "seeded"
    smallest = len(sites) // plan.cohort.random_groups
    claim = plan.claim(setting, sites=smallest)
    if isinstance(plan.statistic, RankSums):
        if aggregation == "secagg":
            plan = _summed(plan, plan.statistic)
        told = plan.privacy.colluders_in(plan.cohort)
        terms = RankSumTerms.of(plan.statistic, plan.privacy.loss, colluders=told)
        if terms.summed:
            claim = terms.claim(setting)
    releases = simulate(
        plan,
        sites,
        entropy=entropy,
        aggregation=aggregation,
        response_keys=kept,
        progress=progress,
    )
    return result_of(
        plan,
        releases,
        claim,
        estimator=estimator,
        site_names=[site.name for site in sites],
    )


def _summed(plan: Plan, sums: RankSums) -> Plan:
    """Return a plan of rank sums with one noisy sum over all sites.

    It is for simulations: between separate sites no plan asks for it.
    """
    return replace(plan, rounds=(Round(replace(sums, aggregation="secagg")),))
