r"""Exact areas of several owners' pooled data, and what revealed integers say.

**DeLong's variance.** Beside an exact AUC are revealed P, the positives, and with
:math:`a_j = 2P V_{01}(j)` the doubled positives above negative j and
:math:`b_i = 2N(1 - V_{10}(i))` the doubled negatives above positive i, ties one half,
the sums :math:`Q_- = \sum_j a_j^2` and :math:`Q_+ = \sum_i b_i^2`. With A the AUC and N
the other rows (DeLong, DeLong and Clarke-Pearson 1988, equations 5 and 6),

.. math::
    V = \frac{1}{P(P-1)}\left[\frac{Q_+}{4N^2} - P(1-A)^2\right]
      + \frac{1}{N(N-1)}\left[\frac{Q_-}{4P^2} - N A^2\right].

A class of one example shows no spread: then Newcombe's variance stands for DeLong's.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.special import k1

from discreet.arrays import FloatVector, IntVector
from discreet.curator.private_estimate import (
    PrivateEstimate,
    auc_sampling,
    weighted_count_estimate,
)
from discreet.curator.weighted_count import pair_count_weights
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError, ReleaseError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import ScalarFit
from discreet.estimate.intervals import AreaShape, ProportionShape, Shape
from discreet.metrics.table import Metric
from discreet.mpc.engine import MpcEngine, OnPhase, RevealedAreas, SpuSimulator
from discreet.mpc.model import ExactMPC, PartyNoise, shared_rows
from discreet.mpc.program import Program, empty_class
from discreet.mpc.shares import PARTIES, encode, padded_size
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.rounds import Question, Release, one_release
from discreet.privacy.claim import Claim, Setting
from discreet.report.evaluation import Evaluation, Source

_REMEDY: Final = (
    "evaluate under SecureAggregation or DistributedDP to have curves and thresholds"
)
_UNKNOWN: Final = (
    "the class counts were not revealed; declare a prevalence to have it, or reveal "
    "them with interval=True"
)
_NODES: Final = 128


def evaluate(
    sites: Sequence[Examples],
    model: ExactMPC | None = None,
    *,
    engine: MpcEngine | None = None,
    prevalence: float | None = None,
    entropy: Entropy = SYSTEM,
    progress: OnPhase | None = None,
) -> Evaluation:
    """Compute the exact areas of the pooled data without pooling them.

    All parties run in this process, on the shares and the program that separate
    processes would run: the result is the same, the protection is not there.

    Args:
        sites: the owners' examples.
        model: exact ties and public sizes by default.
        engine: who computes; SPU's three parties as threads by default.
        prevalence: public: roughly which share of the examples is positive. Where
            no interval is revealed it gives the values a sampling error, which the
            class counts, being secret, cannot.
        entropy: secret bytes for the noise of a noisy AUC.
        progress: called with a few words at the start of each phase.

    >>> north = Examples([0.9, 0.4], [1, 0])
    >>> south = Examples([0.4, 0.1], [1, 0])
    >>> evaluate([north, south]).auc.value
    0.875
    """
    check_sites(sites)
    facts = PublicFacts(None, prevalence, sites[0].scores)
    plan = (model or ExactMPC()).plan_for(Question(facts), sites)
    return run(plan, sites, engine=engine, entropy=entropy, progress=progress)


def run(
    plan: Plan,
    sites: Sequence[Examples],
    *,
    engine: MpcEngine | None = None,
    entropy: Entropy = SYSTEM,
    progress: OnPhase | None = None,
) -> Evaluation:
    """Carry out a plan of exact areas over owners in this process."""
    check_sites(sites)
    hidden = isinstance(plan.privacy, ExactMPC) and plan.privacy.hide_sizes
    padded = padded_size(max(len(site) for site in sites)) if hidden else None
    owners = [encode(site, padded_to=padded) for site in sites if hidden or len(site)]
    program = Program.of(plan, [owner.rows for owner in owners])
    noise = [program.noise] * PARTIES if program.noise else []
    revealed = (engine or SpuSimulator()).run(
        program,
        owners,
        noise=[party.draw(entropy=entropy) for party in noise],
        progress=progress,
    )
    setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
    return evaluation_of(
        plan, revealed, session=secrets.token_bytes(16), setting=setting
    )


def check_sites(sites: Sequence[Examples]) -> None:
    """Refuse what cannot be pooled, before anything is shared."""
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if len({site.scores for site in sites}) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    if not any(len(site) for site in sites):
        raise InputError("there are no examples: give at least one site that has some")


def evaluation_of(
    plan: Plan, revealed: RevealedAreas, *, session: bytes, setting: Setting
) -> Evaluation:
    """Build the analyst's result from what was revealed, and from nothing else."""
    owners = plan.cohort.min_survivors
    rows = shared_rows(plan.rounds).rows
    values = Program.of(plan, [rows]).checked(revealed.values)
    release = Release(
        plan.digest(), session, 0, values, owners, owners, plan.privacy.loss
    )
    claim = plan.claim(setting, sites=owners)
    fit = ScalarFit(
        estimates(plan, [release], claim=claim),
        remedy=_REMEDY,
        notes=notes_of(plan),
        facts={
            "rows": rows,
            "bytes": revealed.bytes_sent,
            "rounds": revealed.rounds,
            "seconds": round(revealed.seconds, 2),
        },
    )
    return Evaluation(fit, claim, Source(owners, owners, (release,)), plan)


