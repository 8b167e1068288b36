"""Follow-up: accuracy beside libraries on rows, what smoothing and averages change.

    python bench/timed.py accuracy      # beside scikit-survival and recorded lifelines figures
    python bench/timed.py smoothing     # what the smooth fit takes off the noise
    python bench/timed.py federated     # averaged local concordances and survival curves
    python bench/timed.py --save        # all three, into results/

Each prints a table of ``docs/time-to-event.md``; ``timed_coverage.py`` has the intervals.
Tables are counted here as a site counts them (``tabulate``), without a session: sessions do
not change counts.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.impute import SimpleImputer
from sksurv import datasets, metrics
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.nonparametric import (
    kaplan_meier_estimator,
)
from sksurv.preprocessing import OneHotEncoder
from sksurv.util import Surv

from discreet.arrays import FloatVector
from discreet.data.edges import EdgeRule, Edges, Warped
from discreet.metrics.concordance import Pairs
from discreet.metrics.timed import FollowUp
from discreet.metrics.timed_table import TIMED, net_benefit
from discreet.noise.laplace import LaplaceNoise
from discreet.noise.mechanism import NoNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.followup import FollowUpQuestion
from discreet.statistic.observed import NoiseDistribution
from discreet.statistic.timed import TimedCounts, TimedHistogram
from evidence import Evidence, Figure

MEASURES: Final = ("auc", "brier", "concordance", "uno", "observed_risk")
VECTORS: Final = Path(__file__).resolve().parents[1] / "vectors" / "time_to_event.json"
SIZES: Final = (5_000, 20_000)
RELEASES: Final = 60
SPLITS: Final = 50
HELD_OUT: Final = "mixture"
AVERAGES: Final = {
    "mean of local concordances": "averaged concordance",
    "mean of local concordances, by size": "concordance averaged by size",
    "mean of local Kaplan-Meier risks": "averaged observed_risk",
    "one table, exact: concordance": "one table, exact: concordance",
    "one table, exact: risk": "one table, exact: observed_risk",
    "one table, epsilon 1: concordance": "one table, epsilon 1: concordance",
    "one table, epsilon 1: risk": "one table, epsilon 1: observed_risk",
}
MEASURED: Final = (
    *("data/edges", "data/times", "estimate", "metrics", "noise"),
    *("plan/bins", "plan/followup", "statistic/timed"),
)
"""The packages and modules whose code the figures describe."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Scores, times and events (0 is censored)."""

    score: FloatVector
    time: FloatVector
    event: FloatVector

    def __len__(self) -> int:
        return self.score.size

    def take(self, places: Any) -> Rows:
        """Return some of the rows."""
        return Rows(self.score[places], self.time[places], self.event[places])

    def censored_at(self, when: FloatVector) -> Rows:
        """Return the rows with more censoring."""
        event = np.where(when < self.time, 0.0, self.event)
        return Rows(self.score, np.minimum(self.time, when), event)


def tabulate(
    rows: Rows,
    edges: Edges,
    cuts: FloatVector,
    noise: NoiseDistribution | None = None,
    rng: np.random.Generator | None = None,
) -> TimedCounts:
    """Count rows as a site does: interval k is (t_{k-1}, t_k], then past the last."""
    bins, intervals = len(edges), cuts.size - 1
    k = np.clip(np.searchsorted(cuts, rows.time, side="left") - 1, 0, intervals)
    past = k == intervals
    block = bins * intervals
    cell = edges.bins_of(rows.score).astype(np.intp)
    inside = (rows.event > 0) * block + cell * intervals + k
    flat = np.bincount(
        np.where(past, 2 * block + cell, inside), minlength=2 * block + bins
    )
    counts = flat.astype(np.float64)
    if noise is not None and rng is not None:
        counts = counts + noise.sample(counts, 1, rng)[0]
    planes = counts[: 2 * block].reshape(2, bins, intervals)
    return TimedCounts(
        edges, cuts, planes[1:], planes[0], counts[2 * block :], noise or NoNoise()
    )


