"""The model and the data: what every federated app has anyway."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

FEATURES = 8
_SIGNAL = np.array([1.1, -0.8, 0.7, 0.5, -0.4, 0.0, 0.0, 0.3])


def load_data(
    context: Context, *, part: str
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a hospital's patients: here simulated, each hospital with its own mix."""
    site = int(context.node_config["partition-id"])
    rng = np.random.default_rng([site, part == "test"])
    x = rng.normal(0.3 * site, 1.0, size=(2_000, FEATURES))
    chance = 1 / (1 + np.exp(1.0 - x @ _SIGNAL))
    return x, (rng.random(len(x)) < chance).astype(np.int64)


def to_arrays(model: LogisticRegression) -> ArrayRecord:
    """Return the model's parameters."""
    return ArrayRecord([model.coef_, model.intercept_])


def from_arrays(arrays: ArrayRecord) -> LogisticRegression:
    """Return the model with these parameters."""
    model = LogisticRegression(max_iter=20, warm_start=True)
    model.classes_ = np.array([0, 1])
    model.coef_, model.intercept_ = arrays.to_numpy_ndarrays()
    return model


def initial_model() -> ArrayRecord:
    """Return a model that knows nothing."""
    return ArrayRecord([np.zeros((1, FEATURES)), np.zeros(1)])