def estimates(
    plan: Plan, releases: Sequence[Release], *, claim: Claim
) -> dict[Metric, Estimate]:
    """Return the areas of a release, with the errors that public facts allow."""
    total = one_release(releases, plan.digest(), 1).total
    program = Program.of(plan, [shared_rows(plan.rounds).rows])
    if program.noise is not None:
        return {"auc": noisy_auc(program.noise, total, claim)}
    areas = program.areas(total)
    sums = DeLongSums.of(program, total)
    declared = None if program.model.hide_sizes else plan.facts.prevalence
    return {
        metric: _exact_estimate(metric, value, program.rows, sums or declared)
        if not math.isnan(value)
        else Estimate.undefined(empty_class(areas))
        for metric, value in areas.items()
    }


def _exact_estimate(
    metric: Metric, value: float, rows: int, known: DeLongSums | float | None
) -> Estimate:
    """Give an exact value the sampling error that what is known allows.

    Known is what was revealed for an interval, or a declared prevalence, or nothing.
    """
    binning = Binning(value, value, 0.0)
    if isinstance(known, DeLongSums):
        positives = known.positives
    else:
        positives = 0 if known is None else round(known * rows)
    if not 0 < positives < rows:
        return Estimate(value, None, 0.0, binning, caution=_UNKNOWN)
    shape: Shape
    if metric == "auc":
        area = AreaShape(positives, rows - positives)
        own = known.variance if isinstance(known, DeLongSums) else area.variance
        shape, variance = area, own(value)
    else:  # the binomial variance of Boyd, Eng and Page (2013)
        shape = ProportionShape(trials=positives)
        variance = value * (1 - value) / positives
    sampling = math.sqrt(max(variance, 0.0))
    return Estimate(value, sampling, 0.0, binning, shape=shape)


def notes_of(plan: Plan) -> tuple[str, ...]:
    """What a reader should know about these values."""
    program = Program.of(plan, [shared_rows(plan.rounds).rows])
    notes = []
    if program.model.ties == "none":
        notes.append(
            "equal scores were taken as different ones, negatives first: the values are "
            "exact only if no two scores are equal"
        )
    if program.interval_sums:
        notes.append(
            "the AUC's sampling error is DeLong's; that of the PR areas is the binomial "
            "one of the revealed number of positives"
        )
    elif plan.facts.prevalence is not None and program.noise is None:
        notes.append(
            "the total of the examples is hidden, so there is no sampling error"
            if program.model.hide_sizes
            else "the sampling error rests on the declared prevalence"
        )
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class DeLongSums:
    """What was revealed for an interval; both classes have examples."""

    positives: int
    negatives: int
    of_negatives: int
    of_positives: int

    def __post_init__(self) -> None:
        p, n = self.positives, self.negatives
        within = (
            0 <= self.of_negatives <= 4 * p * p * n
            and 0 <= self.of_positives <= 4 * n * n * p
        )
        if p < 1 or n < 1 or not within:
            raise ReleaseError(
                "the revealed sums of squares are of no data of this size"
            )

    @classmethod
    def of(cls, program: Program, values: IntVector) -> DeLongSums | None:
        """Read what stands behind the areas; None where there is no interval."""
        if not program.interval_sums:
            return None
        positives, *squares = (int(x) for x in values[-program.interval_sums :])
        if not 0 < positives < program.rows:
            return None
        return cls(positives, program.rows - positives, *squares)

    def variance(self, area: float) -> float:
        """Return DeLong's variance of this AUC.

        >>> DeLongSums(2, 2, 20, 4).variance(0.75)  # scores rank + - + -
        0.125
        """
        p, n = self.positives, self.negatives
        if min(p, n) < 2:
            return AreaShape(p, n).variance(area)
        # The area is a fraction over 2PN; in exact numbers nothing cancels.
        won = Fraction(round(Fraction(area) * 2 * p * n), 2 * p * n)
        above = Fraction(self.of_positives, 4 * n * n) - p * (1 - won) ** 2
        below = Fraction(self.of_negatives, 4 * p * p) - n * won**2
        return max(float(above / (p * (p - 1)) + below / (n * (n - 1))), 0.0)


def noisy_auc(noise: PartyNoise, pair: IntVector, claim: Claim) -> PrivateEstimate:
    """Return the AUC of a revealed pair, Q and G of ``PartyNoise``, with its errors.

    Where noise hides it, it is refused.
    """
    if pair.shape != (2,):
        raise InputError("a noisy result has two integers")
    return weighted_count_estimate(
        pair,
        pair_count_weights(noise.rows),
        noise.noise().scale * _likely_noise(),
        epsilon=noise.epsilon,
        sampling=auc_sampling,
        claim=claim,
        mechanism="pair-count, shares of discrete Laplace noise on two integers",
    )


@cache
def _likely_noise() -> FloatVector:
    r"""Return equally likely values of the noise over its scale.

    Three halves of discrete Laplace noise of a large scale are the difference of
    two Gamma(3/2) variables, whose density is :math:`|x| K_1(|x|)/\pi`.
    """
    x = np.linspace(1e-6, 40.0, 40_001)
    upper = 0.5 + cumulative_trapezoid(x * k1(x) / np.pi, x, initial=0.0)
    half = np.interp(0.5 + (np.arange(_NODES // 2) + 0.5) / _NODES, upper, x)
    return np.append(-half[::-1], half)