def table_for(
    horizon: float,
    facts: PublicFacts,
    *,
    thresholds: tuple[float, ...] = (),
    noisy: bool = False,
    rule: EdgeRule | None = None,
    intervals: int | None = None,
) -> tuple[Edges, FloatVector]:
    """Return the edges and cuts that a plan chooses from public facts.

    Noise is that of epsilon 1. ``rule`` and ``intervals`` are explicit choices.
    """
    table = FollowUpQuestion((horizon,), intervals=intervals).statistic(
        facts,
        rule=rule,
        thresholds=thresholds,
        groups=None,
        inverse_scale=1.0 if noisy else None,
    )
    if not isinstance(table, TimedHistogram):
        raise TypeError("one score column has one table")
    return table.edges, np.array(table.cuts)


# -- populations ------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """Draws rows without censoring, or real rows; and its horizon and threshold."""

    name: str
    draw: Callable[[int, np.random.Generator], Rows]
    horizon: float
    threshold: float
    heavy: float
    """Mean of the exponential censoring that is added under heavy censoring."""
    light: float


def _weibull(n: int, rng: np.random.Generator) -> Rows:
    """Proportional hazards, scores calibrated by the horizon 1: risk about .25."""
    z = rng.normal(size=n)
    rate = 0.25 * np.exp(0.9 * z)
    time = (rng.exponential(size=n) / rate) ** (1 / 1.4)
    return Rows(1 - np.exp(-rate), time, np.ones(n))


def _logistic(n: int, rng: np.random.Generator) -> Rows:
    """Accelerated failure, crossing hazards, a rare event (7%) and overconfident scores."""
    z = rng.normal(size=n)
    time = 6.0 * np.exp(-0.8 * z + rng.logistic(size=n) * 0.5)
    risk = 1 / (1 + (1.0 / (6.0 * np.exp(-0.8 * z))) ** (-2.0))
    logit = np.log(risk / (1 - risk))
    score = 1 / (1 + np.exp(-(1.3 * logit + 0.3)))
    return Rows(score, time, np.ones(n))


def _mixture(n: int, rng: np.random.Generator) -> Rows:
    """Lognormal times of those who are not cured, and scores that are too timid."""
    z = rng.normal(size=n)
    susceptible = rng.random(n) < 1 / (1 + np.exp(-0.3 - z))
    times = np.exp(0.9 - 0.7 * z + 0.9 * rng.normal(size=n))
    score = 1 / (1 + np.exp(1.2 - 0.8 * z))
    return Rows(score, np.where(susceptible, times, 50.0), np.ones(n))


