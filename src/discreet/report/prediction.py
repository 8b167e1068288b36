r"""Predicted errors of a plan from public facts, before any data is touched.

The plan is carried out on simulated populations with simulated noise. *Noise* and
*sampling* are root mean squares of the standard deviations that these evaluations state.
Real scores get about `BEYOND` times as much noise: take the figures as a size
(``bench/prediction.py`` measures how good they are).

Negatives are :math:`x \sim N(0, 1)` and positives :math:`x \sim N(d, r^2)` with
:math:`d = \sqrt{1 + r^2}\,\Phi^{-1}(\text{AUC})`, so that every shape has the assumed AUC
(Green and Swets 1966). With :math:`v = (1 + r^2)/2` the score is

.. math::
    s = \sigma\left(\frac{d}{v} (x - d/2) + \log\frac{\pi}{1 - \pi}\right),

at r = 1 the posterior: a calibrated model at the public prevalence :math:`\pi`. An AUC
says nothing about the head of the ranking, on which average precision rests. So positives
also spread more than negatives (r = 1.4: precision is high at the head) and less (r = 0.7).
``docs/error-bars.md`` compares the three with trained models' scores.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from statistics import NormalDist
from typing import Final

import numpy as np
from scipy.special import expit, logit, ndtri

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.estimate.areas import area_error
from discreet.estimate.fit import Fit, Flat
from discreet.metrics.errors import measures
from discreet.metrics.table import METRICS, Metric
from discreet.noise.mechanism import AdditiveNoise, NoNoise
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.rounds import Release, Round
from discreet.report.build import evaluation
from discreet.report.evaluation import Evaluation
from discreet.secagg.terms import Terms
from discreet.statistic import ClassHistogram, Grouped, Hierarchy
from discreet.statistic.adaptive import Refined
from discreet.statistic.observed import NoisyHistogram
from discreet.statistic.site_sums import SiteSums
from discreet.statistic.weighted import Weighted

_QUANTILES: Final = 100_000
SPREADS: Final = (1.0, 0.7, 1.4)
"""Standard deviations of positives, where negatives have 1: r above."""


def simulate_population(
    scores: ScoreRange,
    examples: int,
    prevalence: float,
    auc: float,
    rng: np.random.Generator,
    *,
    spread: float = 1.0,
) -> Examples:
    """Draw labels, and scores on their scale; positives have this spread."""
    labels = _labels(examples, prevalence)
    z = rng.standard_normal(labels.size)
    return _scored(scores, z, labels, prevalence, auc, spread=spread)


def typical_population(scores: ScoreRange, prevalence: float, auc: float) -> Examples:
    """Return the quantiles of both calibrated classes: without sampling error."""
    labels = _labels(_QUANTILES, prevalence)
    positives = int(labels.sum())
    sizes = (positives, labels.size - positives)
    z = np.concatenate([ndtri((np.arange(size) + 0.5) / size) for size in sizes])
    return _scored(scores, z, labels, prevalence, auc, spread=1.0)


def _labels(examples: int, prevalence: float) -> IntVector:
    """Return as many positives, first, as the prevalence says; both classes occur."""
    labels = np.zeros(max(examples, 2), dtype=np.int64)
    labels[: min(max(round(examples * prevalence), 1), labels.size - 1)] = 1
    return labels


def _scored(
    scores: ScoreRange,
    z: FloatVector,
    labels: IntVector,
    prevalence: float,
    auc: float,
    *,
    spread: float,
) -> Examples:
    variance = 1 + spread * spread
    d = math.sqrt(variance) * NormalDist().inv_cdf(auc)
    x = np.where(labels, d + spread * z, z)
    slope = 2 * d / variance
    log_odds: FloatVector = slope * (x - d / 2) + float(logit(prevalence))
    match scores.kind:
        case "logit":
            return Examples(log_odds, labels, kind="logit")
        case "probability":
            return Examples(expit(log_odds), labels)
        case "other":
            low, high = scores.low, scores.high
            placed = low + (high - low) * expit(log_odds)
            return Examples(placed, labels, kind="other", low=low, high=high)


REPETITIONS: Final = 21
"""Seven of each shape."""
MOST_EXAMPLES: Final = 500_000
"""A larger population is simulated at this size, its errors scaled by a square root."""
DEFAULT_AUC: Final = 0.8
BEYOND: Final = 1.15
"""What noise real shapes add, to smooth ones' 1; chosen on 135 cells of other scores than
the docs quote."""
_FINE_BINS: Final = 4096
"""Bins of a simulated population's own values, beside which a plan's are compared."""
_HIDDEN: Final = "the noise hides one of the classes"
_AREAS: Final[tuple[Metric, ...]] = ("auc", "average_precision")


@dataclass(frozen=True, slots=True)
class PredictedError:
    """The expected value of a metric, and root mean squares of its errors."""

    value: float
    noise: float
    sampling: float

    @property
    def total(self) -> float:
        """Both sources together."""
        return math.hypot(self.noise, self.sampling)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a plan can be expected to tell, if the assumptions hold."""

    errors: Mapping[Metric, PredictedError]
    """Of both areas and of whatever else the plan asks for, in the table's order."""
    roc_area: float
    """Mean area between the ROC curves with and without noise."""
    unusable: float
    """Share of the simulated releases that gave no result."""
    prevalence: float
    group_examples: int
    """How many examples each result rests on."""
    cause: str = _HIDDEN
    """Why a simulated release gave none, if one did."""

    @property
    def auc(self) -> PredictedError:
        """What decides whether a plan is worth running."""
        return self.errors["auc"]

    @property
    def average_precision(self) -> PredictedError:
        """What rare positives make hard first."""
        return self.errors["average_precision"]

    @property
    def refusal(self) -> str | None:
        """Why this plan should not be run, None when it may be."""
        if self.unusable > 0.1:
            return (
                f"{self.unusable:.0%} of the simulated releases were unusable: "
                f"{self.cause}"
            )
        return lost("AUC", self.auc, chance=0.5)

    @property
    def caution(self) -> str | None:
        """What this plan tells badly, None when it tells all."""
        noisy = self.auc.noise > self.auc.sampling
        return lost(
            "average precision", self.average_precision, chance=self.prevalence
        ) or ("the noise is larger than the sampling error" if noisy else None)


