"""Whether an opened sum can be one of counts, as far as the sum alone shows it.

A site can send any vector, and a secure sum hides whose it was. From what is impossible
for every honest cohort no metric is read; what is only unlikely, or impossible but for the noise,
is told to the reader. A lie within these limits is not seen here: its effect is
bounded (``metrics.influence``), and random groups show it (``result.random_groups``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from discreet.estimate.slopes import covariance_of
from discreet.metrics.influence import NOISE_SDS
from discreet.noise.mechanism import Opened
from discreet.plan.plan import Plan
from discreet.statistic.observed import NoisyHistogram

FAR: Final = 10.0
"""A total so many times larger or smaller than was declared is told to the reader."""


def without_negatives(opened: Opened) -> Opened:
    """Read nothing from an exact sum with a negative count: no site counts below none.

    The sum was paid for and opened. So it gives a result like any other, in which
    every metric is unusable for this reason.
    """
    if opened.noise.scale > 0 or not (opened.counts < 0).any():
        return opened
    reason = (
        "the exact sum holds negative counts, which no data give: a site sent what is "
        "no count; ask again in random groups to find where, or leave out the sites "
        "that are in doubt"
    )
    return replace(opened, counts=np.maximum(opened.counts, 0), refusal=reason)


def against_sizes(
    plan: Plan, part: NoisyHistogram, contributors: int, *, whole: bool
) -> NoisyHistogram:
    """Add what a part's total says about the plan's declared sizes.

    ``whole``: it is the only part. An exact total above what the sites may hold is
    unusable, a noisy one gets a note.
    """
    each, declared = plan.cohort.max_examples_per_site, plan.facts.examples
    if each is None and declared is None:
        return part
    total = part.total_negatives + part.total_positives
    slack = NOISE_SDS * _noise_sd(part)
    refusal, notes = part.refusal, []
    if each is not None and total > each * contributors + slack:
        above = (
            f"than {contributors} sites of at most {each:,} examples may hold: at "
            "least one site sent what it does not have"
        )
        if part.exact:
            refusal = refusal or f"the exact sum holds more examples {above}"
        else:
            notes.append(
                f"this release holds more examples {above}, or the noise is beyond "
                f"{NOISE_SDS:g} standard deviations"
            )
    if declared is not None:
        if total > FAR * declared + slack:
            notes.append(_far("above", declared))
        # One of several groups may be small without anybody's lie.
        elif whole and total < declared / FAR - slack:
            notes.append(_far("below", declared))
    return replace(part, refusal=refusal, notes=(*part.notes, *notes))


def _far(side: str, declared: int) -> str:
    return (
        f"the total is more than {FAR:g} times {side} the {declared:,} examples that "
        "the plan declares: the declaration is wrong, or a site's counts are"
    )


def _noise_sd(part: NoisyHistogram) -> float:
    """Return the standard deviation of the noise in the number of examples."""
    if part.exact:
        return 0.0
    variance = covariance_of(part, np.ones((1, 2 * len(part.edges))))[0, 0]
    return math.sqrt(max(float(variance), 0.0))
