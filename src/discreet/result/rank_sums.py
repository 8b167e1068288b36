"""The result of rank sums: an AUC with its errors, and no curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet.estimate.reading import ScalarReading
from discreet.plan.plan import Plan
from discreet.plan.release import Release, one_release
from discreet.privacy.claim import Claim
from discreet.ranks.opened_sums import REMEDY, RankReading, read
from discreet.ranks.rank_terms import RankSumTerms
from discreet.result.evaluation import Evaluation


def rank_evaluation(
    plan: Plan, releases: Sequence[Release], claim: Claim
) -> Evaluation:
    """Read what a plan of rank sums opened."""
    last = one_release(releases, plan.digest(), len(plan.rounds))
    this = plan.resolve(len(plan.rounds) - 1, releases[:-1])
    terms = RankSumTerms.of(this.statistic, this.loss, colluders=plan.cohort.colluders)
    reading = read(terms, last.total)
    found = rank_result(reading, claim, last.contributors, last.expected)
    return replace(found, plan=plan, releases=tuple(releases))


def rank_result(
    reading: RankReading, claim: Claim, contributors: int, expected: int
) -> Evaluation:
    """Return the evaluation of one reading."""
    found = ScalarReading(
        {"auc": reading.auc},
        remedy=REMEDY,
        notes=reading.notes,
        facts={"examples": reading.examples},
    )
    return Evaluation(found, claim, contributors, expected)
