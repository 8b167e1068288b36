"""Equations 1 and 2 and Algorithms 1, 2 and 4 as printed, on tied rows."""

from __future__ import annotations

from typing import Final

import numpy as np

from papers.data import Data
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Check, Table, check_that, shown
from papers.unal2023.pooled import (
    descending,
    in_the_clear,
    pool,
    simulate_rows,
)
from papers.unal2023.printed import (
    algorithm_4,
    differs_from_following,
    differs_from_preceding,
    equation_1,
    equation_2,
)

_ROWS: Final = (200, 200, 200)
_STEPS: Final = 20
"""Scores are cut to so few steps that most of them tie."""
_CLOSE: Final = 1e-9


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Evaluate every printed formula, and its correction, on 600 rows with ties."""
    del data
    rows = pool(simulate_rows(_ROWS, rng))
    rows = type(rows)(rows.name, np.round(rows.scores * _STEPS) / _STEPS, rows.labels)
    scores, labels = descending(rows)
    tp, fp = np.cumsum(labels).astype(float), np.cumsum(1 - labels).astype(float)
    tpr, fpr = tp / tp[-1], fp / fp[-1]
    precision = tp / np.arange(1.0, labels.size + 1)
    after, before = differs_from_following(scores), differs_from_preceding(scores)
    truth = in_the_clear(rows)
    numerator, denominator = equation_1(labels)
    return {
        "auc": np.array([truth["auc"]]),
        "aupr": np.array([truth["aupr"]]),
        "eq2/following": np.array([equation_2(tpr, fpr, after, start=0.0)]),
        "eq2/preceding": np.array([equation_2(tpr, fpr, before, start=0.0)]),
        "pr/start 1": np.array([equation_2(precision, tpr, after, start=1.0)]),
        "pr/start 0": np.array([equation_2(precision, tpr, after, start=0.0)]),
        "alg4/rank": np.array([algorithm_4(labels, after, rank_as_recall=True)]),
        "alg4/positives": np.array([algorithm_4(labels, after, rank_as_recall=False)]),
        "n": np.array([numerator], dtype=float),
        "d": np.array([denominator], dtype=float),
    }


def report(data: Data, runs: Runs) -> Report:
    """Show each formula beside the area that it means."""
    del data
    at = {name: float(runs.mean(name)[0]) for name in runs.found[0]}
    rows = (
        ("equation 2, AUROC", at["auc"], at["eq2/preceding"], at["eq2/following"]),
        ("equation 2, AUPR", at["aupr"], at["pr/start 0"], at["pr/start 1"]),
        ("Algorithm 4, AUPR", at["aupr"], at["alg4/rank"], at["alg4/positives"]),
    )
    return Report(
        (
            Table(
                "formulas",
                "Printed formulas on 600 rows with many ties",
                ("formula", "truth", "as printed", "corrected"),
                rows,
            ),
        ),
        (
            _misprint(
                "equation 2 sums over rows that differ from the preceding one",
                "AUROC",
                (at["auc"], at["eq2/preceding"]),
                better=f"rows that differ from the following one: "
                f"{at['eq2/following']:.4f}, as Algorithm 3 marks them",
                reason="a group of ties ends, not begins, where all its rows are counted",
            ),
            _misprint(
                "AUPR is equation 2 with T[0] = 0",
                "AUPR",
                (at["aupr"], at["pr/start 0"]),
                better=f"T[0] = 1, as Algorithm 4 starts: {at['pr/start 1']:.4f}",
                reason="precision starts at 1: section 3.2 and Algorithm 4 contradict "
                "each other",
            ),
            _misprint(
                "Algorithm 4 adds 1 a row to the recall",
                "AUPR",
                (at["aupr"], at["alg4/rank"]),
                better=f"recall from the positives: {at['alg4/positives']:.4f}",
                reason="RC is the rank, the denominator of precision, and is used as "
                "recall too; an area above 1 is none",
            ),
            check_that(
                "N is always greater than or equal to D (section 4.1)",
                at["n"] >= at["d"],
                paper="N >= D, therefore SecureNN's division",
                ours=f"N = {at['n']:,.0f}, D = {at['d']:,.0f}",
                better="N <= D, which that division needs",
                wrong=True,
                reason="AUROC = N/D is at most 1: the order is reversed",
            ),
            check_that(
                "equation 1 without ties is the AUROC",
                _without_ties(),
                paper="exact when no scores tie",
                ours="equal on 500 distinct scores",
            ),
        ),
    )


def _misprint(
    statement: str, area: str, values: tuple[float, float], *, better: str, reason: str
) -> Check:
    """Check a formula as printed: the true area, and what the formula gives."""
    truth, printed = values
    return check_that(
        statement,
        abs(printed - truth) < _CLOSE,
        paper=f"{area} {shown(printed) if printed > 1 else format(printed, '.4f')}",
        ours=f"{area} {truth:.4f}",
        better=better,
        wrong=True,
        reason=reason,
    )


def _without_ties() -> bool:
    rng = np.random.default_rng(1)
    labels = (rng.random(500) < 0.3).astype(np.int64)
    numerator, denominator = equation_1(labels)
    places = np.arange(500)
    won = places[labels == 1][:, None] < places[labels == 0][None, :]
    return numerator == int(won.sum()) and denominator == won.size


FORMULAS: Final = Item(
    "formulas",
    "Equations 1, 2, Algorithms 1, 4: as printed and corrected",
    measure,
    report,
    also=("equation-2", "algorithm-4"),
)
