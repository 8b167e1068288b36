"""Scoring at the site: a model file, rows of features, and their scores.

A plan names the model by the SHA-256 of its file, the columns that it takes and the
output that is used, so that a result is bound to a model and not to a column that
somebody wrote. The file is ONNX and runs in a process of its own (``model_process``). No
pickle is ever opened: it would run whatever it holds.

What a column holds is declared by the model, never inferred from rows. An empty cell is a
missing value, which a model may replace; a cell that holds something else than a number
leaves its row without a score. A row for which the model gives no number has the score NaN, and
follows the plan's rule for rows that do not fit.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.arrays import BoolVector, FloatVector
from discreet.codec.parsing import name as checked_name
from discreet.codec.parsing import shown, whole
from discreet.data.arrow_columns import Names, is_text
from discreet.data.batches import RawBatch, RowReader, RowSource
from discreet.data.cells import canonical, numbers
from discreet.data.file_format import unread
from discreet.data.labels import LabelCode
from discreet.data.model_process import (
    LONGEST_TEXT,
    REQUEST_ROWS,
    Feature,
    ModelProcess,
    ModelProcessError,
)
from discreet.data.scores import ScoreKind, ScoreRange
from discreet.errors import InputError, PlanError
from discreet.vocabulary import understood

MOST_BYTES: Final = 2**29
"""Of a model file."""
MOST_COLUMNS: Final = 2**16
_NEAR: Final = 1e-5
"""A probability of 32 bits may exceed 1 by its rounding."""
_RAW: Final = frozenset({"Gemm", "MatMul", "Add"})
_SQUASHED: Final = frozenset({"Sigmoid", "Softmax", "HardSigmoid"})
_SKLEARN: Final = (
    "from skl2onnx import to_onnx; onnx = to_onnx(model, X[:1]); "
    "open('model.onnx', 'wb').write(onnx.SerializeToString())"
)
_TORCH: Final = (
    "torch.onnx.export(model, X[:1], 'model.onnx', input_names=['X'], "
    "dynamic_axes={'X': {0: 'rows'}})"
)
_BOOSTED: Final = (
    "from onnxmltools import convert_{0}; onnx = convert_{0}(model, "
    "initial_types=[('X', FloatTensorType([None, X.shape[1]]))]); "
    "open('model.onnx', 'wb').write(onnx.SerializeToString())"
)
_KERAS: Final = "python -m tf2onnx.convert --keras model.keras --output model.onnx"
_CONVERT: Final[Mapping[str, str]] = {
    **dict.fromkeys((".joblib", ".pkl", ".pickle", ".skops"), _SKLEARN),
    **dict.fromkeys((".pt", ".pth", ".ckpt"), _TORCH),
    **dict.fromkeys((".json", ".ubj"), _BOOSTED.format("xgboost")),
    ".txt": _BOOSTED.format("lightgbm"),
    ".cbm": "model.save_model('model.onnx', format='onnx')",
    **dict.fromkeys((".keras", ".h5"), _KERAS),
}
"""What makes ONNX of other files, where the model was trained."""

Columns: TypeAlias = Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a plan's scores are made of a model's outputs."""

    inputs: tuple[str, ...]
    """The columns that the model takes, in its order."""
    output: str
    columns: tuple[int, ...]
    """Which columns of the output are scores: one, or one for each class."""
    softmax: bool = False
    """Whether the output is raw and becomes probabilities by a softmax."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.inputs) <= MOST_COLUMNS:
            raise PlanError(f"a model takes 1 to {MOST_COLUMNS:,} columns")
        for each in self.inputs:
            checked_name(each, "a model's column")
        checked_name(self.output, "a model's output")
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise PlanError("a model's scores are different columns of its output")
        for column in self.columns:
            whole(column, "a column of a model's output", most=MOST_COLUMNS)
        if type(self.softmax) is not bool:
            raise PlanError("softmax is true or false")


class ModelFile:
    """A model that scores rows: an ONNX file, checked and ready to run.

    Args:
        path: a file that ends in .onnx.
        inputs: the columns of features in the model's order. Where the model has an
            input for each column, their names by default; else the file's own
            ``feature_names``.
        output: which output is used, where there are several.
        column: which column of it is the score: by default the second one of two, or
            the one of the label that ``positive`` names.
        kind: what the score is, where the file does not tell.
        low: lower limit of scores of kind ``other``.
        high: upper limit of scores of kind ``other``.
        digest: refuse a file with another SHA-256, written ``sha256:HEX``.
        agreed: how a plan uses the file and what its scores are, instead of the choices
            above.

    Raises:
        InputError: the file is refused, in one sentence.
    """

    @understood
    def __init__(  # noqa: PLR0913 - one keyword a choice
        self,
        path: str | Path,
        *,
        inputs: Sequence[str] | None = None,
        output: str | None = None,
        column: int | None = None,
        kind: ScoreKind | None = None,
        low: float | None = None,
        high: float | None = None,
        digest: str | None = None,
        agreed: tuple[Scoring, ScoreRange] | None = None,
    ) -> None:
        self._columns: tuple[int, ...] | None = None
        self._process: ModelProcess | None = None
        self._open(Path(path), digest)
        self.agreed = agreed is not None
        if agreed is not None:
            self._agree(*agreed)
            return
        chosen = {"output": output, "softmax": False}
        self._load(chosen, inputs)
        wide, last = int(self._found["columns"]), str(self._found["last"])
        if kind is None and low is None and high is None:
            kind, softmax = self._kind(wide, last)
            if softmax:
                self._load(chosen | {"softmax": True}, inputs)
        else:
            kind, softmax = kind or "other", False
        self.scores = ScoreRange.declare(kind, low, high)
        if column is not None and not 0 <= column < wide:
            raise self._problem(f"column= is one of the output's {wide}, from 0 on")
        self.column, self._softmax = column, softmax

    def _agree(self, scoring: Scoring, scores: ScoreRange) -> None:
        """Use the file as a plan does."""
        wanted = {"output": scoring.output, "softmax": scoring.softmax}
        self._load(wanted, scoring.inputs)
        if max(scoring.columns) >= int(self._found["columns"]):
            raise self._problem("the plan uses a column that its output does not have")
        self.scores, self.column = scores, None
        self._softmax, self._columns = scoring.softmax, scoring.columns

    def _open(self, path: Path, digest: str | None) -> None:
        self.name = path.name
        suffix = path.suffix.lower()
        if suffix != ".onnx":
            remedy = _CONVERT.get(suffix)
            if remedy is None:
                raise self._problem("a model file ends in .onnx")
            raise self._problem(
                f"a {suffix} file is never opened, since it may run code; convert the "
                f"model where it was trained: {remedy}"
            )
        self._raw = file_bytes(path)
        self.digest = digest_of(self._raw)
        if digest is not None and digest != self.digest:
            raise self._problem(
                f"this is another file than the plan's: its digest is {self.digest}, "
                f"the plan's is {shown(digest)}"
            )

    def _load(self, chosen: dict[str, Any], inputs: Sequence[str] | None) -> None:
        """Have the file checked; find out which columns it takes."""
        if isinstance(inputs, str):
            raise self._problem("inputs= is a list of columns, in the model's order")
        self._chosen, self._widths = chosen, None
        try:
            self._found = self._started().load(self._raw, chosen)
        except ModelProcessError as error:
            raise self._problem(str(error)) from None
        except InputError as error:
            if inputs is None or "how many columns" not in str(error):
                raise self._problem(str(error)) from None
            self._widths = [len(inputs)]
            try:
                self._found = self._started().load(
                    self._raw, chosen | {"widths": self._widths}
                )
            except InputError as again:
                raise self._problem(str(again)) from None
        self.features = [Feature(**each) for each in self._found["features"]]
        self.inputs = self._named(inputs)
        self.output = str(self._found["output"])
        self.labels: tuple[str, ...] | None = None
        labels = self._found["labels"]
        if labels is not None and len(labels) == self._found["columns"]:
            self.labels = tuple(labels)

    def _named(self, inputs: Sequence[str] | None) -> tuple[str, ...]:
        total = sum(each.width for each in self.features)
        names = self._found["names"] if inputs is None else inputs
        if names is None and all(each.width == 1 for each in self.features):
            names = [each.name for each in self.features]
        if names is None:
            raise self._problem(
                f"the model takes {total} columns and does not name them: name them, in "
                "its order, with inputs= (--input on the command line)"
            )
        if len(names) != total or len(set(names)) != total:
            raise self._problem(
                f"the model takes {total} columns, and {len(names)} are named: name each "
                "once, in its order"
            )
        return tuple(names)

    def _kind(self, wide: int, last: str) -> tuple[ScoreKind, bool]:
        """Tell from the file what its scores are; whether a softmax is missing."""
        if wide > 1 and self._found["sums_to_one"]:
            return "probability", False
        if wide > 1 and last in _RAW:
            return "probability", True
        if wide == 1 and last in _SQUASHED:
            return "probability", False
        if wide == 1 and last in _RAW:
            return "logit", False
        raise self._problem(
            "the file does not tell what its output is: declare kind='probability', "
            "'logit', or 'other' with low= and high="
        )

    @property
    def texts(self) -> frozenset[str]:
        """The columns that the model takes as text."""
        return frozenset(
            column
            for feature, columns in self._shared()
            if feature.kind == "text"
            for column in columns
        )

    def _shared(self) -> Iterator[tuple[Feature, tuple[str, ...]]]:
        """Yield the model's inputs, each with its columns."""
        start = 0
        for feature in self.features:
            yield feature, self.inputs[start : start + feature.width]
            start += feature.width

    def columns_for(self, code: LabelCode) -> tuple[int, ...]:
        """Return which columns of the output are the scores of these labels."""
        if self._columns is not None:
            return self._columns
        wide = int(self._found["columns"])
        if self.column is not None:
            return (self.column,)
        own = self.labels
        if code.classes is not None:
            names = [canonical(label) for label in own or ()]
            if own is None and wide == len(code.names):
                return tuple(range(wide))
            if sorted(map(str, names)) != sorted(map(str, code.names)):
                known = ", ".join(repr(shown(label)) for label in own or ())
                raise self._problem(
                    f"the model has {wide} classes"
                    + (f", {known}" if known else "")
                    + ": name the same ones with classes="
                )
            return tuple(names.index(label) for label in code.names)
        if wide > 2:
            known = ", ".join(repr(shown(label)) for label in own or ())
            raise self._problem(
                f"the model has {wide} classes: name them with classes= in the order of "
                "its output" + (f" ({known})" if known else "")
            )
        if own is not None and code.positive_name is not None and wide == 2:
            names = [canonical(label) for label in own]
            if code.positive_name not in names:
                raise self._problem("positive= names a label that the model lacks")
            return (names.index(code.positive_name),)
        return (wide - 1,)

    def scoring(self, code: LabelCode) -> Scoring:
        """Return what a plan says of this model, for these labels."""
        return Scoring(self.inputs, self.output, self.columns_for(code), self._softmax)

    def check(self, types: Mapping[str, pa.DataType] | None, names: Names) -> None:
        """Refuse columns whose declared types are not the model's; no row is read."""
        for feature, columns in self._shared() if types is not None else ():
            for column in columns:
                kind = (types or {})[column]
                if pa.types.is_dictionary(kind):
                    kind = kind.value_type
                text = is_text(kind)
                number = (
                    pa.types.is_integer(kind)
                    or pa.types.is_floating(kind)
                    or pa.types.is_boolean(kind)
                    or pa.types.is_decimal(kind)
                )
                wants = "text" if feature.kind == "text" else "numbers"
                if not (text if wants == "text" else number):
                    raise names.problem(
                        f"the model declares {wants} in column {column}, and the file "
                        f"declares {kind}: convert the column"
                    )

    def score(self, columns: Columns) -> FloatVector:
        """Return the output of rows: a matrix, NaN where a row has none."""
        return self._score(columns).result()

    def _score(self, columns: Columns) -> Future[FloatVector]:
        """Start to score at most ``REQUEST_ROWS`` rows."""
        many = len(columns[0])
        bad: BoolVector = np.zeros(many, dtype=np.bool_)
        start, arrays = 0, []
        for feature in self.features:
            given = columns[start : start + feature.width]
            arrays.append(_as_declared(feature, given, bad))
            start += feature.width
        process = self._started()

        def scored() -> FloatVector:
            scores = process.score(self.features, arrays, many)
            scores[bad] = np.nan
            if self.scores.kind == "probability":
                inside = (scores > -_NEAR) & (scores < 1 + _NEAR)
                np.clip(scores, 0, 1, out=scores, where=inside)
            return scores

        return self._thread.submit(scored)

    def _started(self) -> ModelProcess:
        if self._process is None:
            self._process = ModelProcess()
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
            self._close = weakref.finalize(self, _ended, self._process, self._thread)
        return self._process

    def close(self) -> None:
        """End the process that runs the model."""
        if self._process is not None:
            self._close()
            self._process = None

    def _problem(self, sentence: str) -> InputError:
        return InputError(f"{shown(self.name)}: {sentence}")

    def __repr__(self) -> str:
        return f"ModelFile({self.name!r}, {self.digest[:19]}...)"


