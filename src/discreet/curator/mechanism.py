"""Which mechanism releases a metric, and the one path that every release takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np

from discreet.arrays import FloatVector
from discreet.curator.budget import Budget, charge
from discreet.curator.grid import draw_on_grid, grid_steps
from discreet.curator.private_estimate import (
    NoSampling,
    PrivateEstimate,
    ReleasedScalar,
    SamplingDistribution,
    curator_claim,
    laplace_errors,
    private_estimate,
    symmetric_errors,
    too_little,
    weighted_count_errors,
)
from discreet.curator.ranking import Ranking
from discreet.curator.smooth_noise import HeavyTailed, PowerLaw, SmoothLaplace, tuned
from discreet.curator.weighted_count import WeightTable, protect
from discreet.entropy import Entropy
from discreet.errors import InputError, PlanError
from discreet.privacy.claim import Claim
from discreet.privacy.loss import Amount, ApproxDP, Loss, PureDP, exact

MechanismName: TypeAlias = Literal[
    "weighted-count", "pair-count", "power-law", "heavy-tailed", "laplace"
]
SmoothMechanism: TypeAlias = PowerLaw | HeavyTailed | SmoothLaplace
_ANYWHERE: Final = np.array([-np.inf, np.inf])
"""Errors of noise whose scale is private: the release alone bounds nothing."""
_POWER_SIGNAL: Final = 30
"""Epsilon times the smaller class from which power-law noise is the smaller."""
_NO_INTERVAL: Final = (
    "the size of the noise depends on the private class counts: declare a prevalence "
    "to get an interval"
)
_DECLARED: Final = "the interval rests on the declared prevalence, the claim does not"


@dataclass(frozen=True, slots=True)
class Target:
    """A metric that can be released: its value and how far one row moves it."""

    name: str
    value: Callable[[Ranking], Fraction]
    smooth: Callable[[int, int, float], float]
    """Smooth sensitivity from positives, negatives and beta."""
    tables: Callable[[MechanismName, int], WeightTable]
    """Public weights for a weighted count over this many rows."""
    sampling: Callable[[float, float], SamplingDistribution]
    """Sampling law from (released or declared) positives and negatives."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asked for: public, validated before any data is looked at."""

    epsilon: Fraction
    delta: Fraction
    mechanism: MechanismName | None
    """None leaves the choice to ``chosen``."""
    prevalence: float | None
    gamma: Fraction

    @classmethod
    def of(
        cls,
        epsilon: Amount,
        delta: Amount,
        mechanism: MechanismName | None,
        prevalence: float | None,
        gamma: Amount,
    ) -> Request:
        """Read the caller's words; amounts are taken as written."""
        return cls(
            exact(epsilon),
            exact(delta, name="delta"),
            mechanism,
            prevalence,
            exact(gamma, name="gamma"),
        )

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise PlanError("epsilon must be positive")
        if self.prevalence is not None and not 0 < self.prevalence < 1:
            raise PlanError("the declared prevalence lies strictly between 0 and 1")
        needs_delta = self.mechanism == "laplace"
        if needs_delta and not 0 < self.delta < 1:
            raise PlanError(
                "Laplace noise on smooth sensitivity needs a delta between 0 and 1; "
                "the other mechanisms need none"
            )
        if not needs_delta and self.delta != 0:
            raise PlanError(
                f"{self.mechanism or 'the default'} is pure epsilon-DP: leave delta at "
                "0, or ask for mechanism='laplace'"
            )
        if self.mechanism == "power-law" and self.prevalence is None:
            raise PlanError(
                "power-law noise is tuned to a public prevalence: declare it, or use "
                "the weighted count"
            )

    @property
    def loss(self) -> Loss:
        """What the release costs."""
        if self.delta:
            return ApproxDP(self.epsilon, self.delta)
        return PureDP(self.epsilon)

    def chosen(self, rows: int) -> MechanismName:
        """Return the mechanism asked for, or the better one by what is public."""
        if self.mechanism is not None:
            return self.mechanism
        declared = self.declared(rows)
        if declared is None:
            return "weighted-count"
        signal = self.epsilon * min(declared, rows - declared)
        return "power-law" if signal >= _POWER_SIGNAL else "weighted-count"

    def declared(self, rows: int) -> int | None:
        """Return the number of positives that the declared prevalence stands for."""
        if self.prevalence is None:
            return None
        return min(max(round(self.prevalence * rows), 1), rows - 1)


