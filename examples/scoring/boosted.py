# ruff: noqa: INP001 - a script
"""Train LightGBM, write it as ONNX with its columns' names, and three hospitals' rows."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pandas as pd
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType


def patients(rows: int, seed: int) -> pd.DataFrame:
    """Return simulated patients; a tenth of the lactates is missing."""
    rng = np.random.default_rng(seed)
    age, lactate = rng.normal(65, 15, rows), rng.lognormal(0.5, 0.6, rows)
    pressure = rng.normal(80, 12, rows)
    risk = 0.04 * (age - 65) + 1.1 * np.log(lactate) - 0.05 * (pressure - 80) - 1.5
    died = rng.random(rows) < 1 / (1 + np.exp(-risk))
    lactate[rng.random(rows) < 0.1] = np.nan
    table = {"age": age, "lactate": lactate, "pressure": pressure}
    return pd.DataFrame(table).astype("float32").assign(died=died.astype(int))


train = patients(8_000, seed=0)
features = train.drop(columns="died")
model = lightgbm.LGBMClassifier(n_estimators=60, verbose=-1)
model.fit(features, train["died"])

kinds = [("X", FloatTensorType([None, features.shape[1]]))]
onnx = convert_lightgbm(model, initial_types=kinds)
# One tensor of three numbers: say which columns they are, in order.
names = onnx.metadata_props.add()
names.key, names.value = "feature_names", json.dumps(list(features.columns))
with open("boosted.onnx", "wb") as file:  # noqa: PTH123 - as in a notebook
    file.write(onnx.SerializeToString())

for k, hospital in enumerate(("north", "south", "east"), 1):
    patients(4_000, seed=k).to_parquet(f"{hospital}-rows.parquet")
