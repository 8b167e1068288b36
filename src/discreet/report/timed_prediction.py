r"""Predicted errors of a plan of time to event from public facts, before any data.

The plan is carried out on simulated populations with simulated noise, as for two classes
(:mod:`discreet.report.prediction`). A latent :math:`z \sim N(0, 1)` has the hazard
:math:`\lambda e^{\beta z}`, constant in time, and the score is the true risk by the last
horizon :math:`\tau`, :math:`1 - e^{-\lambda \tau e^{\beta z}}`. Follow-up ends without an
event at a constant rate :math:`\gamma`, whatever z is. The three numbers give the
population its public facts: the share of events seen by :math:`\tau`, the share censored
before it, and the assumed AUC at :math:`\tau`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.data.scores import ScoreRange
from discreet.errors import PlanError, ReleaseError
from discreet.estimate.estimate import Estimate
from discreet.plan.plan import Plan
from discreet.plan.rounds import Round
from discreet.report.build import result_of
from discreet.report.prediction import (
    BEYOND,
    DEFAULT_AUC,
    MOST_EXAMPLES,
    PredictedError,
    lost,
    root_mean_square,
    simulated_releases,
    sites_in,
)
from discreet.report.timed import TimedEvaluations
from discreet.report.timed_evaluation import TimedEvaluation
from discreet.statistic.timed import TimedGroups, causes_of

REPETITIONS: Final = 5
EVENTS: Final = 0.2
CENSORING: Final = 0.2
"""Shares where nothing is known in public."""
_LATENT: Final = 2001
"""Quantiles of z that stand for all."""
_SLOPES: Final = (1e-3, 8.0)
_RATES: Final = (-30.0, 30.0)
"""Where the slope and the logarithms of rates, in units of the horizon, are sought."""


@dataclass(frozen=True)
class Hazards:
    """A population: its hazards and its censoring, the last horizon being 1."""

    slope: float
    rate: float
    leaving: float

    @classmethod
    def of(cls, events: float, censoring: float, auc: float) -> Hazards:
        """Return the population that has these shares and this AUC."""
        if events + censoring >= 1:
            raise PlanError("events and censoring by the horizon are less than all")

        def at(slope: float) -> Hazards:
            known = None

            def missing(log_leaving: float) -> float:
                nonlocal known
                leaving = math.exp(log_leaving) if censoring else 0.0
                log_rate = brentq(
                    lambda r: _shares(slope, math.exp(r), leaving)[0] - events, *_RATES
                )
                known = cls(slope, math.exp(log_rate), leaving)
                return _shares(slope, known.rate, leaving)[1] - censoring

            if not censoring:
                missing(0.0)
            else:
                # Above this rate too few are left to have the events.
                most = _RATES[0]
                for log_leaving in np.linspace(*_RATES, 121):
                    top = _shares(slope, math.exp(_RATES[1]), math.exp(log_leaving))
                    if top[0] <= events:
                        break
                    most = float(log_leaving)
                brentq(missing, _RATES[0], most, xtol=1e-9)
            assert known is not None  # noqa: S101 - a rate was found
            return known

        low, high = _SLOPES
        reach = at(high).auc()
        if auc >= reach:
            return at(high)
        slope = brentq(lambda b: at(b).auc() - auc, low, high, xtol=1e-4)
        return at(slope)

    @property
    def _hazards(self) -> FloatVector:
        return self.rate * np.exp(self.slope * _latent())

    def auc(self) -> float:
        """Return the AUC at the horizon: of the true risks of cases and the others."""
        risk = -np.expm1(-self._hazards)  # rises with z
        cases, controls = risk / risk.sum(), (1 - risk) / (1 - risk).sum()
        below = np.cumsum(controls) - controls / 2
        return float(cases @ below)

    def drawn(
        self, plan: Plan, examples: int, rng: np.random.Generator, columns: int
    ) -> Examples:
        """Draw follow-up: scores of the plan's kind, the same in every column."""
        tau, causes = plan.horizons[-1], causes_of(plan.statistic)
        hazard = self.rate * np.exp(self.slope * rng.standard_normal(examples))
        times = rng.standard_exponential(examples) / hazard
        until = np.full(examples, math.inf)
        if self.leaving:
            until = rng.standard_exponential(examples) / self.leaving
        # What lies beyond is past the last cut, wherever it ends.
        last = plan.statistic.time_cuts
        most = 2 * (last.values[-1] if last else tau)
        ended = np.minimum(np.minimum(times, until) * tau, most)
        cause = rng.integers(1, causes + 1, examples)
        events = np.where((times <= until) & (times * tau < most), cause, 0)
        score = _scored(plan.facts.scores, -np.expm1(-hazard))
        kind = plan.facts.scores
        other = kind.kind == "other"
        return Examples(
            score if columns == 1 else np.column_stack([score] * columns),
            time=ended,
            event=events,
            causes=causes,
            kind=kind.kind,
            low=kind.low if other else None,
            high=kind.high if other else None,
        )


def _latent() -> FloatVector:
    found: FloatVector = ndtri((np.arange(_LATENT) + 0.5) / _LATENT)
    return found


