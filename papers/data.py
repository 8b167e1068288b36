r"""The scored examples that papers are measured on, and stated substitutes for others.

Files ``NAME.parquet`` with columns ``score`` and ``label`` in one folder. A stand-in is
drawn for a set that nobody can give (``UNPUBLISHED``), and for any other that is not
there when the caller asks for stand-ins: scores of a calibrated binormal model,
:math:`z \mid y \sim N(dy, 1)`, :math:`s = \sigma(d z - d^2/2 + \operatorname{logit}\pi)`,
with the rows, the share of positives and the AUC that ``FACTS`` lists. Every report
says which of its sets are stand-ins.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq
from scipy.special import expit, ndtri

from discreet.arrays import FloatVector, IntVector
from discreet.data.edges import Edges
from discreet.errors import InputError
from discreet.estimate.curves import Polyline

SHARED: Final = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where the scored examples lie beside a checkout of the repository."""
_KNOTS: Final = 20_000
"""Knots kept of a true curve, twice: the first ones, and evenly."""


@dataclass(frozen=True)
class Facts:
    """What a stand-in is drawn from."""

    rows: int
    prevalence: float
    auc: float


FACTS: Final = {
    "adult-lr": Facts(32_561, 0.2408, 0.90),
    "adult-xgb": Facts(32_561, 0.2408, 0.95),
    "adult-xgb-oof": Facts(32_561, 0.2408, 0.93),
    "bank-lr": Facts(45_211, 0.1170, 0.91),
    "bank-xgb": Facts(45_211, 0.1170, 0.96),
    "bank-xgb-oof": Facts(45_211, 0.1170, 0.93),
    "diabetes": Facts(9_948, 0.19, 0.76),
    "cover-lr": Facts(581_012, 0.3646, 0.82),
    "cover-xgb": Facts(581_012, 0.3646, 0.95),
    "heart-lr": Facts(303, 0.4587, 0.91),
}
"""Rows and prevalences of the UCI sets; the AUCs of the stand-ins are assumed.

Diabetes has an average precision of about .75 at equal classes (Boyd 2015, section
4), which is that of a binormal model with an AUC of .76.
"""
UNPUBLISHED: Final = frozenset({"bank-lr", "cover-lr", "diabetes"})
"""Sets that no folder has to hold: their scores or their rows cannot be had."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Scored examples with their exact curves and areas."""

    name: str
    scores: FloatVector
    labels: IntVector
    simulated: bool = False

    @property
    def source(self) -> str:
        """Say where the examples come from."""
        kind = "simulated stand-in" if self.simulated else "real scores"
        rate = float(self.labels.mean())
        return f"{self.name}: {kind}, {self.labels.size:,} rows, {rate:.1%} positive"

    @cached_property
    def positives(self) -> FloatVector:
        """Scores of the positives."""
        return np.asarray(self.scores[self.labels == 1])

    @cached_property
    def negatives(self) -> FloatVector:
        """Scores of the negatives."""
        return np.asarray(self.scores[self.labels == 0])

    @cached_property
    def _above(self) -> tuple[FloatVector, FloatVector]:
        """True and false positives at each distinct score, the highest first."""
        order = np.argsort(-self.scores, kind="stable")
        last = np.append(
            np.flatnonzero(np.diff(self.scores[order])), self.scores.size - 1
        )
        tp = np.append(0.0, np.cumsum(self.labels[order])[last].astype(np.float64))
        return tp, np.append(0.0, last + 1.0) - tp

    @cached_property
    def _kept(self) -> tuple[FloatVector, FloatVector]:
        """As above, thinned: all of the first points, where precision is rough."""
        tp, fp = self._above
        head = np.arange(min(_KNOTS, tp.size))
        even = np.linspace(0, tp.size - 1, _KNOTS).round().astype(np.intp)
        keep = np.unique(np.append(head, even))
        return tp[keep], fp[keep]

    @cached_property
    def roc(self) -> Polyline:
        """The pooled data's ROC curve, joined linearly."""
        tp, fp = self._kept
        return Polyline(fp / fp[-1], tp / tp[-1])

    @cached_property
    def pr(self) -> Polyline:
        """The pooled data's PR curve, in steps."""
        tp, fp = self._kept
        precision = np.append(1.0, tp[1:] / (tp[1:] + fp[1:]))
        return Polyline.steps(tp / tp[-1], precision)

    @cached_property
    def auc(self) -> float:
        """Pairs won, ties one half."""
        tp, fp = self._above
        return float(np.diff(fp) @ (tp[1:] + tp[:-1])) / float(2 * tp[-1] * fp[-1])

    @cached_property
    def average_precision(self) -> float:
        """Average precision as scikit-learn defines it."""
        tp, fp = self._above
        return float(np.diff(tp) @ (tp[1:] / (tp[1:] + fp[1:]))) / float(tp[-1])

    def cells(self, edges: Edges) -> IntVector:
        """Count class by bin: the negatives' bins, then the positives'."""
        bins = edges.bins_of(self.scores).astype(np.int64) + len(edges) * self.labels
        return np.bincount(bins, minlength=2 * len(edges)).astype(np.int64)


