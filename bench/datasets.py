"""Real scored examples, when they lie beside the repository, and their exact curves.

A clone alone has neither the examples nor the papers' measured errors (``../shared``).
A benchmark that needs them asks ``needs`` first, which says what is skipped and ends
well; the others run.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow.parquet as pq

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.estimate.curves import Polyline

SHARED: Final = Path(__file__).resolve().parents[2] / "shared"
ERRORS: Final = ("roc_area_error", "pr_area_error", "auc_abs_error", "ap_abs_error")
"""The columns of the anchors."""
Anchors: TypeAlias = dict[tuple[str, float], FloatVector]
_ANCHORS: Final = SHARED / "anchors" / "area_error.csv"


@dataclass(frozen=True, eq=False)
class Scored:
    """A data set with its exact ROC and PR curves and areas."""

    name: str
    scores: FloatVector
    labels: IntVector

    @cached_property
    def above(self) -> tuple[FloatVector, FloatVector]:
        """True and false positives at each distinct score, the highest first."""
        order = np.argsort(-self.scores, kind="stable")
        last = np.append(
            np.flatnonzero(np.diff(self.scores[order])), self.scores.size - 1
        )
        tp = np.append(0.0, np.cumsum(self.labels[order])[last])
        return tp, np.append(0.0, last + 1.0) - tp

    @cached_property
    def roc(self) -> Polyline:
        """The ROC curve, joined linearly; points inside straight lines are dropped."""
        tp, fp = self.above
        level = (np.diff(fp[:-1]) == 0) & (np.diff(fp[1:]) == 0)
        upright = (np.diff(tp[:-1]) == 0) & (np.diff(tp[1:]) == 0)
        corner = np.concatenate([[True], ~(level | upright), [True]])
        return Polyline(fp[corner] / fp[-1], tp[corner] / tp[-1])

    @cached_property
    def pr(self) -> Polyline:
        """The PR curve, in steps; points inside upright lines are dropped."""
        steps = Polyline.steps(*self._recall_precision)
        moves = np.diff(steps.x) > 0
        corner = np.append(True, moves) | np.append(moves, True)
        return Polyline(steps.x[corner], steps.y[corner])

    @cached_property
    def auc(self) -> float:
        """Pairs won, ties counted one half."""
        tp, fp = self.above
        return float(np.diff(fp) @ (tp[1:] + tp[:-1])) / float(2 * tp[-1] * fp[-1])

    @cached_property
    def average_precision(self) -> float:
        """Average precision as scikit-learn defines it."""
        recall, precision = self._recall_precision
        return float(np.diff(recall) @ precision[1:])

    @cached_property
    def _recall_precision(self) -> tuple[FloatVector, FloatVector]:
        tp, fp = self.above
        return tp / tp[-1], np.append(1.0, tp[1:] / (tp[1:] + fp[1:]))

    def cells(self, edges: Edges) -> IntVector:
        """Count class by bin: the negatives' bins, then the positives'."""
        bins = edges.bins_of(self.scores).astype(np.int64) + len(edges) * self.labels
        return np.bincount(bins, minlength=2 * len(edges)).astype(np.int64)


def needs(*names: str, anchors: bool = False) -> None:
    """End this benchmark, well, where a data set or the anchors are not here."""
    if line := lacking(*names, anchors=anchors):
        print(line)
        raise SystemExit(0)


def lacking(*names: str, anchors: bool = False) -> str:
    """Return the line that says what is skipped; empty when everything is here."""
    files = [*map(_file, dict.fromkeys(names)), *[_ANCHORS] * anchors]
    absent = [str(f.relative_to(SHARED)) for f in files if not f.exists()]
    return f"skipped: ../shared has no {', '.join(absent)}" if absent else ""


def load(name: str) -> Scored:
    """Read one data set."""
    table = pq.read_table(_file(name), columns=["score", "label"])
    return Scored(
        name,
        table["score"].to_numpy().astype(np.float64),
        table["label"].to_numpy().astype(np.int64),
    )


def read_anchors() -> Anchors:
    """Return the errors of the papers' own code by data set and eps."""
    with _ANCHORS.open(newline="") as lines:
        return {
            (row["data"], float(row["epsilon"])): np.array(
                [float(row[column]) for column in ERRORS]
            )
            for row in csv.DictReader(lines)
            if row["method"].startswith("fedcurve")
        }


def _file(name: str) -> Path:
    return SHARED / "data" / f"{name}.parquet"
