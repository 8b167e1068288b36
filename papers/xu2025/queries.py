"""Figures 6, 11, 18, 19: quantiles beside the range queries of Barczewski (2025)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Final, get_args

import numpy as np

from discreet.arrays import FloatVector
from discreet.errors import ReleaseError
from discreet.published.xu2025.fedcurve import FedCurve
from discreet.published.xu2025.range_queries import (
    Norm,
    RangeQueries,
    curves_through,
    simulate_path_noise,
)
from discreet.published.xu2025.tree_fit import ScoreCurves
from papers.data import Data, Scored
from papers.figures import Figure, Series, Style
from papers.fits import each
from papers.registry import Measured, Report, Runs
from papers.tables import Check, Table, check_that, shown
from papers.xu2025.curves import QUANTILES, WORTHLESS, errors, our_errors, simulate_tree
from papers.xu2025.over_sets import SETS, Model, figure_item, log_panels, sources

EPSILON: Final = 1.0
NORMS: Final[tuple[Norm, ...]] = get_args(Norm)
METHODS: Final = ("quantiles", "released l1", "released l2", "tree l1", "tree l2")
_FORMS: Final = (
    "released: every threshold gets all noises on its path to the root, as the released "
    "code has it; tree: the fewest nodes that cover the range."
)
MEASURES: Final = ("ROC", "PR", "absolute", "squared")


@cache
def _above(data: Scored, count: int) -> tuple[FloatVector, FloatVector, FloatVector]:
    """Return thresholds and the exact negatives and positives above them."""
    places = np.arange(count) / count
    n, p = np.sort(data.negatives), np.sort(data.positives)
    return (
        places,
        (n.size - np.searchsorted(n, places)).astype(np.float64),
        (p.size - np.searchsorted(p, places)).astype(np.float64),
    )


def point_errors(data: Scored, curves: ScoreCurves, count: int) -> FloatVector:
    """Return mean absolute and squared errors of both rates at the thresholds."""
    places, fp, tp = _above(data, count)
    off = np.concatenate(
        [
            1.0 - curves.negatives.before(places) - fp / fp[0],
            1.0 - curves.positives.before(places) - tp / tp[0],
        ]
    )
    return np.array([np.abs(off).mean(), (off**2).mean()])


def all_errors(data: Scored, curves: ScoreCurves, count: int) -> FloatVector:
    """Return the errors in the order of MEASURES."""
    return np.append(
        errors(data, curves.roc, curves.pr), point_errors(data, curves, count)
    )


def simulate_released(
    data: Scored, count: int, norm: Norm, rng: np.random.Generator
) -> ScoreCurves:
    """Answer as the released code does: all the noises on the path to the root."""
    places, fp, tp = _above(data, count)
    noisy = [c + simulate_path_noise(count, EPSILON, rng) for c in (fp, tp)]
    return curves_through(places, *noisy, norm=norm)


def measure(model: Model, data: Data, rng: np.random.Generator) -> Measured:
    """Return every error of every method over Q = N."""
    found: dict[str, list[FloatVector]] = {}
    for name in SETS[model]:
        scored = data.scored(name)
        for q in QUANTILES:
            method = FedCurve(quantiles=q)
            tree = simulate_tree(scored, method, EPSILON, rng)
            plain = FedCurve(quantiles=q, extra_height=0)
            small = simulate_tree(scored, plain, EPSILON, rng)
            for word in METHODS:
                try:
                    if word == "quantiles":
                        curves = method.curves(tree)
                    elif word.startswith("released"):
                        curves = simulate_released(scored, q, _norm(word), rng)
                    else:
                        curves = RangeQueries(_norm(word)).curves(small)
                    off = all_errors(scored, curves, q)
                except ReleaseError:
                    off = np.append(WORTHLESS, WORTHLESS)
                found.setdefault(f"{name}/{word}", []).append(off)
        ours = our_errors(scored, EPSILON, rng)
        found[f"{name}/ours"] = [np.append(ours, [np.nan, np.nan])]
    return {
        f"{key}/{kind}": np.array(each)[:, k]
        for key, each in found.items()
        for k, kind in enumerate(MEASURES)
    }


def _norm(word: str) -> Norm:
    return "l1" if word.endswith("l1") else "l2"


def report(model: Model, first: str, data: Data, runs: Runs) -> Report:
    """Show area and point errors over the number of thresholds."""
    picked = [QUANTILES.index(q) for q in (16, 64, 256, 1024)]
    rows = []
    for name in SETS[model]:
        for kind in MEASURES:
            for word in METHODS:
                found = runs.mean(f"{name}/{word}/{kind}")
                rows.append((name, kind, word, *(float(found[k]) for k in picked)))
            if kind in ("ROC", "PR"):
                ours = float(runs.mean(f"{name}/ours/{kind}")[0])
                rows.append((name, kind, "ours, flat", *([ours] * len(picked))))
    return Report(
        (
            Table(
                first,
                f"Area errors (ROC, PR) and point errors of the rates, eps 1, "
                f"{len(runs)} runs",
                ("data", "error", "method", *(f"Q {QUANTILES[k]}" for k in picked)),
                tuple(rows),
            ),
        ),
        _checks(model, runs),
        tuple(_figure(model, kind, first, runs) for kind in MEASURES[:3]),
        (
            *sources(model, data),
            _FORMS,
        ),
    )


def _checks(model: Model, runs: Runs) -> tuple[Check, ...]:
    def at(name: str, word: str, kind: str, q: int) -> float:
        return float(runs.mean(f"{name}/{word}/{kind}")[QUANTILES.index(q)])

    sets = SETS[model]
    large = sets[2]
    ratios = {
        n: at(n, "quantiles", "ROC", 1024) / at(n, "released l2", "ROC", 1024)
        for n in sets
    }
    small = at(large, "released l2", "ROC", 32) / at(large, "quantiles", "ROC", 32)
    absolute = {
        n: at(n, "quantiles", "absolute", 1024) / at(n, "released l2", "absolute", 1024)
        for n in sets
    }
    growth = {
        n: at(n, "released l2", "ROC", 1024) / at(n, "released l2", "ROC", 64)
        for n in sets[:2]
    }
    ours = {
        n: float(runs.mean(f"{n}/ours/ROC")[0])
        / min(at(n, w, "ROC", q) for w in METHODS for q in QUANTILES)
        for n in sets
    }
    return (
        check_that(
            "at large Q, quantiles have the lower area error",
            max(ratios.values()) < 1.0,
            paper="our method outperforms theirs",
            ours="quantiles / range, Q 1024: " + each(ratios),
            better="flat histogram over the best of all: " + each(ours),
        ),
        check_that(
            "range queries can be better below Q = 100, on Cover above all",
            small < 1.0,
            paper="better when Q < 100, especially on Cover",
            ours=f"range / quantiles on {large} at Q 32: {shown(small)}",
            better="both classes on the same thresholds, as the flat histogram has them",
            reason="on these scores the thresholds' spacing, not the noise, decides",
        ),
        check_that(
            "range queries grow erratic with Q",
            min(growth.values()) > 0.9,
            paper="erratic area errors, increased variance in each bin",
            ours="error at Q 1024 over Q 64: " + each(growth),
            reason="with smoothing they do not grow here; they only stop falling",
        ),
        check_that(
            "the point errors of both are comparable",
            all(0.1 < v < 10 for v in absolute.values()),
            paper="asymptotically comparable",
            ours="absolute, quantiles / range, Q 1024: " + each(absolute),
        ),
    )


def _figure(model: Model, kind: str, first: str, runs: Runs) -> Figure:
    x = np.array(QUANTILES, dtype=np.float64)

    def lines(name: str) -> Iterator[Series]:
        for k, word in enumerate(METHODS):
            style: Style = "dashed" if word.startswith("tree") else "line"
            yield Series(x, runs.mean(f"{name}/{word}/{kind}"), word, style, k)
        if kind in ("ROC", "PR"):
            ours = np.full(x.size, runs.mean(f"{name}/ours/{kind}")[0])
            yield Series(x, ours, "ours, flat", "dotted", 6)

    return Figure(
        f"{first}-{kind.lower()}",
        f"Xu 2025, {first}: {kind} error, eps 1",
        log_panels(model, lines, "quantiles or thresholds", f"{kind} error"),
    )


_item: Final = partial(figure_item, "range queries", measure, report)
FIGURE_6: Final = _item("xgb", "figure-6", "figure-11")
FIGURE_18: Final = _item("lr", "figure-18", "figure-19")