def simulate_binormal(
    facts: Facts, rng: np.random.Generator
) -> tuple[FloatVector, IntVector]:
    """Draw calibrated scores and labels from the binormal model of the module."""
    d = math.sqrt(2.0) * float(ndtri(facts.auc))
    labels = (rng.random(facts.rows) < facts.prevalence).astype(np.int64)
    z = rng.normal(d * labels, 1.0)
    shift = math.log(facts.prevalence / (1 - facts.prevalence)) - d * d / 2
    return np.asarray(expit(d * z + shift), dtype=np.float64), labels


@dataclass(frozen=True)
class Data:
    """The folder of scored examples; ``most_rows`` of each set for a quick look.

    With ``stand_ins`` a set that is not in the folder is simulated; without, it is
    refused, so that no report is quietly about other data than it names.
    """

    folder: Path = SHARED
    most_rows: int | None = None
    stand_ins: bool = False
    _read: dict[str, Scored] = field(default_factory=dict, compare=False, repr=False)

    def scored(self, name: str) -> Scored:
        """Return a set by name, or its stand-in; read once."""
        if name not in self._read:
            self._read[name] = self._load(name)
        return self._read[name]

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return which of these sets would be refused."""
        return tuple(n for n in names if not (self._may_simulate(n) or self._has(n)))

    def rows(self, wanted: int) -> int:
        """Return how many rows to simulate when so many are wanted."""
        return wanted if self.most_rows is None else min(wanted, self.most_rows)

    def _load(self, name: str) -> Scored:
        if self.missing([name]):
            raise InputError(f"{self.folder} has no {name}.parquet")
        here = self._has(name)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        if here:
            table = pq.read_table(self._path(name), columns=["score", "label"])
            scores = table["score"].to_numpy().astype(np.float64)
            labels = table["label"].to_numpy().astype(np.int64)
        else:
            facts = FACTS[name]
            wanted = replace(facts, rows=self.rows(facts.rows))
            scores, labels = simulate_binormal(wanted, rng)
        if self.most_rows is not None and self.most_rows < labels.size:
            some = rng.permutation(labels.size)[: self.most_rows]
            scores, labels = scores[some], labels[some]
        return Scored(name, scores, labels, simulated=not here)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def _has(self, name: str) -> bool:
        return self._path(name).exists()

    def _may_simulate(self, name: str) -> bool:
        return self.stand_ins or name in UNPUBLISHED

    @property
    def digest(self) -> str:
        """Tell folders of different data apart, for stored runs."""
        sizes = [
            f"{file.name}:{file.stat().st_size}"
            for file in sorted(self.folder.glob("*.parquet"))
        ]
        return f"{zlib.crc32(' '.join(sizes).encode()):08x}:{self.most_rows}"
