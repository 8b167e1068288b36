"""Real scored sets on which no rule or constant was chosen.

Outcomes of four public data sets that scikit-learn, statsmodels and scikit-survival bring
along, each predicted by several kinds of model. Scores are out of fold (five folds): every
example is scored by a model that has not seen it.

    python bench/real_sets.py        list the sets: examples, prevalence, AUC
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from joblib import Memory
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from discreet.arrays import FloatArray, IntVector
from evidence import ROOT
from synthetic import Population, from_examples

Rows: TypeAlias = tuple[FloatArray, IntVector]

MODELS: Final[dict[str, Callable[[], Any]]] = {
    "logistic": lambda: LogisticRegression(max_iter=2_000),
    "balanced": lambda: LogisticRegression(max_iter=2_000, class_weight="balanced"),
    "boosted": lambda: HistGradientBoostingClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(200, min_samples_leaf=3, random_state=0),
    "bayes": GaussianNB,
    "net": lambda: MLPClassifier((32,), max_iter=60, random_state=0),
}


def _affairs() -> Rows:
    """Any affair, of 6,366 married women (Fair 1978; statsmodels)."""
    from statsmodels.datasets import fair  # noqa: PLC0415 - slow to import

    frame = fair.load_pandas().data
    y = (frame.pop("affairs") > 0).to_numpy(np.int64)
    return frame.to_numpy(np.float64), y


def _visits(least: int) -> Callable[[], Rows]:
    def rows() -> Rows:
        """So many visits to a doctor in a year, of 20,190 (RAND; statsmodels)."""
        from statsmodels.datasets import randhie  # noqa: PLC0415 - slow to import

        frame = randhie.load_pandas().data
        y = (frame.pop("mdvis") >= least).to_numpy(np.int64)
        return frame.to_numpy(np.float64), y

    return rows


def _deaths(days: float) -> Callable[[], Rows]:
    def rows() -> Rows:
        """Death within so many days, of 7,874 (free light chains; scikit-survival).

        Follow-up that ended earlier without a death is left out.
        """
        from sksurv.datasets import load_flchain  # noqa: PLC0415 - slow to import

        frame, outcome = load_flchain()
        frame["creatinine"] = frame["creatinine"].fillna(frame["creatinine"].median())
        x = np.column_stack(
            [
                frame["age"],
                frame["creatinine"],
                frame["kappa"],
                frame["lambda"],
                frame["sex"] == "M",
                frame["mgus"] == "yes",
                frame["flc.grp"].astype(int),
            ]
        ).astype(np.float64)
        died = outcome["death"] & (outcome["futime"] <= days)
        known = died | (outcome["futime"] > days)
        return x[known], died[known].astype(np.int64)

    return rows


def _digits() -> Rows:
    """Whether a written digit is odd, of 1,797 images (scikit-learn)."""
    x, y = load_digits(return_X_y=True)
    return np.asarray(x, dtype=np.float64), (y % 2).astype(np.int64)


OUTCOMES: Final[dict[str, tuple[Callable[[], Rows], tuple[str, ...]]]] = {
    "affairs": (_affairs, ("logistic", "balanced", "boosted", "bayes")),
    "visits-1": (_visits(1), ("logistic", "boosted", "net")),
    "visits-10": (_visits(10), ("logistic", "balanced", "forest", "bayes")),
    "death-5-years": (_deaths(1826), ("logistic", "boosted", "forest")),
    "death-10-years": (_deaths(3652), ("logistic", "balanced", "bayes")),
    "odd-digit": (_digits, ("logistic", "forest", "net")),
}


def real_sets() -> Iterator[Population]:
    """Train and score, one set after the other."""
    for outcome, (rows, models) in OUTCOMES.items():
        x, y = rows()
        for name in models:
            scores = _kept(MODELS[name](), x, y)
            yield from_examples(f"{outcome}-{name}", "real", scores, y)


def _out_of_fold(model: ClassifierMixin, x: FloatArray, y: IntVector) -> Any:
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a net that has not converged is a net
        scored = cross_val_predict(
            make_pipeline(StandardScaler(), model),
            x,
            y,
            cv=folds,
            method="predict_proba",
        )
    return scored[:, 1]


_kept: Final[Callable[..., Any]] = Memory(ROOT / "bench" / ".scores", verbose=0).cache(
    _out_of_fold
)
"""Trained once: a change of the function, the model or the rows trains again."""

if __name__ == "__main__":
    for each in real_sets():
        print(
            f"{each.name:26} {each.examples:7,} examples, prevalence "
            f"{each.prevalence:.3f}, AUC {each.auc:.3f}"
        )