def lost(name: str, error: PredictedError, *, chance: float) -> str | None:
    """Return why a metric could not be told from that of a random classifier."""
    if 2 * error.total < error.value - chance:
        return None
    source = "noise" if error.noise > error.sampling else "the sample's size"
    return (
        f"two standard errors of the {name} are {2 * error.total:.2g}, mostly from "
        f"{source}: {error.value:.3f} could not be told from chance, {chance:.3f}"
    )


def predict(
    plan: Plan,
    *,
    sites: int | None = None,
    auc: float = DEFAULT_AUC,
    repetitions: int = REPETITIONS,
    seed: int = 1,
) -> Prediction:
    """Carry out a plan on simulated populations and return the errors.

    Args:
        plan: the plan; its public facts must say how many examples there are. With
            groups, the errors are those of one of several equally large groups.
        sites: how many take part; by default the roster, or the fewest allowed.
        auc: assumed AUC of the classifier.
        repetitions: how many populations are simulated, of one shape after the other.
        seed: of the simulation; nothing here is secret.
    """
    if not 0.5 < auc < 1:
        raise PlanError("the assumed AUC lies strictly between 0.5 and 1")
    single = _single(plan)
    facts = single.facts
    if facts.examples is None:
        raise PlanError("a prediction needs the expected number of examples")
    prevalence = 0.5 if facts.prevalence is None else facts.prevalence
    examples = min(facts.examples, MOST_EXAMPLES)
    sites = sites_in(plan, sites)
    rng = np.random.default_rng(seed)
    truth = measures(
        _fine(typical_population(facts.scores, prevalence, auc)), single.metrics
    )
    sampled, usable, areas, causes = [], [], [], []
    for spread in islice(cycle(SPREADS), repetitions):
        drawn = simulate_population(
            facts.scores, examples, prevalence, auc, rng, spread=spread
        )
        exact = _fine(drawn)
        sampled.append(measures(exact, single.metrics))
        try:
            result = _carried_out(single, drawn, sites, rng)
        except ReleaseError as err:  # nothing can be read from this one
            causes.append(str(err))
            continue
        if result.fit.refusal is not None:
            causes.append(result.fit.refusal)
            continue
        usable.append(result)
        areas.append(area_error(exact.curves.roc, result.curves.roc, tolerance=1e-5))
    shrunk = math.sqrt(examples / facts.examples)  # 1 unless there are very many

    def error(metric: Metric) -> PredictedError:
        noise = root_mean_square(
            [BEYOND * result.metrics[metric].noise for result in usable]
        )
        sampling = root_mean_square(
            [estimates[metric].sampling or 0.0 for estimates in sampled]
        )
        return PredictedError(truth[metric].value, noise * shrunk, sampling * shrunk)

    return Prediction(
        {name: error(name) for name in METRICS if name in single.metrics},
        float(np.mean(areas)) * shrunk if areas else math.nan,
        1 - len(usable) / repetitions,
        prevalence,
        facts.examples,
        causes[0] if causes else _HIDDEN,
    )


