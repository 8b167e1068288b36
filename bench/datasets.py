"""Real scored examples, when they lie beside the repository, and their exact curves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from discreet.arrays import FloatVector
from discreet.estimate.curves import Polyline

SHARED = Path(__file__).resolve().parents[2] / "shared"


@dataclass(frozen=True, eq=False)
class Scored:
    """A data set with its exact ROC and PR curves and areas."""

    name: str
    scores: FloatVector
    labels: FloatVector
    roc: Polyline
    pr: Polyline
    auc: float
    average_precision: float


def load(name: str) -> Scored:
    """Read one data set and work out its exact curves once."""
    path = SHARED / "data" / f"{name}.parquet"
    if not path.exists():
        raise SystemExit(
            f"{name}: the scored examples are not beside the repository "
            "(../shared/data), so this benchmark cannot run"
        )
    table = pq.read_table(path)
    return exact(
        name,
        table["score"].to_numpy().astype(np.float64),
        table["label"].to_numpy().astype(np.float64),
    )


def exact(name: str, scores: FloatVector, labels: FloatVector) -> Scored:
    """Return the pooled data's own curves: linear ROC, step PR."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
    tp = np.append(0.0, np.cumsum(labels[order])[last])
    fp = np.append(0.0, last + 1.0) - tp
    tpr, fpr = tp / tp[-1], fp / fp[-1]
    precision = np.append(1.0, tp[1:] / (tp[1:] + fp[1:]))
    area = float(np.diff(fpr) @ (tpr[1:] + tpr[:-1])) / 2
    return Scored(
        name,
        scores,
        labels,
        Polyline(fpr, tpr),
        Polyline.steps(tpr, precision),
        area,
        float(np.diff(tpr) @ precision[1:]),
    )
