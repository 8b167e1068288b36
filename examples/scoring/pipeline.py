# ruff: noqa: INP001 - a script
"""Train a scikit-learn pipeline, write it as ONNX, and write three hospitals' rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from skl2onnx import to_onnx
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def patients(rows: int, seed: int) -> pd.DataFrame:
    """Return simulated patients: numbers, some of them missing, a text and a label."""
    rng = np.random.default_rng(seed)
    age, lactate = rng.normal(65, 15, rows), rng.lognormal(0.5, 0.6, rows)
    ward = rng.choice(["icu", "er", "general"], rows)
    risk = 0.04 * (age - 65) + 1.1 * np.log(lactate) + 0.9 * (ward == "icu") - 1.8
    died = rng.random(rows) < 1 / (1 + np.exp(-risk))
    lactate[rng.random(rows) < 0.1] = np.nan
    table = {"age": age, "lactate": lactate, "ward": ward, "died": died.astype(int)}
    return pd.DataFrame(table).astype({"age": "float32", "lactate": "float32"})


train = patients(8_000, seed=0)
numbers = make_pipeline(SimpleImputer(), StandardScaler())
columns = ColumnTransformer(
    [("numbers", numbers, ["age", "lactate"]), ("texts", OneHotEncoder(), ["ward"])]
)
model = make_pipeline(columns, LogisticRegression())
features = train.drop(columns="died")
model.fit(features, train["died"])

onnx = to_onnx(model, features[:1])
with open("sepsis.onnx", "wb") as file:  # noqa: PTH123 - as in a notebook
    file.write(onnx.SerializeToString())

for k, hospital in enumerate(("north", "south", "east"), 1):
    patients(4_000, seed=k).to_parquet(f"{hospital}.parquet")