def sites_in(plan: Plan, sites: int | None) -> int:
    """Return how many sites take part: by default the roster, or the fewest allowed."""
    if sites is None:
        roster = plan.roster
        sites = plan.cohort.min_survivors if roster is None else len(roster.sites)
    if sites < plan.cohort.min_survivors:
        raise PlanError(
            f"the plan asks for {plan.cohort.min_survivors} surviving sites, and there "
            f"are {sites}"
        )
    return sites


def check_protocol(plan: Plan, *, sites: int | None = None) -> None:
    """Raise ``InputError`` if secure aggregation cannot keep what the plan asks for.

    Too few survivors for the colluders, or, with a roster, so few that two sets of
    survivors could both find enough signatures.
    """
    if not plan.protocol.masked:
        return
    identities = None if plan.roster is None else plan.roster.identities()
    cohort = plan.cohort
    length = max(r.statistic.size for r in plan.rounds)
    told = plan.privacy.masked_from(cohort)
    groups = cohort.random_groups
    if sites is not None and sites < cohort.least_sites:
        raise InputError(
            f"{groups} random groups of at least {cohort.min_survivors} sites need "
            f"{cohort.least_sites} sites, and there are {sites}"
            if groups > 1
            else f"the plan asks for {cohort.least_sites} sites, and there are {sites}"
        )
    terms = Terms(plan.digest(), length, cohort.min_survivors, told, identities, groups)
    terms.parameters(-(-(sites or cohort.least_sites) // groups))


def _single(plan: Plan) -> Plan:
    """Return the plan of one result: of one group, if there are groups.

    Weights are predicted at their worst: nearly all are one, and the noise and the
    errors are those of the largest.
    """
    if not plan.privacy.predictable:
        raise PlanError(
            f"there is no prediction for plans under {plan.privacy.name} privacy"
        )
    plan = replace(plan, roster=None, metrics=plan.metrics | set(_AREAS))
    match plan.statistic:
        case ClassHistogram() | Refined() | Hierarchy() | SiteSums():
            return plan
        case Grouped(inner, groups):
            shares = len(groups)
        case Weighted(inner, most):
            shares = most
        case _:
            raise PlanError(
                "there is no prediction for more than two classes or several labels"
            )
    known = plan.facts.examples
    facts = replace(
        plan.facts, examples=None if known is None else max(known // shares, 1)
    )
    return replace(plan, rounds=(Round(inner),), facts=facts)


def _fine(examples: Examples) -> Fit:
    """Return a sample without noise, in bins so fine that they do not matter."""
    rule = spread_over(_FINE_BINS, PublicFacts(scores=examples.scores))
    statistic = ClassHistogram(Edges.realise(rule, examples.scores))
    counts = statistic.split(statistic.count(examples).astype(np.float64))
    observed = NoisyHistogram(
        statistic.edges, counts.negatives, counts.positives, NoNoise()
    )
    return Flat("linear").fit(observed)


def _carried_out(
    plan: Plan, drawn: Examples, sites: int, rng: np.random.Generator
) -> Evaluation:
    """Count, add simulated noise to the sums round by round, and evaluate them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        releases = simulated_releases(plan, drawn, sites, rng)
        return evaluation(plan, releases, plan.claim("simulated", sites=sites))


def simulated_releases(
    plan: Plan, drawn: Examples, sites: int, rng: np.random.Generator
) -> list[Release]:
    """Count a simulated population, and add simulated noise round by round."""
    releases: list[Release] = []
    for i in range(len(plan.rounds)):
        resolved = plan.resolve(i, releases)
        exact = resolved.statistic.count(drawn)
        mechanism = plan.privacy.mechanism_for(resolved, plan.cohort)
        if isinstance(mechanism, AdditiveNoise):
            noise = mechanism.noise(sites).sample(exact.astype(np.float64), 1, rng)
            total: IntVector = exact + np.rint(noise[0]).astype(np.int64)
        else:  # one-example clients: the pooled counts are as good as any site's
            total = mechanism.protect(exact, entropy=rng.bytes)
        made = (plan.digest(), b"simulated", i, total, sites, sites, resolved.loss)
        releases.append(Release(*made))
    return releases


def root_mean_square(errors: Sequence[float]) -> float:
    """Return the root of the mean of squares, NaN of none."""
    return math.sqrt(float(np.mean(np.square(errors)))) if errors else math.nan
