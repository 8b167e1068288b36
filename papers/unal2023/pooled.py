"""Rows of several owners, their areas in the clear, and the same from shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.mpc.engine import RevealedAreas, SpuSimulator
from discreet.mpc.model import ExactMPC, TieRule
from discreet.mpc.program import Program
from discreet.mpc.shares import encode
from papers.data import Scored

STEPS: Final = 4096
"""Steps of synthetic scores: some of them tie."""


@dataclass(frozen=True, eq=False)
class Opening:
    """The revealed areas, what revealing them cost, and how far they are off."""

    areas: dict[str, float]
    cost: RevealedAreas
    error: float


def simulate_rows(sizes: Sequence[int], rng: np.random.Generator) -> list[Scored]:
    """Draw scored rows of owners, a quarter of them positive, some scores equal."""
    found = []
    for number, size in enumerate(sizes):
        labels = (rng.random(size) < 0.25).astype(np.int64)
        labels[0] = number % 2  # both classes are there however small the sizes
        logits = 1.6 * labels - 1.2 + rng.standard_normal(size)
        scores = np.round(STEPS / (1 + np.exp(-logits))) / STEPS
        found.append(Scored(f"owner {number + 1}", scores, labels, simulated=True))
    return found


def pool(owners: Sequence[Scored]) -> Scored:
    """Put all rows together, which only a test can do."""
    return Scored(
        "pooled",
        np.concatenate([owner.scores for owner in owners]),
        np.concatenate([owner.labels for owner in owners]),
        simulated=all(owner.simulated for owner in owners),
    )


def descending(rows: Scored) -> tuple[FloatVector, IntVector]:
    """Return scores and labels from the highest score down."""
    order = np.argsort(-rows.scores, kind="stable")
    return rows.scores[order], rows.labels[order]


def trapezoid_aupr(rows: Scored) -> float:
    """Return the area under the PR curve joined by straight lines, from precision 1."""
    scores, labels = descending(rows)
    last = np.append(np.flatnonzero(np.diff(scores)), scores.size - 1)
    tp = np.cumsum(labels)[last].astype(np.float64)
    precision = np.append(1.0, tp / (last + 1))
    recall = np.append(0.0, tp / tp[-1])
    return float(np.diff(recall) @ (precision[1:] + precision[:-1]) / 2)


def in_the_clear(rows: Scored) -> dict[str, float]:
    """Return the exact areas of pooled rows in floating point."""
    return {
        "auc": rows.auc,
        "average_precision": rows.average_precision,
        "aupr": trapezoid_aupr(rows),
    }


def largest_error(areas: dict[str, float], rows: Scored) -> float:
    """Compare revealed areas with those in the clear."""
    return max(abs(areas[m] - value) for m, value in in_the_clear(rows).items())


def from_shares(owners: Sequence[Scored], ties: TieRule = "exact") -> Opening:
    """Open all areas with SPU's three parties as threads: the protocol is real."""
    encoded = [encode(Examples(owner.scores, owner.labels)) for owner in owners]
    model = ExactMPC(ties, interval=False)
    program = Program(tuple(owner.rows for owner in encoded), model)
    revealed = SpuSimulator().run(program, encoded)
    areas = program.areas(program.checked(revealed.values))
    named = {str(metric): value for metric, value in areas.items()}
    return Opening(named, revealed, largest_error(named, pool(owners)))
