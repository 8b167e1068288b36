# ruff: noqa: INP001 - read alone
"""Write lifelines' figures on its own data sets: run where lifelines 0.30 is installed.

    python vectors/generate_time_to_event.py      # writes vectors/time_to_event.json

lifelines needs pandas below 3, so it is no dependency of the tests. For each data set a
Cox model is fitted on every second row; the other rows' risk by a horizon, times and
events are written with lifelines' concordance and Kaplan-Meier figures of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import lifelines
import numpy as np
from lifelines import CoxPHFitter, KaplanMeierFitter
from lifelines.datasets import load_gbsg2, load_lung, load_rossi
from lifelines.utils import concordance_index


def frames():
    """Yield each data set: name, frame, time and event columns, horizon, threshold."""
    yield "rossi", load_rossi(), "week", "arrest", 40.0, 0.2
    gbsg2 = load_gbsg2()
    for column in ("horTh", "menostat", "tgrade"):
        gbsg2[column] = gbsg2[column].astype("category").cat.codes
    yield "gbsg2", gbsg2, "time", "cens", 1000.0, 0.4
    yield "lung", load_lung().dropna(), "time", "status", 365.0, 0.6


def figures(frame, time, event, horizon, threshold):
    """Return the held-out rows and what lifelines says of them."""
    train, test = frame.iloc[::2], frame.iloc[1::2]
    model = CoxPHFitter(penalizer=0.01).fit(train, time, event)
    score = 1 - model.predict_survival_function(test, times=[horizon]).to_numpy()[0]
    score = np.round(score, 6)
    times = test[time].to_numpy(dtype=float)
    events = test[event].to_numpy(dtype=float)
    # Events past the horizon are censored there: as a table that ends at it counts.
    within = np.where(times > horizon, horizon + 0.5, times)
    known = np.where(times > horizon, 0.0, events)
    everybody = KaplanMeierFitter().fit(times, events)
    free = KaplanMeierFitter().fit(times, 1 - events)
    above = score >= threshold
    treated = KaplanMeierFitter().fit(times[above], events[above])
    interval = everybody.confidence_interval_survival_function_
    at = interval.loc[:horizon].iloc[-1]
    return {
        "horizon": horizon,
        "threshold": threshold,
        "score": score.tolist(),
        "time": times.tolist(),
        "event": events.tolist(),
        "lifelines": {
            "concordance": float(concordance_index(within, -score, known)),
            "observed_risk": 1 - float(everybody.predict(horizon)),
            "risk_interval": [1 - float(at.iloc[1]), 1 - float(at.iloc[0])],
            "risk_above": 1 - float(treated.predict(horizon)),
            "median_follow_up": float(free.median_survival_time_),
        },
    }


if __name__ == "__main__":
    found = {"lifelines": lifelines.__version__}
    for name, *asked in frames():
        found[name] = figures(*asked)
    path = Path(__file__).with_name("time_to_event.json")
    path.write_text(json.dumps(found, indent=0) + "\n")