def release(
    target: Target,
    ranking: Ranking,
    request: Request,
    *,
    budget: Budget | None,
    entropy: Entropy,
) -> PrivateEstimate:
    """Charge, draw noise, and return what may be published.

    Nothing here raises or warns by the data: a class without examples is noisy
    like any other, and the refusal reads released or declared counts only.
    """
    request = replace(request, mechanism=request.chosen(ranking.rows))
    asked = _Release(target, ranking, request, budget, entropy)
    match request.mechanism:
        case "weighted-count" | "pair-count":
            return asked.weighted()
        case "power-law" | "heavy-tailed" | "laplace":
            return asked.smooth()
        case _:
            raise InputError(
                "a curator's mechanism is weighted-count, pair-count, power-law, "
                "heavy-tailed or laplace"
            )


@dataclass(frozen=True)
class _Release:
    """One release: what is asked of which data, who pays, and who draws."""

    target: Target
    ranking: Ranking
    request: Request
    budget: Budget | None
    entropy: Entropy

    def weighted(self) -> PrivateEstimate:
        """Release two integers with Laplace noise, and read the value off them."""
        target, request, rows = self.target, self.request, self.ranking.rows
        mechanism = request.chosen(rows)
        table = target.tables(mechanism, rows)
        table.scale(request.epsilon)  # refuses what cannot be drawn, before the charge
        charged = self._charge()
        exactly = target.value(self.ranking)
        found = protect(self.ranking, exactly, table, request.epsilon, self.entropy)
        value, errors = weighted_count_errors(
            found, table, laplace_errors(float(found.scale))
        )
        positives = float(table.counts_of(np.array([float(found.code)]))[0])
        return private_estimate(
            ReleasedScalar(value, errors, target.sampling(positives, rows - positives)),
            claim=self._claim(
                f"a noisy {target.name} and a noisy number of positives", charged
            ),
            mechanism=f"{mechanism}, discrete Laplace noise on two integers",
            positives=positives,
            refusal=too_little(float(request.epsilon), positives, rows),
            notes=() if mechanism == "weighted-count" else (_loses(target, rows),),
        )

    def smooth(self) -> PrivateEstimate:
        """Release the value on a grid, with noise of its smooth sensitivity."""
        target, request, rows = self.target, self.request, self.ranking.rows
        mechanism = smooth_mechanism(target, request, rows)
        positives, negatives = self.ranking.positives, self.ranking.negatives
        sensitivity = target.smooth(positives, negatives, mechanism.beta)
        charged = self._charge()
        steps = grid_steps(rows)
        k = draw_on_grid(
            target.value(self.ranking),
            mechanism.noise(sensitivity),
            steps=steps,
            entropy=self.entropy,
        )
        declared = request.declared(rows)
        errors, noise, note = _publicly_known(target, mechanism, declared, rows)
        likely = rows / 2 if declared is None else declared
        return private_estimate(
            ReleasedScalar(k / steps, errors, noise),
            claim=self._claim(
                f"a noisy {target.name} on a grid of {steps:,} steps", charged
            ),
            mechanism=f"{request.mechanism} noise on smooth sensitivity",
            positives=None if declared is None else float(declared),
            refusal=too_little(float(request.epsilon), likely, rows),
            notes=(note,),
        )

    def _charge(self) -> str:
        """Pay before anything is drawn; return what the claim says about it."""
        return charge(self.budget, self.request.loss, self.target.name)

    def _claim(self, what: str, charged: str) -> Claim:
        return curator_claim(
            self.request.loss,
            what=what,
            rows=self.ranking.rows,
            entropy=self.entropy,
            record=charged,
        )


def _loses(target: Target, rows: int) -> str:
    """Say what plain pair counts lose to the weighted count at equal classes."""
    best = target.tables("weighted-count", rows)
    plain = target.tables("pair-count", rows)
    half = rows // 2
    lost = (best.weights[half] / best.l1) / (plain.weights[half] / plain.l1)
    return f"at equal classes its noise is {lost:.2f} times the weighted count's"


def smooth_mechanism(target: Target, request: Request, rows: int) -> SmoothMechanism:
    """Return the noise that a request asks for; public choices only."""
    match request.mechanism:
        case "heavy-tailed":
            return HeavyTailed(request.epsilon, request.gamma)
        case "laplace":
            return SmoothLaplace(request.epsilon, request.delta)
        case _:
            declared = request.declared(rows) or 1
            return tuned(
                request.epsilon,
                lambda beta: target.smooth(declared, rows - declared, beta),
            )


def _publicly_known(
    target: Target, mechanism: SmoothMechanism, declared: int | None, rows: int
) -> tuple[FloatVector, SamplingDistribution, str]:
    """Return the error bars that a reader may know: none by the private counts."""
    if declared is None:
        return _ANYWHERE, NoSampling(), _NO_INTERVAL
    noise = mechanism.noise(target.smooth(declared, rows - declared, mechanism.beta))
    distribution = target.sampling(declared, rows - declared)
    return symmetric_errors(noise), distribution, _DECLARED
