"""Figure 5: calibration error after recalibration, over the evaluation bins."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.optimize import isotonic_regression

from discreet.arrays import FloatVector
from discreet.recalibrate import fit
from discreet.recalibrate.stepwise import fit_bbq, fit_binning
from papers.cormode2023.models import (
    TRUSTS,
    leaves_of,
    simulate_ours,
    simulate_tree,
)
from papers.cormode2023.population import (
    REAL,
    SETS,
    calibration_error,
    draw,
    sources,
)
from papers.data import Data, Scored
from papers.figures import Figure, Panel, Series
from papers.fits import each
from papers.registry import Item, Measured, Report, Runs
from papers.tables import Check, Table, check_ours, check_that, shown

BINS: Final = (5, 10, 20, 50, 100)
HEIGHT: Final = 10
ROWS: Final = 200_000
"""Half of them fit, half of them test."""
METHODS: Final = ("binning", "BBQ", "ours")


def central_isotonic(train: Scored, scores: FloatVector) -> FloatVector:
    """Return what isotonic regression of the pooled half says of other scores."""
    order = np.argsort(train.scores, kind="stable")
    fitted = isotonic_regression(train.labels[order].astype(np.float64)).x
    rates: FloatVector = np.interp(scores, train.scores[order], fitted)
    return rates


def halves(data: Data, name: str, rng: np.random.Generator) -> tuple[Scored, Scored]:
    """Draw examples and cut them in two."""
    both = draw(data, name, ROWS, rng)
    half = both.labels.size // 2
    return (
        Scored(name, both.scores[:half], both.labels[:half], both.simulated),
        Scored(name, both.scores[half:], both.labels[half:], both.simulated),
    )


def measure(data: Data, rng: np.random.Generator) -> Measured:
    """Return held-out ECE over the evaluation bins of every map."""
    found: dict[str, FloatVector] = {}
    for name in SETS:
        train, test = halves(data, name, rng)
        labels = test.labels.astype(np.float64)

        def over_bins(said: FloatVector, labels: FloatVector = labels) -> FloatVector:
            return np.array([calibration_error(said, labels, b) for b in BINS])

        found[f"{name}/uncalibrated"] = over_bins(test.scores)
        found[f"{name}/isotonic"] = over_bins(central_isotonic(train, test.scores))
        for trust in TRUSTS:
            leaves = leaves_of(simulate_tree(train, trust, HEIGHT, rng))
            found[f"{name}/{trust}/binning"] = np.array(
                [
                    calibration_error(
                        fit_binning(leaves, bins=b).apply(test.scores), labels, b
                    )
                    for b in BINS
                ]
            )
            found[f"{name}/{trust}/BBQ"] = over_bins(fit_bbq(leaves).apply(test.scores))
            ours = fit(*simulate_ours(train, trust, rng)).apply(test.scores)
            found[f"{name}/{trust}/ours"] = over_bins(ours)
    return found


def report(data: Data, runs: Runs) -> Report:
    """Show ECE over bins for each set and model."""
    rows: list[tuple[str | float, ...]] = []
    for name in SETS:
        for word in ("uncalibrated", "isotonic"):
            found = runs.mean(f"{name}/{word}")
            rows.append((name, "pooled", word, *(float(v) for v in found)))
        for trust in TRUSTS:
            for method in METHODS:
                found = runs.mean(f"{name}/{trust}/{method}")
                rows.append((name, trust, method, *(float(v) for v in found)))
    return Report(
        (
            Table(
                "figure-5",
                f"Held-out ECE over evaluation bins, {data.rows(ROWS) // 2:,} clients to "
                f"fit, {len(runs)} runs",
                ("data", "model", "map", *(f"{b} bins" for b in BINS)),
                tuple(rows),
            ),
        ),
        _checks(runs),
        (_figure(runs),),
        sources(data),
    )


def _checks(runs: Runs) -> tuple[Check, ...]:
    ten = BINS.index(10)

    def at_ten(key: str) -> float:
        return float(runs.mean(key)[ten])

    shifted = ("sep", "nov")
    fed = {n: at_ten(f"{n}/Federated/BBQ") for n in SETS}
    dist = {n: at_ten(f"{n}/DistDP/binning") for n in SETS}
    local = {n: at_ten(f"{n}/LocalDP/binning") for n in SETS}
    many = {n: float(runs.mean(f"{n}/LocalDP/binning")[-1]) for n in SETS}
    raw = {n: at_ten(f"{n}/uncalibrated") for n in SETS}
    isotonic = {n: at_ten(f"{n}/isotonic") for n in SETS}
    ours = {t: {n: at_ten(f"{n}/{t}/ours") for n in SETS} for t in TRUSTS}
    bbq = {n: at_ten(f"{n}/LocalDP/BBQ") for n in SETS}
    return (
        check_that(
            "Federated: an error of about .01",
            max(fed[n] for n in shifted) < 0.015,
            paper="about .01; uncalibrated .1 (Sep), .08 (Nov)",
            ours=f"BBQ {each(fed)}; uncalibrated {each(raw)}",
            better=each(ours["Federated"]),
        ),
        check_that(
            "DistDP changes little",
            max(dist.values()) < 0.02,
            paper="about .01",
            ours=f"binning {each(dist)}",
            better=each(ours["DistDP"]),
        ),
        check_that(
            "LocalDP: .02 and higher, fewer buckets better",
            all(local[n] < many[n] for n in SETS),
            paper="<= 10 buckets keep it near .02",
            ours=f"10 buckets {each(local)}; 100 buckets {each(many)}",
            better=each(ours["LocalDP"]),
        ),
        check_that(
            "Oct, LocalDP: recalibration does more harm than good",
            bbq["oct"] > raw["oct"],
            paper="the uncalibrated scores have the smaller error",
            ours=f"BBQ {shown(bbq['oct'])}, uncalibrated {shown(raw['oct'])}",
            better=f"{shown(ours['LocalDP']['oct'])}: the default leaves scores alone "
            "unless the shift exceeds its own error",
        ),
        check_that(
            "isotonic regression of the pooled data is not a good fit",
            isotonic["sep"] > 0.03,
            paper=".04 on Sep, worse than raw on Oct",
            ours=each(isotonic),
            reason="not so here: fitted to half of the data and read on the other half "
            "it is as good as any map; the paper's use of it is not described, and "
            "its sets are not these",
        ),
        check_ours(
            "the default never harms by more than a tenth",
            all(ours[t][n] <= 1.1 * raw[n] + 1e-3 for t in TRUSTS for n in SETS),
            ours="largest ratio to uncalibrated "
            + shown(max(ours[t][n] / raw[n] for t in TRUSTS for n in SETS)),
        ),
    )


def _figure(runs: Runs) -> Figure:
    x = np.array(BINS, dtype=np.float64)
    panels = []
    for name in SETS:
        for trust in TRUSTS:
            lines = [
                Series(x, runs.mean(f"{name}/{trust}/{m}"), m, "line", k)
                for k, m in enumerate(METHODS)
            ]
            lines += [
                Series(
                    x, runs.mean(f"{name}/uncalibrated"), "uncalibrated", "dashed", 5
                ),
                Series(
                    x, runs.mean(f"{name}/isotonic"), "isotonic, pooled", "dashed", 6
                ),
            ]
            panels.append(
                Panel(f"{name}, {trust}", tuple(lines), "bins", "ECE", "log", "log")
            )
    return Figure("figure-5", "Cormode 2023, figure 5", tuple(panels))


FIGURE_5: Final = Item(
    "figure-5", "Figure 5: calibration", measure, report, runs=10, needs=(REAL,)
)
