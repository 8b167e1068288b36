"""A rehearsal: everything runs, on made-up data, and nobody is charged.

A plan that is rehearsed is another plan: ``rehearsal`` is part of its digest, and so of
its session, its messages, its masks and its signatures. No answer to one can be taken
for an answer to the other, and a site declines whichever it did not agree to. What
stands in for the data is drawn from the plan's public facts alone.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from discreet.data.examples import Examples
from discreet.errors import PlanError
from discreet.plan.plan import Plan
from discreet.privacy.ledger import Ledger
from discreet.session.policy import AllowAll
from discreet.statistic import (
    Grouped,
    MultiLabel,
    OneVsOne,
    OneVsRest,
    Paired,
    PairedInGroups,
)
from discreet.statistic.timed import causes_of

FEWEST: Final = 200
MOST: Final = 2000
"""Made-up examples of a site; a plan that knows its size gets a site's share of it."""
PERMISSIVE: Final = AllowAll(population="made up", privacy=())
"""What a node with made-up data allows: every plan."""


def check_agreed(plan: Plan, *, rehearsing: bool) -> None:
    """Refuse a rehearsal where none was agreed on, and the other way round."""
    if plan.rehearsal and not rehearsing:
        raise PlanError(
            "the plan is a rehearsal's, and this end does not rehearse: both ends say "
            "--rehearse, or neither"
        )
    if rehearsing and not plan.rehearsal:
        raise PlanError(
            "this end rehearses, and the plan is in earnest: both ends say "
            "--rehearse, or neither"
        )


def made_up(plan: Plan, rng: np.random.Generator | None = None) -> Examples:
    """Draw examples of a plan's shape: a middling model, from public facts alone."""
    rng = np.random.default_rng() if rng is None else rng
    cohort, statistic = plan.cohort, plan.rounds[0].statistic
    share = (plan.facts.examples or 0) // max(cohort.min_survivors, 1)
    size = max(min(share, MOST), FEWEST, cohort.min_examples_per_site)
    groups: NDArray[Any] | None = None
    if statistic.told_apart:
        groups = rng.choice(np.array(statistic.told_apart), size)
    if statistic.time_cuts is not None:
        return _followed_up(plan, groups, size, rng)
    if isinstance(statistic, Grouped | PairedInGroups):
        statistic = statistic.inner
    if isinstance(statistic, OneVsRest | OneVsOne):
        classes = statistic.classes
        truth = rng.integers(0, len(classes), size)
        raw = np.exp(
            rng.normal(0, 1, (size, len(classes))) + np.eye(len(classes))[truth]
        )
        shares = raw / raw.sum(axis=1, keepdims=True)
        return _examples(plan, shares, np.array(classes)[truth], groups, classes)
    prevalence = plan.facts.prevalence or 0.3
    if isinstance(statistic, MultiLabel):
        truths = rng.random((size, len(statistic.labels))) < prevalence
        latent = rng.normal(1.5 * truths - 1.0, 1.0)
        return _examples(plan, _in_range(plan, latent), truths, None, None)
    labels = rng.random(size) < prevalence
    columns = 2 if isinstance(statistic, Paired) else 1
    latent = rng.normal(1.5 * labels[:, None] - 1.0, 1.0, (size, columns))
    scores = _in_range(plan, latent)
    return _examples(
        plan, scores if columns > 1 else scores[:, 0], labels, groups, None
    )


def _followed_up(
    plan: Plan, groups: NDArray[Any] | None, size: int, rng: np.random.Generator
) -> Examples:
    """Draw follow-up of a plan's shape: events, and others who leave evenly."""
    statistic, last = plan.rounds[0].statistic, plan.horizons[-1]
    columns, causes = len(statistic.columns), causes_of(statistic)
    rate = plan.facts.prevalence or 0.3
    latent = rng.normal(0.0, 1.0, (size, columns))
    scale = -last / np.log1p(-rate) * np.exp(-latent.mean(axis=1))
    times, until = rng.exponential(scale), 2.5 * last * rng.random(size)
    events = np.where(times <= until, rng.integers(1, causes + 1, size), 0)
    scores = _in_range(plan, latent - 1.0)
    kind = plan.facts.scores
    other = kind.kind == "other"
    return Examples(
        scores if columns > 1 else scores[:, 0],
        time=np.minimum(times, until),
        event=events,
        causes=causes,
        groups=groups,
        subjects=np.arange(size),
        kind=kind.kind,
        low=kind.low if other else None,
        high=kind.high if other else None,
        name="made up",
    )


def _in_range(plan: Plan, latent: FloatVector) -> FloatVector:
    kind = plan.facts.scores
    if kind.kind == "logit":
        return np.clip(latent, kind.low, kind.high)
    spread: FloatVector = 1 / (1 + np.exp(-latent))
    if kind.kind == "other":
        return kind.low + (kind.high - kind.low) * spread
    return spread


def _examples(
    plan: Plan,
    scores: FloatVector,
    labels: NDArray[Any],
    groups: NDArray[Any] | None,
    classes: tuple[str, ...] | None,
) -> Examples:
    kind = plan.facts.scores
    other = kind.kind == "other"
    return Examples(
        scores,
        labels,
        groups=groups,
        subjects=np.arange(len(labels)),
        weights=np.ones(len(labels), dtype=np.int64),
        classes=classes,
        kind=kind.kind,
        low=kind.low if other else None,
        high=kind.high if other else None,
        name="made up",
    )


def throwaway_folder() -> Path:
    """Make a folder for records that are gone with this process."""
    made = Path(tempfile.mkdtemp(prefix="discreet-made-up-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def throwaway_ledger(path: Path) -> Path:
    """Start a record of a node's own, once; return its path."""
    if not path.exists():
        Ledger.new(path).close()
    return path
