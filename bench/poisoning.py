"""What false reports do: an adversary's search beside the stated amount.

    python bench/poisoning.py [--reports 200000] [--mixtures 60] [--save]

Of the reports 1% are false. An adversary tries every single symbol, arcs of neighbouring
symbols, random mixtures, and the best symbols of this search mixed in pairs. The largest move of
a metric is printed beside the stated amount (``discreet.report.poisoning``), and their ratio.
The margin was chosen on the simulated populations; a run on adult and bank led to decoding
without every symbol; cover-xgb was used for neither.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet import LocalDP, PublicFacts, recommend
from discreet.arrays import FloatVector, IntVector
from discreet.data.client_reports import CountedReports
from discreet.metrics.table import METRICS
from discreet.noise.arc import CircularArc, simulate_arc_counts
from discreet.report.evaluation import Evaluation
from discreet.report.poisoning import FALSE_SHARE, MARGIN, without
from discreet.transport.collecting import evaluate_reports

NAMES: Final = ("auc", "average_precision", "brier")
REAL: Final = ("adult-xgb-oof", "bank-xgb-oof", "cover-xgb")
SIMULATED: Final = ((0.5, 1.2), (0.2, 2.2), (0.05, 2.0), (0.2, 0.7))
"""Prevalence, and how far the classes' logits lie apart."""


def evaluated(
    scores: FloatVector, labels: IntVector, epsilon: int, rng: np.random.Generator
) -> Evaluation:
    """Simulate one report of each example and evaluate them."""
    facts = PublicFacts(scores.size, float(np.clip(labels.mean(), 0.01, 0.99)))
    plan = recommend(facts, LocalDP(epsilon, reports_per_person=1))
    arc = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    assert isinstance(arc, CircularArc)  # noqa: S101 - a script
    cells = arc.edges.bins_of(scores) + len(arc.edges) * labels
    exact = np.bincount(cells, minlength=arc.cells)
    tally = simulate_arc_counts(arc, exact, rng)
    return evaluate_reports(plan, CountedReports(tally, scores.size, 0, 0, 0, 0))


def values(result: Evaluation, sent: IntVector) -> FloatVector:
    """Return the metrics of the tally without these reports."""
    plan = result.plan
    assert plan is not None  # noqa: S101 - a script
    return without(plan, result.source.releases[-1], sent, NAMES)


def adversaries(
    total: IntVector, false: int, mixtures: int, rng: np.random.Generator
) -> Iterator[IntVector]:
    """Yield false reports: symbols, arcs, mixtures."""
    symbols = total.size

    def sent(weights: NDArray[np.floating[Any]]) -> IntVector:
        wanted = np.floor(false * weights / weights.sum()).astype(np.int64)
        wanted[int(weights.argmax())] += false - wanted.sum()
        taken: IntVector = np.minimum(wanted, total)
        return taken

    for symbol in range(symbols):
        yield sent(np.eye(symbols, dtype=np.float64)[symbol])
    for start in range(0, symbols, 4):
        for length in (4, 8, 16):
            yield sent(
                np.isin(np.arange(symbols), (start + np.arange(length)) % symbols) * 1.0
            )
    for _ in range(mixtures):
        chosen = rng.choice(symbols, int(rng.integers(2, 5)), replace=False)
        yield sent(np.isin(np.arange(symbols), chosen) * rng.random(symbols))


def searched(
    result: Evaluation, mixtures: int, rng: np.random.Generator
) -> FloatVector:
    """Return the largest move of each metric that the search found."""
    total = result.source.releases[-1].total
    false = int(np.ceil(FALSE_SHARE * total.sum()))
    start = values(result, np.zeros_like(total))
    moves, tried = [], []
    for sent in adversaries(total, false, mixtures, rng):
        moves.append(values(result, sent) - start)
        tried.append(sent)
    found = np.array(moves)
    for k in range(len(NAMES)):  # pairs of the best
        for sign in (1, -1):
            first, second = np.argsort(-sign * np.nan_to_num(found[:, k]))[:2]
            both = (tried[first] + tried[second]) // 2
            found = np.vstack([found, values(result, both) - start])
            tried.append(both)
    largest: FloatVector = np.nanmax(np.abs(found), axis=0)
    return largest


def main() -> None:
    from evidence import FITS, Cell, Evidence, Figure  # noqa: PLC0415 - beside this script

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=200_000)
    parser.add_argument("--mixtures", type=int, default=60)
    parser.add_argument("--epsilons", type=int, nargs="+", default=[1, 2, 5])
    parser.add_argument("--parts", nargs="+", default=["simulated", "real"])
    parser.add_argument("--save", action="store_true", help="keep it in results/")
    given = parser.parse_args()
    settings = {"reports": given.reports, "share": FALSE_SHARE, "margin": MARGIN}
    evidence = Evidence("poisoning", (*FITS, "report/poisoning"), settings)
    for part in given.parts:
        rows: list[list[Cell]] = []
        worst = 0.0
        for title, scores, labels in populations(part, given.reports):
            for epsilon in given.epsilons:
                rng = np.random.default_rng(20261118)
                result = evaluated(scores, labels, epsilon, rng)
                stated = result.influence()
                row: list[Cell] = [title, str(epsilon)]
                if stated:
                    largest = searched(result, given.mixtures, rng)
                    for name, found in zip(NAMES, largest, strict=True):
                        row.append(f"{found:.4f} of {stated[name]:.4f}")
                        worst = max(worst, float(found) / stated[name])
                else:
                    row += ["refused"] * len(NAMES)
                rows.append(row)
                print(row, f"worst ratio so far {worst:.2f}", flush=True)
        evidence.table(part, ("data", "eps", *(METRICS[n].title for n in NAMES)), rows)
        evidence.figure(f"{part}-worst", Figure(worst))
    if given.save:
        evidence.save()


def populations(part: str, size: int) -> Iterator[tuple[str, FloatVector, IntVector]]:
    """Yield scores and labels: simulated ones, or real ones drawn with replacement."""
    rng = np.random.default_rng(7)
    if part == "simulated":
        for prevalence, apart in SIMULATED:
            y = (rng.random(size) < prevalence).astype(np.int64)
            shift = np.log(prevalence / (1 - prevalence))
            s = 1 / (1 + np.exp(-rng.normal(apart * y + shift - apart / 2, 1)))
            yield f"{prevalence:g}, {apart:g} apart", s, y
        return
    from datasets import load, needs  # noqa: PLC0415 - beside this script

    needs(*REAL)
    for name in REAL:
        data = load(name)
        taken = rng.integers(0, data.scores.size, size)
        yield name, data.scores[taken], data.labels[taken].astype(np.int64)


if __name__ == "__main__":
    main()
