"""Figure 1: how far one row moves an AUC."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from papers.boyd2015.pool import Sample
from papers.data import Data
from papers.figures import Figure, Panel, Series
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Check, Table, check_number, check_that, shown

N: Final = 15
PAPER_D: Final = Fraction(179, 225)
"""The only AUC of 15 and 15 examples that is printed as .796."""
PAPER_NEXT: Final = Fraction(173, 224)
"""The only AUC of 16 and 14 examples that is printed as .772."""
_TRIES: Final = 4000
_SEARCHED: Final = (
    "D and D' are found by search: the paper does not list its rows, but 179/225 and "
    "173/224 are the only AUCs of these sizes that round to what it prints."
)


def neighbour_aucs(sample: Sample) -> dict[str, FloatVector]:
    """Return the AUCs of all neighbours, by what happens to the one row.

    A row's place among the other class is all that counts: b, the others that it
    wins against, takes every value from none to all.
    """
    p, q = np.sort(sample.positives), np.sort(sample.negatives)
    n, m = p.size, q.size
    lost = n - np.searchsorted(p, q)  # positives above each negative
    won = np.searchsorted(q, p)  # negatives below each positive
    wins = float(won.sum())

    def moved(taken: NDArray[np.intp], most: int, pairs: int) -> FloatVector:
        found: FloatVector = (wins - taken[:, None] + np.arange(most + 1)) / pairs
        return found.ravel()

    return {
        "a negative moves": moved(lost, n, n * m),
        "a positive moves": moved(won, m, n * m),
        "a negative becomes a positive": moved(lost, m - 1, (n + 1) * (m - 1)),
        "a positive becomes a negative": moved(won, n - 1, (n - 1) * (m + 1)),
    }


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Draw 15 and 15 rows; find the largest change that one row can make."""
    sample = Sample.draw(data.scored("adult-lr"), N, N, rng)
    value = sample.value("AUC")
    found = neighbour_aucs(sample)
    return {
        "auc": np.array([value]),
        **{name: np.array([np.abs(v - value).max()]) for name, v in found.items()},
    }


def example(data: Data) -> tuple[Sample, Sample] | None:
    """Find a data set and a neighbour with exactly the paper's two AUCs."""
    rng = np.random.default_rng(1)
    for _ in range(_TRIES):
        sample = Sample.draw(data.scored("adult-lr"), N, N, rng)
        if abs(sample.value("AUC") - float(PAPER_D)) > 1e-9:
            continue
        p, q = np.sort(sample.positives), np.sort(sample.negatives)
        for k in range(N):
            rest = np.delete(q, k)
            for place in np.append(rest - 1e-9, 1.0):
                other = Sample(np.append(p, place), rest)
                if abs(other.value("AUC") - float(PAPER_NEXT)) < 1e-9:
                    return sample, other
    return None


def report(data: Data, runs: Runs) -> Report:
    """Show the paper's pair again, and the bound of Theorem 3 beside all neighbours."""
    names = [name for name in runs.found[0] if name != "auc"]
    bound = 1 / N
    rows = [
        (name, float(runs.mean(name)[0]), float(runs.all(name).max()), bound)
        for name in names
    ]
    largest = max(row[2] for row in rows)
    pair = example(data)
    checks: list[Check] = [
        check_that(
            "no neighbour is further away than Theorem 3 allows",
            largest <= bound + 1e-12,
            paper=f"1/min(n, m) = {shown(bound)}",
            ours=f"largest of all neighbours of {len(runs)} samples: {shown(largest)}",
        )
    ]
    figures: tuple[Figure, ...] = ()
    if pair is not None:
        for words, sample, printed in zip(
            ("AUC of D", "AUC of its neighbour D'"), pair, (0.796, 0.772), strict=True
        ):
            checks.append(
                check_number(
                    words,
                    paper=printed,
                    ours=sample.value("AUC"),
                    error=0.0,
                    tolerance=0.0005,
                )
            )
        figures = (_figure(pair),)
    return Report(
        (
            Table(
                "figure-1",
                f"Change of the AUC by one row, 15 + 15 rows of adult, {len(runs)} samples",
                ("the row", "largest change, mean", "largest of all", "Theorem 3"),
                tuple(rows),
            ),
        ),
        tuple(checks),
        figures,
        (
            data.scored("adult-lr").source,
            _SEARCHED,
        ),
    )


def _figure(pair: tuple[Sample, Sample]) -> Figure:
    series = []
    for k, (sample, name) in enumerate(zip(pair, ("D", "D'"), strict=True)):
        cuts = np.sort(np.append(sample.positives, sample.negatives))[::-1]
        tpr = [float((sample.positives >= c).mean()) for c in cuts]
        fpr = [float((sample.negatives >= c).mean()) for c in cuts]
        series.append(
            Series(np.append(0.0, fpr), np.append(0.0, tpr), name, "line", colour=2 * k)
        )
    panel = Panel(
        "15 + 15 rows, and one of them changed",
        tuple(series),
        "false positive rate",
        "true positive rate",
    )
    return Figure("figure-1", "Boyd 2015, figure 1", (panel,))


FIGURE_1: Final = Item(
    "figure-1",
    "Figure 1: ROC curves of two neighbours",
    measure,
    report,
    needs=("adult-lr",),
    runs=200,
)
