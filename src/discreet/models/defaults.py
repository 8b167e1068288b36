"""A plan from public facts alone: which bins, how many rounds, which thresholds.

Nothing here sees examples. The rules are written down, and a plan records what
they chose, so that everybody can check it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from discreet.data.edges import EdgeRule, Edges, Uniform, Warped
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError
from discreet.models.privacy_models import (
    DistributedDP,
    LabelDP,
    LocalDP,
    PrivacyModel,
    SecureAggregation,
    epsilon_of,
)
from discreet.plan.plan import (
    METRICS,
    Cohort,
    Metric,
    ModelRef,
    Plan,
    PlannedStatistic,
    PublicFacts,
    Round,
)
from discreet.statistic import (
    ClassHistogram,
    EquiDepthFrom,
    Grouped,
    Hierarchy,
    OneVsOne,
    OneVsRest,
)

EXACT_BINS: Final = 1024
"""Bins under exact sums: the binning error is far below the sampling error."""
BLIND_BINS: Final = 32
"""Bins under noise when nothing is known in public about the size of the data."""
ARC_BINS: Final = 32
UNARY_BINS: Final = 10
LEVELS: Final = 7
"""Height of the papers' tree for 32 quantiles."""
FIRST_ROUND: Final = Fraction(1, 5)
"""Share of the budget that finds out where unknown scores are."""
FIRST_BRANCHING: Final = 64
_FEWEST_BINS: Final = 14
_MOST_BINS: Final = 96

Multiclass: TypeAlias = Literal["ovr", "ovo"]


def recommend(  # noqa: PLR0913 - every public choice is a keyword
    facts: PublicFacts,
    privacy: PrivacyModel,
    *,
    thresholds: Sequence[float] | None = None,
    edges: EdgeRule | None = None,
    classes: Sequence[str] | None = None,
    multiclass: Multiclass = "ovr",
    groups: Sequence[str] | None = None,
    cohort: Cohort | None = None,
    model: ModelRef | None = None,
) -> Plan:
    """Choose a plan from public facts. It never sees examples.

    >>> plan = recommend(PublicFacts(), SecureAggregation())
    >>> len(plan.statistic.edges), plan.thresholds
    (1024, (0.5,))
    >>> facts = PublicFacts(examples=32_000, prevalence=0.25)
    >>> len(recommend(facts, DistributedDP(epsilon=1)).statistic.edges)
    38
    """
    if isinstance(privacy, LabelDP) and not (classes is groups is None):
        raise PlanError("label privacy counts two classes and no groups")
    chosen = default_thresholds(facts.scores) if thresholds is None else thresholds
    cohort = cohort or default_cohort(privacy)
    # The cohort is the plan's; a model that also held it could contradict it.
    if isinstance(privacy, DistributedDP):
        privacy = replace(privacy, min_survivors=None, colluders=0)
    cells = len(classes) if classes is not None else 1
    signal = noise_signal(privacy, cohort, cells=cells)
    if _needs_two_rounds(facts, privacy, edges) and classes is groups is None:
        tree = Hierarchy(
            Edges.realise(Uniform(FIRST_BRANCHING**2), facts.scores), FIRST_BRANCHING
        )
        bins = bins_for(facts, None if signal is None else signal * 0.8)
        adaptive = EquiDepthFrom(tree, bins, tuple(float(t) for t in chosen))
        rounds = (Round(tree, FIRST_ROUND), Round(adaptive, 1 - FIRST_ROUND))
        return _plan(privacy, rounds, chosen, facts, cohort, model)
    if isinstance(privacy, LocalDP) and privacy.mechanism == "levels":
        if classes is not None or groups is not None or edges is not None:
            raise PlanError("the levels mechanism counts two classes over its own tree")
        leaves = Edges.realise(Uniform(2**LEVELS), facts.scores)
        levels = (Round(Hierarchy(leaves)),)
        return _plan(privacy, levels, chosen, facts, cohort, model)
    rule = edges or default_edges(facts, privacy, signal)
    realised = Edges.realise(rule, facts.scores, thresholds=chosen)
    statistic: PlannedStatistic
    if classes is not None and groups is not None:
        raise PlanError("classes and groups cannot be combined in one plan")
    if classes is not None:
        kind = OneVsRest if multiclass == "ovr" else OneVsOne
        statistic = kind(realised, tuple(classes))
    elif groups is not None:
        statistic = Grouped(ClassHistogram(realised), tuple(groups))
    else:
        statistic = ClassHistogram(realised)
    return _plan(privacy, (Round(statistic),), chosen, facts, cohort, model)


