"""How far the default table of follow-up is from the rows: scikit-survival's own numbers.

    python bench/timed_tables.py [--splits 8] [--only whas500] [--save]

Cox models on half of each data set of scikit-survival, the other half measured by
``evaluate`` with exact sums. Splits 0 to 5 chose the rule of ``discreet.plan.followup``;
this prints others, and a finer table by explicit options beside it. Horizons are the
30, 60 and 85% quantiles of the event times, rounded up. Concordances are up to the last one.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, Final

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from sksurv import datasets
from sksurv.linear_model import (
    CoxPHSurvivalAnalysis,
)
from sksurv.metrics import (
    brier_score,
    concordance_index_censored,
    concordance_index_ipcw,
    cumulative_dynamic_auc,
)

import discreet
from discreet.plan.bins import spread_over
from discreet.plan.cohort import PublicFacts
from evidence import Evidence, Figure
from timed import MEASURED

FIRST: Final = 100
SPLITS: Final = 8
CASES = (
    ("flchain", None),
    ("flchain", 1000),
    ("flchain", 400),
    ("gbsg2", None),
    ("whas500", None),
)
FINE = (64, 12)


def followed(name: str) -> tuple[Any, Any]:
    """Return features and follow-up of a data set."""
    x, y = getattr(datasets, f"load_{name}")()
    x = x.drop(columns=["chapter"], errors="ignore")
    x = pd.get_dummies(x, drop_first=True).astype(float)
    x = x.fillna(x.median())
    event, time = y.dtype.names
    rows = np.array(
        list(zip(y[event].astype(bool), y[time].astype(float), strict=True)),
        dtype=[("event", bool), ("time", float)],
    )
    return ((x - x.mean()) / x.std().replace(0, 1)).to_numpy(), rows


def errors(name: str, most: int | None, split: int) -> tuple[int, np.ndarray]:
    """Return the errors of AUC (the worst horizon), Brier score and both concordances."""
    x, y = followed(name)
    order = np.random.default_rng(split).permutation(len(y))
    train, test = order[: len(y) // 2], order[len(y) // 2 :][:most]
    held = y[test]
    model = CoxPHSurvivalAnalysis(alpha=0.1).fit(x[train], y[train])
    horizons = np.unique(
        np.ceil(np.quantile(held["time"][held["event"]], [0.3, 0.6, 0.85]))
    )
    last = horizons[-1]
    risk = np.array([1 - f(last) for f in model.predict_survival_function(x[test])])
    until = held.copy()
    over = held["time"] > last
    until["event"][over], until["time"][over] = False, last + 1
    truth = [
        cumulative_dynamic_auc(held, held, risk, horizons)[0],
        brier_score(held, held, (1 - risk)[:, None], [last])[1][0],
        concordance_index_censored(until["event"], until["time"], risk)[0],
        concordance_index_ipcw(held, held, risk, tau=last + 0.5)[0],
    ]
    rate = float(np.clip(round(until["event"].mean(), 2), 0.01, 0.99))
    site = discreet.Examples(risk, time=held["time"], event=held["event"])
    found = []
    for fine in (False, True):
        options: dict[str, Any] = {}
        if fine:
            bins, options["intervals"] = FINE
            options["edges"] = spread_over(bins, PublicFacts(None, rate))
        result = discreet.evaluate(
            [site],
            horizons=horizons.tolist(),
            examples=len(test),
            prevalence=rate,
            **options,
        )
        areas = np.array([result.auc(h).value for h in horizons])
        others = result.brier(last), result.concordance, result.uno
        found.append(
            [
                np.abs(areas - truth[0]).max(),
                *(abs(e.value - t) for e, t in zip(others, truth[1:], strict=True)),
            ]
        )
    return len(test), np.array(found)


def main() -> None:
    """Print mean (largest) errors over the splits."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--only", help="one data set")
    parser.add_argument("--save", action="store_true", help="into results/")
    options = parser.parse_args()
    print("rows, table: AUC, Brier, Harrell, Uno")
    table: list[list[str | Figure]] = []
    for name, most in CASES:
        if options.only not in (None, name):
            continue
        runs = [errors(name, most, FIRST + k) for k in range(options.splits)]
        rows, every = runs[0][0], np.array([e for _, e in runs])
        for k, title in enumerate(("default", f"{FINE[0]} x {FINE[1]}")):
            mean, largest = every[:, k].mean(0), every[:, k].max(0)
            cells = [
                f"{Figure(a, digits=4)} ({Figure(b, digits=4)})"
                for a, b in zip(mean, largest, strict=True)
            ]
            print(f"{name} {rows}, {title}: {', '.join(cells)}", flush=True)
            table.append(["" if k else f"{name}, {rows:,}", title, *cells])
    if options.save:
        evidence = Evidence(
            "timed_tables", MEASURED, {"splits": options.splits, "first": FIRST}
        )
        columns = ("rows", "table", "AUC", "Brier score", "Harrell's C", "Uno's C")
        evidence.table("errors", columns, table)
        evidence.save()


if __name__ == "__main__":
    main()
