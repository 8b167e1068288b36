"""Exact areas of several owners' pooled data, in one process or from an opening."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.estimate.estimate import Binning, Estimate, Normal, NotYet, Zero
from discreet.estimate.intervals import SYMMETRIC, AreaShape, ProportionShape, Shape
from discreet.estimate.reading import ScalarReading
from discreet.exact.encode import encode, padded_size
from discreet.exact.engine import Engine, Opened, Progress
from discreet.exact.model import ExactMPC
from discreet.exact.noisy import NoisyPair, noise_share
from discreet.exact.program import AREAS, PARTIES, Program, empty_class
from discreet.exact.spu_engine import SpuSimulator
from discreet.metrics.table import METRICS
from discreet.privacy.claim import Claim, Setting
from discreet.privacy.loss import exact
from discreet.result.evaluation import Evaluation

_REMEDY: Final = (
    "evaluate under SecureAggregation or DistributedDP to have curves and thresholds"
)
_SEMI_HONEST: Final = (
    "every compute party follows the protocol; one of them may be curious, and share "
    "what it sees with any number of owners"
)
_UNKNOWN: Final = NotYet(
    "the class counts were not opened; declare a prevalence to have it"
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
        prevalence: public: roughly which share of the examples is positive. It
            gives the values a sampling error, which the class counts, being
            secret, cannot.
        entropy: secret bytes for the noise of a noisy opening.
        progress: called with a few words at the start of each phase.

    >>> from discreet.exact.reference import Reference
    >>> north = Examples([0.9, 0.4], [1, 0])
    >>> south = Examples([0.4, 0.1], [1, 0])
    >>> evaluate([north, south], engine=Reference()).auc.value
    0.875
    """
    chosen = model or ExactMPC()
    check_sites(sites)
    largest = max(len(site) for site in sites)
    padded = padded_size(largest) if chosen.hide_sizes else None
    owners = [
        encode(site, padded_to=padded)
        for site in sites
        if padded is not None or len(site) > 0
    ]
    program = program_of(chosen, [owner.rows for owner in owners])
    noise = (
        [
            noise_share(program.rows, program.epsilon, entropy=entropy)
            for _ in range(PARTIES)
        ]
        if program.epsilon is not None
        else []
    )
    opened = (engine or SpuSimulator()).run(
        program, owners, noise=noise, progress=progress
    )
    return evaluation_of(
        program,
        opened,
        owners=len(sites),
        setting="seeded" if isinstance(entropy, Seeded) else "simulated",
        prevalence=prevalence,
    )


def check_sites(sites: Sequence[Examples]) -> None:
    """Refuse what cannot be pooled, before anything is shared."""
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if len({site.scores for site in sites}) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    if not any(len(site) for site in sites):
        raise InputError("there are no examples: give at least one site that has some")


def program_of(model: ExactMPC, sizes: Sequence[int]) -> Program:
    """Return the program that a model asks for, over owners of these sizes."""
    epsilon = None if model.epsilon is None else exact(model.epsilon)
    return Program(
        tuple(sizes),
        metrics=AREAS if epsilon is None else ("auc",),
        ties=model.ties,
        padded=model.hide_sizes,
        epsilon=epsilon,
    )


def model_of(program: Program) -> ExactMPC:
    """Return the privacy model that a program carries out."""
    return ExactMPC(program.ties, program.padded, program.epsilon)


def evaluation_of(
    program: Program,
    opened: Opened,
    *,
    owners: int,
    setting: Setting,
    prevalence: float | None = None,
) -> Evaluation:
    """Build the analyst's result from what was opened, and from nothing else."""
    if prevalence is not None and not 0 < prevalence < 1:
        raise InputError("the declared prevalence lies strictly between 0 and 1")
    claim = claim_of(program, owners=owners, setting=setting)
    metrics: dict[str, Estimate]
    if program.noisy:
        metrics = {"auc": NoisyPair.of(program, opened.values).estimate(claim)}
    else:
        areas = program.decode(opened.values)
        known = None if program.padded else prevalence
        metrics = {
            metric: _exact_estimate(metric, value, program.rows, known)
            if not math.isnan(value)
            else Estimate.undefined(empty_class(areas))
            for metric, value in areas.items()
        }
    reading = ScalarReading(
        metrics,
        remedy=_REMEDY,
        notes=_notes(program, prevalence),
        facts={
            "rows": program.rows,
            "bytes": opened.bytes_sent,
            "rounds": opened.rounds,
            "seconds": round(opened.seconds, 2),
        },
    )
    return Evaluation(reading, claim, owners, owners)


def _exact_estimate(
    metric: str, value: float, rows: int, prevalence: float | None
) -> Estimate:
    """Give an exact value the sampling error that public facts allow."""
    binning = Binning(value, value, 0.0)
    positives = 0 if prevalence is None else round(prevalence * rows)
    if not 0 < positives < rows:
        return Estimate(value, _UNKNOWN, Zero(), binning)
    shape: Shape = SYMMETRIC
    if metric == "auc":
        area = AreaShape(positives, rows - positives)
        shape, variance = area, area.variance(value)
    else:  # the binomial variance of Boyd, Eng and Page (2013)
        shape, variance = ProportionShape(), value * (1 - value) / positives
    sampling = Normal(math.sqrt(max(variance, 0.0)))
    return Estimate(value, sampling, Zero(), binning, shape=shape)


def _notes(program: Program, prevalence: float | None) -> tuple[str, ...]:
    found = []
    if program.ties == "none":
        found.append(
            "equal scores were taken in the order in which they came: the values are "
            "exact only if no two scores are equal"
        )
    if prevalence is not None and not program.noisy:
        found.append(
            "the total of the examples is hidden, so there is no sampling error"
            if program.padded
            else "the sampling error rests on the declared prevalence"
        )
    return tuple(found)


def claim_of(program: Program, *, owners: int, setting: Setting) -> Claim:
    """Return what a run of this program promises."""
    model = model_of(program)
    if program.noisy:
        opened = "a noisy AUC and a noisy number of positives, to the analyst"
    else:
        names = [METRICS[metric].title for metric in program.metrics]
        opened = f"the exact {', '.join(names)}, to the analyst"
    if program.padded:
        sizes = f"that no owner has more than {max(program.sizes):,} examples"
    else:
        sizes = "how many examples each owner has, to the compute parties"
    return Claim(
        unit=model.protects,
        loss=model.loss,
        trust=model.trust,
        computational=model.computational,
        setting=setting,
        discloses=(opened, sizes),
        not_protected=model.caveats(owners),
        assumes=(_SEMI_HONEST,),
    )