def real_rows(name: str) -> tuple[Rows, float]:
    """Return held-out rows of a data set of scikit-survival with a Cox model's risks.

    The risk is by the 60% quantile of the training half's event times.
    """
    load = getattr(datasets, f"load_{name}")
    features, outcome = load()
    if name == "flchain":
        features = features.drop(columns=["chapter"])
    event, time = (outcome[field] for field in outcome.dtype.names)
    texts = [c for c in features if features[c].dtype.kind not in "fiub"]
    features = features.astype(dict.fromkeys(texts, "category"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = SimpleImputer().fit_transform(OneHotEncoder().fit_transform(features))
        kept = time > 0
        x, event, time = x[kept], event[kept], time[kept]
        order = np.random.default_rng(1).permutation(time.size)
        train, test = np.split(order, [time.size // 2])
        model = CoxPHSurvivalAnalysis(alpha=0.01)
        model.fit(x[train], Surv.from_arrays(event[train], time[train]))
        horizon = float(round(np.quantile(time[train][event[train]], 0.6)))
        alive = np.array([f(horizon) for f in model.predict_survival_function(x[test])])
    return Rows(1 - alive, time[test].astype(float), event[test].astype(float)), horizon


def populations() -> Iterator[Population]:
    """Yield two synthetic populations and a real one, resampled; then one held out.

    Nothing was chosen on the last one.
    """
    yield Population("Weibull", _weibull, 1.0, 0.3, 1.5, 12.0)
    yield Population("log-logistic", _logistic, 1.0, 0.1, 1.5, 12.0)
    rows, horizon = real_rows("flchain")

    def resampled(n: int, rng: np.random.Generator) -> Rows:
        return rows.take(rng.integers(0, len(rows), n))

    yield Population("flchain", resampled, horizon, 0.2, 4000.0, 40_000.0)
    yield Population(HELD_OUT, _mixture, 1.0, 0.3, 1.5, 12.0)


# -- smoothing ----------------------------------------------------------------------------


def smoothing(repetitions: int = RELEASES) -> list[dict[str, Any]]:
    """Print the errors of AUC and concordance, as released and smooth, at epsilon 1."""
    found = []
    for population in populations():
        if population.name == HELD_OUT:
            continue
        for n in SIZES:
            errors = _released_and_smooth(population, n, repetitions)
            print(f"{population.name:<13} {n:>6}", _values(errors), flush=True)
            found.append({"population": population.name, "n": n, **errors})
    return found


def _released_and_smooth(
    population: Population, n: int, repetitions: int
) -> dict[str, float]:
    rng, time = np.random.default_rng([7, n]), population.horizon
    rows = population.draw(n, rng).censored_at(rng.exponential(population.heavy, n))
    facts = PublicFacts(n, 0.2)
    edges, cuts = table_for(time, facts, thresholds=(population.threshold,), noisy=True)
    fine = table_for(time, facts, rule=Warped(512, 1.5), intervals=64)
    exact = FollowUp.of(tabulate(rows, *fine))
    names = ("auc", "concordance")
    truths = {name: TIMED[name].measure(exact, time).value for name in names}
    off: dict[str, list[float]] = {}
    for _ in range(repetitions):
        counts = tabulate(rows, edges, cuts, LaplaceNoise(1.0), rng)
        table = FollowUp.of(counts)
        at = table.at(time).observed
        n_b, p_b = at.negatives, at.positives
        area = float(p_b @ (np.cumsum(n_b) - n_b / 2)) / (p_b.sum() * n_b.sum())
        released = (area, Pairs.of(table, cuts.size - 1, weighted=False).value)
        for name, value in zip(names, released, strict=True):
            smooth = TIMED[name].measure(table, time).value
            off.setdefault(f"{name}, released", []).append(value - truths[name])
            off.setdefault(f"{name}, smooth", []).append(smooth - truths[name])
    return {name: float(np.sqrt(np.mean(np.square(e)))) for name, e in off.items()}


# -- accuracy -----------------------------------------------------------------------------


def on_rows(rows: Rows, horizon: float, threshold: float) -> dict[str, float]:
    """Return what scikit-survival says of the rows themselves."""
    event = rows.event > 0
    y = Surv.from_arrays(event, rows.time)
    within = np.where(rows.time > horizon, horizon + 1e-6, rows.time)
    known = event & (rows.time <= horizon)

    def risk(of: Any) -> float:
        times, alive = kaplan_meier_estimator(event[of], rows.time[of])
        return 1 - float(alive[np.searchsorted(times, horizon, side="right") - 1])

    above = rows.score >= threshold
    inside = risk(above)
    harm = (1 - inside) * threshold / (1 - threshold)
    alive = (1 - rows.score)[:, None]
    return {
        "auc": float(metrics.cumulative_dynamic_auc(y, y, rows.score, [horizon])[0][0]),
        "brier": float(metrics.brier_score(y, y, alive, [horizon])[1][0]),
        "concordance": float(
            metrics.concordance_index_censored(known, within, rows.score)[0]
        ),
        "uno": float(metrics.concordance_index_ipcw(y, y, rows.score, tau=horizon)[0]),
        "observed_risk": risk(slice(None)),
        "net_benefit": float(above.mean()) * (inside - harm),
    }


def accuracy() -> list[dict[str, Any]]:
    """Print every measure beside scikit-survival's on the rows."""
    found = []
    for name in ("flchain", "gbsg2", "whas500", "veterans_lung_cancer"):
        rows, horizon = real_rows(name)
        threshold = round(float(np.median(rows.score)), 1) or 0.1
        exact = on_rows(rows, horizon, threshold)
        print(f"{name}, {len(rows):,} rows, by {horizon:g}, threshold {threshold:g}")
        print("  rows           ", _values(exact))
        facts = PublicFacts(len(rows), round(exact["observed_risk"], 2))
        for title, rule, intervals in (
            ("default", None, None),
            ("", Warped(64, 1.5), 12),
            ("", Warped(256, 1.5), 24),
        ):
            edges, cuts = table_for(
                horizon,
                facts,
                thresholds=(threshold,),
                rule=rule,
                intervals=intervals,
            )
            counts = tabulate(rows, edges, cuts)
            table = FollowUp.of(counts)
            values = {n: TIMED[n].measure(table, horizon).value for n in MEASURES}
            values["net_benefit"] = net_benefit(table, horizon, threshold).value
            off = {n: values[n] - exact[n] for n in exact}
            size = f"{len(edges)} x {cuts.size - 1}"
            print(f"  {size:>8} {title:<7}", _values(off, signed=True))
            row: dict[str, Any] = {"data": name, "rows": len(rows), "table": size}
            row |= {"title": title, "horizon": horizon, "unit": "days"}
            found.append(row | {"exact": exact, "off": off})
    found += _beside_lifelines()
    return found


def _beside_lifelines() -> list[dict[str, Any]]:
    """Print the concordance and risks beside lifelines' recorded figures."""
    recorded, found = json.loads(VECTORS.read_text()), []
    print(f"beside lifelines {recorded.pop('lifelines')}")
    for name, data in recorded.items():
        rows = Rows(*(np.array(data[key]) for key in ("score", "time", "event")))
        horizon, threshold = data["horizon"], data["threshold"]
        theirs = data["lifelines"]
        share = float((rows.score >= threshold).mean())
        odds = threshold / (1 - threshold)
        above = theirs["risk_above"]
        exact = {
            "concordance": theirs["concordance"],
            "observed_risk": theirs["observed_risk"],
            "net_benefit": share * (above - (1 - above) * odds),
        }
        facts = PublicFacts(len(rows), round(exact["observed_risk"], 2))
        for title, rule, intervals in (
            ("default", None, None),
            ("", Warped(64, 1.5), 12),
        ):
            edges, cuts = table_for(
                horizon,
                facts,
                thresholds=(threshold,),
                rule=rule,
                intervals=intervals,
            )
            table = FollowUp.of(tabulate(rows, edges, cuts))
            values = {
                n: TIMED[n].measure(table, horizon).value for n in list(exact)[:2]
            }
            values["net_benefit"] = net_benefit(table, horizon, threshold).value
            off = {n: values[n] - exact[n] for n in exact}
            size = f"{len(edges)} x {cuts.size - 1}"
            print(f"  {name:<6} {len(rows):>4} {size:>8} {title:<7}", _values(exact))
            print(" " * 29, _values(off, signed=True))
            row: dict[str, Any] = {"data": f"{name} (lifelines)", "rows": len(rows)}
            row["table"] = size
            row |= {"horizon": horizon, "unit": "weeks" if name == "rossi" else "days"}
            found.append(row | {"title": title, "exact": exact, "off": off})
    return found


def _values(values: dict[str, float], *, signed: bool = False) -> str:
    form = "{} {:+.5f}" if signed else "{} {:.5f}"
    return "  ".join(form.format(name, value) for name, value in values.items())


# -- what averages lose -------------------------------------------------------------------


def federated(repetitions: int = SPLITS) -> list[dict[str, Any]]:
    """Print the errors of averaged local figures beside those of one table."""
    rows, horizon = real_rows("flchain")
    pooled = on_rows(rows, horizon, 0.2)
    found = []
    for title, mixed in (("sites alike", 1.0), ("sites that differ", 0.0)):
        errors: dict[str, list[float]] = {}
        for seed in range(repetitions):
            for name, off in _one_split(rows, horizon, pooled, mixed, seed).items():
                errors.setdefault(name, []).append(off)
        shown = {n: float(np.sqrt(np.mean(np.square(e)))) for n, e in errors.items()}
        print(title, _values(shown))
        found.append({"sites": title, **shown})
    return found


def _one_split(
    rows: Rows, horizon: float, pooled: dict[str, float], mixed: float, seed: int
) -> dict[str, float]:
    """Cut rows into five sites, alike or by risk, of 10% to 40% of all."""
    rng = np.random.default_rng(seed)
    rank = rows.score.argsort().argsort() / len(rows)
    key = rng.random(len(rows)) if mixed else rank + 0.4 * rng.random(len(rows))
    ends = (np.cumsum([0.4, 0.2, 0.15, 0.15]) * len(rows)).astype(int)
    sites = [rows.take(part) for part in np.split(key.argsort(), ends)]
    local = [on_rows(site, horizon, 0.0) for site in sites]
    off = {
        f"averaged {name}": float(np.mean([each[name] for each in local]))
        - pooled[name]
        for name in ("concordance", "observed_risk")
    }
    sizes = [len(site) for site in sites]
    weighted = float(np.average([each["concordance"] for each in local], weights=sizes))
    off["concordance averaged by size"] = weighted - pooled["concordance"]
    for title, noise in (("exact", None), ("epsilon 1", LaplaceNoise(1.0))):
        edges, cuts = table_for(
            horizon,
            PublicFacts(len(rows), 0.16),
            thresholds=(0.2,),
            noisy=noise is not None,
        )
        tables = [tabulate(site, edges, cuts) for site in sites]
        total = replace(
            tables[0],
            events=np.sum([t.events for t in tables], axis=0),
            censored=np.sum([t.censored for t in tables], axis=0),
            beyond=np.sum([t.beyond for t in tables], axis=0),
        )
        if noise is not None:
            parts = {
                part: getattr(total, part)
                + noise.sample(getattr(total, part).ravel(), 1, rng)[0].reshape(
                    getattr(total, part).shape
                )
                for part in ("events", "censored", "beyond")
            }
            total = replace(total, **parts, noise=noise)
        table = FollowUp.of(total)
        for name in ("concordance", "observed_risk"):
            value = TIMED[name].measure(table, horizon).value
            off[f"one table, {title}: {name}"] = value - pooled[name]
    return off


def _small(value: float, digits: int = 4) -> Figure:
    return Figure(value, digits=digits)


def _signed(value: float) -> str:
    text = f"{value:+.4f}".replace("0.", ".", 1)
    return text if float(text) else ".0000"


def save(repetitions: int) -> None:
    """Measure everything, and write the tables of the page into results/."""
    evidence = Evidence(
        "timed",
        MEASURED,
        {
            "releases": min(RELEASES, repetitions),
            "splits": min(SPLITS, repetitions),
            "scikit-survival": version("scikit-survival"),
        },
    )
    beside: dict[bool, list[list[str | Figure]]] = {False: [], True: []}
    for row in accuracy():
        recorded = "(lifelines)" in row["data"]
        rows = beside[recorded]
        if row["title"]:
            name = row["data"].removesuffix(" (lifelines)").replace("_lung_cancer", "")
            head = f"{name}, {row['rows']:,}, {row['horizon']:,.0f} {row['unit']}"
            exact = row["exact"].values()
            rows.append([head, "on rows", *(_small(v) for v in exact)])
        size = ", ".join(filter(None, (row["table"], row["title"])))
        rows.append(["", size, *(_signed(v) for v in row["off"].values())])
    first = ("data, rows, horizon", "table")
    scores = ("AUC", "Brier", "Harrell", "Uno", "risk", "net benefit")
    evidence.table("accuracy", (*first, *scores), beside[False])
    evidence.table(
        "lifelines", (*first, "Harrell", "risk", "net benefit"), beside[True]
    )
    evidence.table(
        "smoothing",
        (
            "population",
            "examples",
            *("AUC, as released", "AUC, smooth"),
            *("Harrell, as released", "Harrell, smooth"),
        ),
        [
            [row["population"], f"{row['n']:,}"]
            + [
                _small(row[f"{name}, {kind}"])
                for name in ("auc", "concordance")
                for kind in ("released", "smooth")
            ]
            for row in smoothing(min(RELEASES, repetitions))
        ],
    )
    alike, differ = federated(min(SPLITS, repetitions))
    evidence.table(
        "federated",
        ("", alike["sites"], differ["sites"]),
        [
            [title, *(_small(sites[name]) for sites in (alike, differ))]
            for title, name in AVERAGES.items()
        ],
    )
    evidence.save()


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "what", nargs="?", choices=("accuracy", "federated", "smoothing")
    )
    parser.add_argument("--repetitions", type=int, default=RELEASES)
    parser.add_argument("--save", action="store_true", help="all, into results/")
    options = parser.parse_args()
    if options.save:
        save(options.repetitions)
        return
    match options.what:
        case "accuracy":
            accuracy()
        case "smoothing":
            smoothing(options.repetitions)
        case "federated":
            federated(min(SPLITS, options.repetitions))
        case _:
            parser.error("say what to measure, or --save")


if __name__ == "__main__":
    main()