def _shares(slope: float, rate: float, leaving: float) -> tuple[float, float]:
    """Return the shares that have an event, or leave, by the horizon 1."""
    hazard = rate * np.exp(slope * _latent())
    both = hazard + leaving
    gone = -np.expm1(-both) / both
    return float((hazard * gone).mean()), float((leaving * gone).mean())


def _scored(scores: ScoreRange, risk: FloatVector) -> FloatVector:
    inside = np.clip(risk, 1e-12, 1 - 1e-12)
    match scores.kind:
        case "probability":
            return inside
        case "logit":
            odds: FloatVector = np.log(inside / (1 - inside))
            return odds
        case "other":
            return scores.low + (scores.high - scores.low) * inside


@dataclass(frozen=True, slots=True)
class TimedPrediction:
    """What a plan of time to event can be expected to tell."""

    errors: Mapping[str, PredictedError]
    """Of the main measures, by their titles."""
    unusable: float
    """Share of the simulated releases that gave no result."""
    events: float
    censoring: float
    examples: int
    """How many examples each result rests on."""

    @property
    def auc(self) -> PredictedError:
        """The AUC at the last horizon, which decides whether a plan is worth running."""
        return [e for name, e in self.errors.items() if name.startswith("AUC")][-1]

    @property
    def refusal(self) -> str | None:
        """Why this plan should not be run, None when it may be."""
        if self.unusable > 0.1:
            return f"{self.unusable:.0%} of the simulated releases were unusable"
        return lost("AUC", self.auc, chance=0.5)

    @property
    def caution(self) -> str | None:
        """What this plan tells badly, None when it tells all."""
        noisy = self.auc.noise > self.auc.sampling
        return "the noise is larger than the sampling error" if noisy else None


def predict_followup(
    plan: Plan,
    *,
    sites: int | None = None,
    auc: float = DEFAULT_AUC,
    repetitions: int = REPETITIONS,
    seed: int = 1,
) -> TimedPrediction:
    """Carry out a plan of time to event on simulated populations; return the errors.

    With groups, the errors are those of one of several equally large groups.
    """
    if not 0.5 < auc < 1:
        raise PlanError("the assumed AUC lies strictly between 0.5 and 1")
    single = _single(plan)
    facts = single.facts
    if facts.examples is None:
        raise PlanError("a prediction needs the expected number of examples")
    events = EVENTS if facts.prevalence is None else facts.prevalence
    censoring = facts.censoring
    if censoring is None:
        censoring = min(CENSORING, (1 - events) / 2)
    hazards = Hazards.of(events, censoring, auc)
    examples = min(facts.examples, MOST_EXAMPLES)
    shrunk = math.sqrt(examples / facts.examples)
    taking_part = sites_in(plan, sites)
    rng = np.random.default_rng(seed)
    measured: list[Mapping[str, Estimate]] = []
    for _ in range(repetitions):
        columns = len(single.statistic.columns)
        drawn = hazards.drawn(single, examples, rng, columns)
        try:
            releases = simulated_releases(single, drawn, taking_part, rng)
            claim = single.claim("simulated", sites=taking_part)
            measured.append(_main(result_of(single, releases, claim)))
        except ReleaseError:  # nothing can be read from this one
            continue
    usable = [m for m in measured if not any(math.isnan(e.value) for e in m.values())]

    def error(name: str) -> PredictedError:
        estimates: Sequence[Estimate] = [m[name] for m in usable]
        noise = root_mean_square([BEYOND * e.noise for e in estimates])
        sampling = root_mean_square([e.sampling or 0.0 for e in estimates])
        value = float(np.mean([e.value for e in estimates])) if estimates else math.nan
        return PredictedError(value, noise * shrunk, sampling * shrunk)

    names = usable[0] if usable else [f"AUC by {single.horizons[-1]:g}"]
    return TimedPrediction(
        {name: error(name) for name in names},
        1 - len(usable) / repetitions,
        events,
        censoring,
        facts.examples,
    )


def _main(result: object) -> dict[str, Estimate]:
    """Return the main measures of a result by their titles."""
    if isinstance(result, TimedEvaluations):
        result = [*result.values()][-1]
    if not isinstance(result, TimedEvaluation):
        raise PlanError("this plan does not measure time to event")
    rows = {f"AUC by {t:g}": result.auc(t) for t in result.horizons}
    rows |= {
        f"observed risk by {t:g}": result.observed_risk(t) for t in result.horizons
    }
    if result.predicts is not None:
        time = result.predicts
        rows[f"Brier score by {time:g}"] = result.brier(time)
    if causes_of(result.plan.statistic if result.plan else None) == 1:
        rows["Harrell's concordance"] = result.concordance
    return rows


def _single(plan: Plan) -> Plan:
    """Return the plan of one result: of one group, if there are groups."""
    plan = replace(plan, roster=None)
    statistic, known = plan.statistic, plan.facts.examples
    if not isinstance(statistic, TimedGroups):
        return plan
    shares = len(statistic.groups)
    facts = replace(
        plan.facts, examples=None if known is None else max(known // shares, 1)
    )
    return replace(plan, rounds=(Round(statistic.inner),), facts=facts)
