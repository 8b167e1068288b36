"""A Python object that predicts, for simulations in one process.

Anything with scikit-learn's ``predict_proba`` scores frames in a notebook; where it has
``decision_function`` alone, scores are of kind ``other`` and need their public range. Such
an object has no digest that a site could check: between separate sites a model is a file.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from discreet.codec.parsing import shown
from discreet.data.batches import Arrays, RawBatch
from discreet.data.cells import canonical, texts
from discreet.data.examples import Examples
from discreet.data.labels import LabelCode
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.data.scoring import Scoring
from discreet.errors import InputError
from discreet.optional import load

IN_PROCESS: Final = "in this process"
"""What ``Examples.scored_by`` says of scores that a Python object made."""
_FRAME: Final = "read the file with pandas and give the frame"
_PREDICT: Final = ("predict_proba", "decision_function")


def predicts(model: object) -> bool:
    """Say whether an object scores rows as scikit-learn's do."""
    return any(callable(getattr(model, name, None)) for name in _PREDICT)


class PythonModel:
    """An object that predicts, with what a plan says of it."""

    def __init__(
        self,
        model: Any,
        code: LabelCode,
        *,
        kind: ScoreKind | None = None,
        low: float | None = None,
        high: float | None = None,
    ) -> None:
        if isinstance(model, type):
            raise InputError(
                f"{model.__name__} is a class: give a fitted object, model="
                f"{model.__name__}().fit(X, y)"
            )
        self._model, self._code = model, code
        self.name = type(model).__name__
        self.output = next(n for n in _PREDICT if callable(getattr(model, n, None)))
        if kind is None:
            kind = "probability" if self.output == "predict_proba" else "other"
        self.scores = ScoreRange.declare(kind, low, high)
        labels = [canonical(v) for v in getattr(model, "classes_", ())]
        self.columns = self._columns([label for label in labels if label is not None])

    def _columns(self, labels: Sequence[str]) -> tuple[int, ...]:
        wanted = self._code.names if self._code.classes is not None else None
        if self.output == "decision_function" and wanted is None:
            return (0,)
        if wanted is not None:
            if labels and sorted(labels) != sorted(map(str, wanted)):
                raise InputError(f"{self.name} has other classes: {', '.join(labels)}")
            return tuple(
                labels.index(str(label)) if labels else k
                for k, label in enumerate(wanted)
            )
        if len(labels) > 2:
            raise InputError(
                f"{self.name} has {len(labels)} classes: name them with classes="
            )
        if self._code.positive_name in labels:
            return (labels.index(str(self._code.positive_name)),)
        return (1,)

    def examples(
        self,
        source: Any,
        *,
        label: str = "y_true",
        group: str | None = None,
        subject: str | None = None,
        weight: str | None = None,
        name: str = "",
        **other: Any,
    ) -> tuple[Examples, Scoring]:
        """Score a frame or a file; every column that is not named here is a feature."""
        if other:
            if {"time", "event"} & set(other):
                raise InputError(
                    "a Python object scores rows with labels, not follow-up: put its "
                    "scores into a column, name it with score=, and leave out model="
                )
            listed = ", ".join(f"{word}=" for word in other)
            more = f", and {_FRAME}" if isinstance(source, str | Path) else ""
            raise InputError(f"leave out {listed}{more}")
        frame = _frame(source)
        used = [each for each in (label, group, subject, weight) if each is not None]
        features = list(getattr(self._model, "feature_names_in_", ())) or [
            column for column in frame.columns if column not in used
        ]
        lacking = [str(c) for c in (*features, *used) if c not in frame.columns]
        if lacking:
            raise InputError(
                f"the model needs {len(used) + len(features)} columns with the label, and "
                f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing: "
                "rename the columns"
                + (f", or {_FRAME}" if isinstance(source, str | Path) else "")
            )
        taken = frame[features]
        if hasattr(self._model, "n_features_in_") and not hasattr(
            self._model, "feature_names_in_"
        ):
            taken = taken.to_numpy()  # what it was fitted on
        values = np.asarray(getattr(self._model, self.output)(taken))
        if values.shape[:1] != (len(frame),):
            raise InputError(f"{self.name} gives other than one score for each row")
        matrix = values.reshape(len(frame), -1).astype(np.float64)
        if max(self.columns) >= matrix.shape[1]:
            raise InputError(f"{self.name} gives {matrix.shape[1]} columns of scores")

        def cells(column: str | None) -> Any:
            if column is None:
                return None
            given = frame[column].to_numpy()
            return given if given.dtype.kind in "fiub" else texts(given.astype(object))

        examples = Examples.from_source(
            Arrays(
                RawBatch(
                    tuple(np.ascontiguousarray(matrix[:, k]) for k in self.columns),
                    cells(label),
                    cells(group),
                    cells(subject),
                    amounts=cells(weight),
                )
            ),
            labels=self._code,
            scores=self.scores,
            columns=len(self.columns),
            name=name,
        )
        examples.grouped, examples.weighted = group is not None, weight is not None
        examples.scored_by = IN_PROCESS
        names = tuple(str(feature) for feature in features)
        return examples, Scoring(names, self.output, self.columns)


def _frame(source: Any) -> Any:
    """Return a source as a pandas frame, which is what such objects were fitted on."""
    pandas = load("pandas", "frames", purpose="scoring with a Python object")
    if isinstance(source, pandas.DataFrame):
        return source
    if isinstance(source, Examples):
        raise InputError(
            "Examples hold scores already: give frames of features, or leave out model="
        )
    if hasattr(source, "to_pandas"):
        return source.to_pandas()
    if not isinstance(source, str | Path):
        raise InputError(
            "a Python object scores frames: name the columns, pandas.DataFrame(X, "
            "columns=names)"
        )
    path = Path(source)
    reads = {".parquet": pandas.read_parquet, ".pq": pandas.read_parquet}
    reads |= {".csv": pandas.read_csv, ".gz": pandas.read_csv}
    if path.suffix not in reads:
        raise InputError(f"{shown(path.name)}: {_FRAME}")
    if not path.is_file():
        raise InputError(f"{shown(path.name)}: no such file")
    try:
        return reads[path.suffix](path)
    except (ValueError, OSError, EOFError, zlib.error):  # their texts quote cells
        raise InputError(f"{shown(path.name)} is not read as it is: {_FRAME}") from None
