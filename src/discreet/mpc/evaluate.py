"""Exact areas of several owners' pooled data, in one process or from an opening."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import Final

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate
from discreet.estimate.fit import ScalarFit
from discreet.estimate.intervals import AreaShape, ProportionShape, Shape
from discreet.metrics.table import Metric
from discreet.mpc.encode import encode, padded_size
from discreet.mpc.engine import Engine, Opened, Progress
from discreet.mpc.model import ExactMPC, shared_rows
from discreet.mpc.noisy import NoisyPair, noise_share
from discreet.mpc.program import PARTIES, Program, empty_class
from discreet.mpc.spread import Spread
from discreet.mpc.spu_engine import SpuSimulator
from discreet.plan.cohort import PublicFacts
from discreet.plan.plan import Plan
from discreet.plan.release import Release, one_release
from discreet.plan.rounds import Question
from discreet.privacy.claim import Claim, Setting
from discreet.report.evaluation import Evaluation

_REMEDY: Final = (
    "evaluate under SecureAggregation or DistributedDP to have curves and thresholds"
)
_UNKNOWN: Final = (
    "the class counts were not opened; declare a prevalence to have it, or open them "
    "with interval=True"
)


def evaluate(
    sites: Sequence[Examples],
    model: ExactMPC | None = None,
    *,
    engine: Engine | None = None,
    prevalence: float | None = None,
    entropy: Entropy = SYSTEM,
    progress: Progress | None = None,
) -> Evaluation:
    """Compute the exact areas of the pooled data without pooling them.

    All parties run in this process, on the shares and the program that separate
    processes would run: the result is the same, the protection is not there.

    Args:
        sites: the owners' examples.
        model: exact ties and public sizes by default.
        engine: who computes; SPU's three parties as threads by default.
        prevalence: public: roughly which share of the examples is positive. Where
            no interval is opened it gives the values a sampling error, which the
            class counts, being secret, cannot.
        entropy: secret bytes for the noise of a noisy opening.
        progress: called with a few words at the start of each phase.

    >>> from discreet.mpc.engine import Reference
    >>> north = Examples([0.9, 0.4], [1, 0])
    >>> south = Examples([0.4, 0.1], [1, 0])
    >>> evaluate([north, south], engine=Reference()).auc.value
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
    engine: Engine | None = None,
    entropy: Entropy = SYSTEM,
    progress: Progress | None = None,
) -> Evaluation:
    """Carry out a plan of exact areas over owners in this process."""
    check_sites(sites)
    model = plan.privacy
    hidden = isinstance(model, ExactMPC) and model.hide_sizes
    padded = padded_size(max(len(site) for site in sites)) if hidden else None
    owners = [
        encode(site, padded_to=padded)
        for site in sites
        if padded is not None or len(site) > 0
    ]
    program = Program.of(plan, [owner.rows for owner in owners])
    noise = (
        []
        if program.epsilon is None
        else [
            noise_share(program.rows, program.epsilon, entropy=entropy)
            for _ in range(PARTIES)
        ]
    )
    found = (engine or SpuSimulator()).run(
        program, owners, noise=noise, progress=progress
    )
    setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
    return evaluation_of(plan, found, session=secrets.token_bytes(16), setting=setting)


def check_sites(sites: Sequence[Examples]) -> None:
    """Refuse what cannot be pooled, before anything is shared."""
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if len({site.scores for site in sites}) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    if not any(len(site) for site in sites):
        raise InputError("there are no examples: give at least one site that has some")


def evaluation_of(
    plan: Plan, found: Opened, *, session: bytes, setting: Setting
) -> Evaluation:
    """Build the analyst's result from what was opened, and from nothing else."""
    owners = plan.cohort.min_survivors
    loss = plan.privacy.loss
    values = Program.of(plan, [shared_rows(plan.rounds).rows]).checked(found.values)
    release = Release(plan.digest(), session, 0, values, owners, owners, loss)
    claim = plan.claim(setting, sites=owners)
    fit = ScalarFit(
        read(plan, [release], claim=claim),
        remedy=_REMEDY,
        notes=notes_of(plan),
        facts={
            "rows": shared_rows(plan.rounds).rows,
            "bytes": found.bytes_sent,
            "rounds": found.rounds,
            "seconds": round(found.seconds, 2),
        },
    )
    return Evaluation(fit, claim, owners, owners, plan, (release,))


def read(
    plan: Plan, releases: Sequence[Release], *, claim: Claim
) -> dict[Metric, Estimate]:
    """Read the areas of an opening, with the errors that public facts allow."""
    total = one_release(releases, plan.digest(), 1).total
    program = Program.of(plan, [shared_rows(plan.rounds).rows])
    if program.noisy:
        return {"auc": NoisyPair.of(program, total).estimate(claim)}
    areas = program.areas(total)
    spread = Spread.of(program, total)
    known = None if program.padded else plan.facts.prevalence
    return {
        metric: _exact_estimate(metric, value, program.rows, spread or known)
        if not math.isnan(value)
        else Estimate.undefined(empty_class(areas))
        for metric, value in areas.items()
    }


def _exact_estimate(
    metric: Metric, value: float, rows: int, known: Spread | float | None
) -> Estimate:
    """Give an exact value the sampling error that what is known allows.

    Known is what was opened for an interval, or a declared prevalence, or nothing.
    """
    binning = Binning(value, value, 0.0)
    if isinstance(known, Spread):
        positives = known.positives
    else:
        positives = 0 if known is None else round(known * rows)
    if not 0 < positives < rows:
        return Estimate(value, None, 0.0, binning, caution=_UNKNOWN)
    shape: Shape
    if metric == "auc":
        area = AreaShape(positives, rows - positives)
        own = known.variance if isinstance(known, Spread) else area.variance
        shape, variance = area, own(value)
    else:  # the binomial variance of Boyd, Eng and Page (2013)
        shape, variance = (
            ProportionShape(trials=positives),
            value * (1 - value) / positives,
        )
    sampling = math.sqrt(max(variance, 0.0))
    return Estimate(value, sampling, 0.0, binning, shape=shape)


def notes_of(plan: Plan) -> tuple[str, ...]:
    """What a reader should know about these values."""
    program = Program.of(plan, [shared_rows(plan.rounds).rows])
    found = []
    if program.ties == "none":
        found.append(
            "equal scores were taken as different ones, negatives first: the values are "
            "exact only if no two scores are equal"
        )
    if program.interval:
        found.append(
            "the AUC's sampling error is DeLong's; that of the PR areas is the binomial "
            "one of the opened number of positives"
        )
    elif plan.facts.prevalence is not None and not program.noisy:
        found.append(
            "the total of the examples is hidden, so there is no sampling error"
            if program.padded
            else "the sampling error rests on the declared prevalence"
        )
    return tuple(found)
