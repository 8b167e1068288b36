"""Scores of models that were trained here: boosted trees, forests, linear, Bayes, a net.

Made classes (``sklearn.datasets.make_classification``: clusters of normals, some labels
flipped at random) are learned from 8,000 examples and score 60,000 others. Such scores
have what formulas lack: heads that stop rising, over-confidence, ties of forests, rates
that are not smooth. The seed decides all; even ones were used to choose how errors are
predicted, odd ones are held out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from joblib import Memory
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from discreet.arrays import FloatVector, IntVector
from evidence import ROOT
from synthetic import Population, from_examples

SEEDS: Final = range(24)
_LEARNED, _SCORED = 8_000, 60_000
_KINDS: Final = ("boosted", "forest", "logistic", "bayes", "net", "boosted")


def trained(*, held_out: bool) -> Iterator[Population]:
    """Train and score, one population after the other."""
    return (_trained(seed) for seed in SEEDS if (seed % 2 == 1) == held_out)


def _trained(seed: int) -> Population:
    name, scores, y = _kept(seed)
    return from_examples(name, "trained", scores, y)


def _scored(seed: int) -> tuple[str, FloatVector, IntVector]:
    rng = np.random.default_rng([20_261_117, seed])
    x, y = make_classification(
        _LEARNED + _SCORED,
        n_features=20,
        n_informative=int(rng.integers(4, 12)),
        n_redundant=3,
        n_clusters_per_class=int(rng.integers(1, 4)),
        weights=[1 - float(np.exp(rng.uniform(np.log(0.05), np.log(0.5))))],
        flip_y=float(rng.uniform(0, 0.15)),
        class_sep=float(rng.uniform(0.5, 1.4)),
        random_state=seed,
    )
    kind = _KINDS[seed // 2 % len(_KINDS)]
    model = _model(kind, rng, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a net that has not converged is a net
        model.fit(x[:_LEARNED], y[:_LEARNED])
    scores = model.predict_proba(x[_LEARNED:])[:, 1]
    return f"{kind}-{seed}", scores, y[_LEARNED:]


_kept: Final[Callable[[int], tuple[str, FloatVector, IntVector]]] = Memory(
    ROOT / "bench" / ".scores", verbose=0
).cache(_scored)
"""Trained once: a change of the function trains again."""


def _model(kind: str, rng: np.random.Generator, seed: int) -> Any:
    size = int(rng.integers(1, 10))
    match kind:
        case "boosted":
            return HistGradientBoostingClassifier(max_iter=20 * size, random_state=seed)
        case "forest":
            return RandomForestClassifier(200, min_samples_leaf=size, random_state=seed)
        case "logistic":
            return LogisticRegression(max_iter=1_000)
        case "bayes":
            return GaussianNB()
        case _:
            return MLPClassifier((32,), max_iter=30, random_state=seed)