def _plan(
    privacy: PrivacyModel,
    rounds: tuple[Round, ...],
    thresholds: Sequence[float],
    facts: PublicFacts,
    cohort: Cohort,
    model: ModelRef | None,
) -> Plan:
    metrics: frozenset[Metric] = frozenset(METRICS)
    if facts.scores.kind == "other":
        metrics -= {"brier"}
    return Plan(
        privacy=privacy,
        rounds=rounds,
        thresholds=tuple(float(t) for t in thresholds),
        metrics=metrics,
        facts=facts,
        cohort=cohort,
        model=model or ModelRef(),
    )


def default_cohort(privacy: PrivacyModel) -> Cohort:
    """Return the cohort that a model asks for; one honest survivor if it does not."""
    if isinstance(privacy, DistributedDP):
        colluders = privacy.colluders
        return Cohort(privacy.min_survivors or colluders + 1, colluders)
    return Cohort()


def noise_signal(privacy: PrivacyModel, cohort: Cohort, *, cells: int) -> float | None:
    """Return the inverse of the noise's scale in a count, None without noise.

    ``cells`` is how many counts one example enters: K for K classes.
    """
    epsilon = epsilon_of(privacy)
    if epsilon is None:
        return None
    unit = privacy.protects
    reach = cells * (1 if unit is None else unit.examples)
    several = 1.0
    if isinstance(privacy, LocalDP):  # every site adds noise of its own
        several = math.sqrt(cohort.min_survivors)
    return float(epsilon) / (reach * several)


def _needs_two_rounds(
    facts: PublicFacts, privacy: PrivacyModel, edges: EdgeRule | None
) -> bool:
    """Whether nothing public says where the scores lie, and noise hides a look."""
    noisy = isinstance(privacy, DistributedDP) and not privacy.delta
    return edges is None and facts.scores.kind == "other" and noisy


def default_edges(
    facts: PublicFacts, privacy: PrivacyModel, signal: float | None
) -> EdgeRule:
    """Return the bins for this kind of scores and noise."""
    match privacy:
        case SecureAggregation():
            bins = EXACT_BINS
        case LocalDP(mechanism="arc"):
            bins = ARC_BINS
        case LocalDP(mechanism="unary"):
            bins = UNARY_BINS
        case LabelDP():
            raise PlanError(
                "under label privacy the edges come from the public scores: use "
                "discreet.evaluate, or give edges"
            )
        case _:
            bins = bins_for(facts, signal)
    if facts.scores.kind == "other":
        return Uniform(bins)
    return Warped(bins)


def bins_for(facts: PublicFacts, signal: float | None) -> int:
    """Return the number of bins under noise, from public facts alone."""
    if signal is None:
        return EXACT_BINS
    if facts.examples is None:
        return BLIND_BINS
    prevalence = 0.5 if facts.prevalence is None else facts.prevalence
    minority = facts.examples * min(prevalence, 1 - prevalence)
    return bins_under_noise(minority, signal)


def bins_under_noise(minority: float, epsilon: float) -> int:
    r"""Return the number of bins for noisy counts: a rule of public facts.

    .. math::
        B = (\varepsilon^2 n)^{2/5}, \text{ rounded up to an even number in } 14..96

    with n a public guess of the minority class's size and 1/eps the noise's
    scale in a cell. Noise adds :math:`\sqrt B/(\varepsilon n)` to a curve, and a
    bin hides a random walk of size :math:`1/\sqrt{nB}`: curves balance the two at
    :math:`(\varepsilon^2 n)^{1/2}`, areas, in which the second averages out to
    :math:`1/(B \sqrt n)`, at :math:`(\varepsilon^2 n)^{1/3}`. The rule lies
    between; a guess wrong by a factor of 3 moves it by 1.55. An even number has
    one half, the usual threshold, among its edges.

    >>> bins_under_noise(10_000, 1.0), bins_under_noise(10_000, 0.1)
    (40, 14)
    """
    if not (math.isfinite(minority) and minority > 0):
        raise PlanError("the guess of the minority class's size must be positive")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise PlanError("epsilon must be positive")
    pairs = math.ceil(math.pow(epsilon * epsilon * minority, 0.4) / 2)
    return min(max(2 * pairs, _FEWEST_BINS), _MOST_BINS)


def default_thresholds(scores: ScoreRange) -> tuple[float, ...]:
    """Return the usual decision threshold: one half, on the scores' own scale."""
    match scores.kind:
        case "probability":
            return (0.5,)
        case "logit":
            return (0.0,)
        case "other":
            return ()