def file_bytes(path: Path) -> bytes:
    """Read a model file of bounded size."""
    if not path.is_file():
        raise InputError(f"{shown(path.name)}: no such file")
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise InputError(
            f"{shown(path.name)}: a model file has at most {MOST_BYTES:,} bytes"
        )
    return raw


def digest_of(raw: bytes) -> str:
    """Return how a plan and a policy name a file."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def _ended(process: ModelProcess, thread: ThreadPoolExecutor) -> None:
    thread.shutdown(cancel_futures=True)
    process.close()


def _as_declared(feature: Feature, given: Columns, bad: BoolVector) -> NDArray[Any]:
    """Return columns as one input of the model; mark rows that it cannot take."""
    many = len(bad)
    if feature.kind == "text":
        words = np.empty((many, feature.width), dtype=object)
        for k, column in enumerate(given):
            cells = ["" if cell is None else cell for cell in column.tolist()]
            if any(long := [_long(cell) for cell in cells]):
                bad |= np.array(long)
                cells = ["" if _long(cell) else cell for cell in cells]
            words[:, k] = cells
        return words
    matrix: NDArray[Any] = np.empty((many, feature.width), dtype=feature.kind)
    whole_numbers = matrix.dtype.kind in "ib"
    for k, column in enumerate(given):
        values = column
        if column.dtype.kind not in "fiub":
            bad |= np.array([unread(cell) for cell in column.tolist()], dtype=np.bool_)
            values = numbers(column)
        if whole_numbers and values.dtype.kind == "f":
            least, most = (0, 1) if matrix.dtype.kind == "b" else (-(2**53), 2**53)
            fits = (values >= least) & (values <= most) & (values == np.floor(values))
            bad |= ~fits
            values = np.where(fits, values, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            matrix[:, k] = values
    return matrix


def _long(cell: str) -> bool:
    """Say whether a category has too many bytes; four are the most of a character."""
    return (
        len(cell) > LONGEST_TEXT // 4
        and len(cell.encode(errors="surrogatepass")) > LONGEST_TEXT
    )


@dataclass(eq=False)
class ScoredRows(RowSource):
    """Rows of features that a model scores on their way: nothing else sees them."""

    rows: RowSource
    model: ModelFile
    names: Names
    columns: tuple[int, ...]
    _without: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.model.check(self.rows.types(), self.names)

    def parts(self) -> Sequence[RowReader]:
        """Return the source's own parts, scored; they share the model's process."""
        self._without = 0
        return [partial(self._scored, part) for part in self.rows.parts()]

    def damage(self) -> str | None:
        """Say how many rows of the last pass have no score."""
        if (damage := self.rows.damage()) is not None or not self._without:
            return damage
        return (
            f"the model gives {self._without} rows no score: they hold missing values or "
            "categories that it does not know; drop these rows, or impute in the model"
        )

    def pace(self) -> float | None:
        """Return how far the source's own reading is."""
        return self.rows.pace()

    def _scored(self, part: RowReader) -> Iterator[RawBatch]:
        """Score a part; while some rows are scored, the next are read."""
        waiting: tuple[RawBatch, Future[FloatVector]] | None = None
        for raw in part():
            for start in range(0, len(raw), REQUEST_ROWS):
                piece = raw.some(slice(start, start + REQUEST_ROWS))
                following = (piece, self.model._score(piece.scores))  # noqa: SLF001
                if waiting is not None:
                    yield self._finished(*waiting)
                waiting = following
        if waiting is not None:
            yield self._finished(*waiting)

    def _finished(self, piece: RawBatch, scores: Future[FloatVector]) -> RawBatch:
        matrix = scores.result()
        self._without += int(np.isnan(matrix).any(axis=1).sum())
        chosen = tuple(np.ascontiguousarray(matrix[:, k]) for k in self.columns)
        return replace(piece, scores=chosen)
