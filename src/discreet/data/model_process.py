"""A process of its own that loads a model file and scores rows with it.

An ONNX file is data from outside, and what runs it is a large library. So the file is
parsed, checked (``onnx_graph``) and run in a process that has a limit on its memory and
its time, writes no file, inherits no secret of the environment and speaks to its parent
alone. What goes wrong in it is one sentence here; a process that dies or hangs takes
nothing with it.

    parent                                      child
    load: the bytes, the columns     ->         parse, prove row-wise, try neighbours
                                     <-         what its inputs and outputs are
    score: columns in shared memory  ->         run batches of one size
                                     <-         numbers in shared memory

Rows are scored in batches of one size, the last one filled up with rows of the trial. So
how an operator divides its work never depends on how many rows there are. A batch that
fails is halved until the rows that fail are alone: these have no score (NaN), the others
have the score that they have anyway.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from discreet.arrays import FloatVector
from discreet.data.batches import cores
from discreet.errors import InputError
from discreet.optional import load, missing

MEMORY: Final = 4 * 2**30
"""Bytes that a model may take beyond what the libraries take."""
LOAD_SECONDS: Final = 120.0
SCORE_SECONDS: Final = 600.0
"""Seconds for the rows of one request."""
REQUEST_ROWS: Final = 2**16
LONGEST_TEXT: Final = 256
"""Bytes of a category as UTF-8; a longer one has no score."""
_ENVIRONMENT: Final = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR")
"""What the process gets to know of the environment: no password, no token."""
_LONGEST_REPLY: Final = 2**26
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from discreet.data.model_process import main; main()"
)
_ALIGNED: Final = 64
_FEWEST_TRIED: Final = 64
_TRIED: Final = 6
"""Rows that are changed, and repeated, when a model is tried."""


class ModelProcessError(InputError):
    """The process that runs a model ended, hung or could not start."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One input of the model, as its rows come: its type and its columns' number."""

    name: str
    kind: str
    width: int
    flat: bool


class ModelProcess:
    """The parent's end: start it, load a file, score arrays. One request at a time."""

    def __init__(self, *, memory: int = MEMORY, threads: int | None = None) -> None:
        for library in ("onnx", "onnxruntime"):
            if importlib.util.find_spec(library) is None:
                raise missing("score")
        folder = str(Path(__file__).parents[2])
        environment = {k: v for k, v in os.environ.items() if k in _ENVIRONMENT}
        environment |= {"MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        # Large tensors are given back at once: a batch needs what it needs, in any thread.
        environment |= {"MALLOC_MMAP_THRESHOLD_": str(2**22)}
        environment |= {"MALLOC_TRIM_THRESHOLD_": str(2**26)}
        self._shared = _shared_file()
        self._view: mmap.mmap | None = None
        self._lock = threading.Lock()
        self._wide = 1
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [
                *(sys.executable, "-P", "-c", _START, folder),
                *(str(memory), str(threads or cores()), str(self._shared.fileno())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._shared.fileno(),),
            env=environment,
            cwd=tempfile.gettempdir(),
        )

    def load(self, raw: bytes, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Have a file parsed, checked and made ready; return what it is.

        Raises:
            InputError: it is refused, in one sentence.
            ModelProcessError: it took too long or too much memory.
        """
        with self._lock:
            self._send({"do": "load", "bytes": len(raw), **wanted}, raw)
            found = self._reply(LOAD_SECONDS)
            self._wide = int(found["columns"])
            return found

    def score(
        self, features: Sequence[Feature], columns: Sequence[NDArray[Any]], many: int
    ) -> FloatVector:
        """Score at most ``REQUEST_ROWS`` rows: a matrix with a column a score.

        ``columns`` has an array for each feature: ``(rows, width)``; of text, an array
        of objects.
        """
        with self._lock:
            plan, places = [], []
            end = 0
            texts: list[Any] = []
            for feature, given in zip(features, columns, strict=True):
                column = given
                if feature.kind == "text":
                    words, column = _coded(given)
                    texts.append(words)
                end = -(-end // _ALIGNED) * _ALIGNED
                places.append((end, column))
                plan.append({"at": end, "dtype": column.dtype.str})
                end += column.nbytes
            out = -(-end // _ALIGNED) * _ALIGNED
            view = self._hold(out + many * 8 * self._wide)
            for start, column in places:
                held: NDArray[Any] = np.frombuffer(
                    view, column.dtype, column.size, start
                ).reshape(column.shape)
                held[...] = column
                del held
            request = {"do": "score", "rows": many, "at": plan, "texts": texts}
            self._send(request | {"out": out, "size": len(view)})
            self._reply(SCORE_SECONDS)
            flat: FloatVector = np.frombuffer(view, np.float64, many * self._wide, out)
            return flat.reshape(many, self._wide).copy()

    def close(self) -> None:
        """End the process."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if process.poll() is None:
            process.kill()
        process.wait()
        self._view = None
        self._shared.close()

    def _hold(self, size: int) -> mmap.mmap:
        """Make the shared memory large enough; it only grows."""
        if self._view is None or len(self._view) < size:
            size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
            self._shared.truncate(size)
            self._view = mmap.mmap(self._shared.fileno(), size)
        return self._view

    def _send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        try:
            pipe = self._process.stdin
            if pipe is None:
                raise BrokenPipeError
            _write(pipe, header)
            if body:
                pipe.write(body)
            pipe.flush()
        except OSError:
            raise self._ended() from None

    def _reply(self, seconds: float) -> dict[str, Any]:
        """Wait for an answer, so many seconds at most."""
        until = time.monotonic() + seconds
        size = int.from_bytes(self._read(8, until), "big")
        if size > _LONGEST_REPLY:
            raise self._ended()
        reply: dict[str, Any] = json.loads(self._read(size, until))
        if "refused" in reply:
            raise InputError(str(reply["refused"]))
        return reply

    def _read(self, size: int, until: float) -> bytes:
        pipe = self._process.stdout
        if pipe is None or pipe.closed:
            raise self._ended()
        parts, left = [], size
        # Not ``select.select``, which takes no descriptor from 1,024 on.
        with selectors.DefaultSelector() as readable:
            readable.register(pipe, selectors.EVENT_READ)
            while left:
                if not readable.select(max(until - time.monotonic(), 0)):
                    self._process.kill()
                    raise ModelProcessError(
                        "the model took longer than it may: its process was ended"
                    )
                part = os.read(pipe.fileno(), left)
                if not part:
                    raise self._ended()
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def _ended(self) -> ModelProcessError:
        self._process.kill()
        return ModelProcessError(
            "the process that runs the model ended: the model needs more memory than it "
            "may take, or its file is damaged"
        )


def _shared_file() -> IO[bytes]:
    """Return an anonymous file in memory, or one that no folder lists."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("discreet"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _coded(column: NDArray[Any]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the different texts of a column, and which of them each cell is."""
    places: dict[str, int] = {}
    flat = [places.setdefault(text, len(places)) for text in column.ravel().tolist()]
    return list(places), np.array(flat, dtype=np.int32).reshape(column.shape)


def _write(pipe: IO[bytes], header: Mapping[str, Any]) -> None:
    raw = json.dumps(header).encode()
    pipe.write(len(raw).to_bytes(8, "big") + raw)


# The child.


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    memory, threads, shared = (int(text) for text in sys.argv[2:5])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes nowhere
    requests = sys.stdin.buffer
    runtime = load("onnxruntime", "score")
    load("onnx", "score")  # before memory is limited
    _limit(memory, threads)
    worker = _Worker(runtime, threads, shared)
    while size := requests.read(8):
        header = json.loads(requests.read(int.from_bytes(size, "big")))
        try:
            if header.pop("do") == "load":
                reply = worker.load(requests.read(header.pop("bytes")), **header)
            else:
                reply = worker.score(**header)
        except InputError as error:
            reply = {"refused": str(error)}
        except MemoryError:
            reply = {"refused": "the model needs more memory than it may take"}
        except Exception as error:  # noqa: BLE001 - its text may quote the file or a row
            reply = {"refused": f"the model cannot be run ({type(error).__name__})"}
        _write(replies, reply)
        replies.flush()


def _limit(memory: int, threads: int) -> None:
    """Limit what this process may take: memory beyond now, no files, no core dumps."""
    import resource  # noqa: PLC0415 - POSIX

    most = (_held() or 2**30) + memory + threads * 2**24
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _held() -> int:
    """Return this process's size in bytes; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) * mmap.PAGESIZE if statm.exists() else 0


@dataclass
class _Worker:
    """The model in the child, once it is loaded."""

    runtime: Any
    threads: int
    shared: int
    session: Any = None
    batch: int = 0
    features: Sequence[Feature] = ()
    names: Collection[str] = ()
    columns: int = 1
    full: Sequence[NDArray[Any]] = ()
    """A batch on which no operator fails: what a smaller one is filled up with."""
    view: mmap.mmap | None = None
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def load(
        self,
        raw: bytes,
        *,
        widths: Sequence[int] | None = None,
        output: str | None = None,
        softmax: bool = False,
    ) -> dict[str, Any]:
        """Check a file, try it with random rows, and say what it is."""
        from discreet.data import onnx_graph as graphs  # noqa: PLC0415 - needs onnx

        model = graphs.parsed(raw)
        inputs = graphs.inputs_of(model)
        named = graphs.feature_names(model)
        if widths is None:
            widths = [each.width or 0 for each in inputs]
            if named is not None and len(inputs) == 1 and not widths[0]:
                widths = [len(named)]
        if len(widths) != len(inputs) or not all(widths):
            raise InputError(
                "the model does not say how many columns it takes: name them, in order"
            )
        if sum(widths) > 2**16:
            raise InputError("the model takes more than 65,536 columns")
        outputs = graphs.outputs_of(model)
        chosen = _chosen(outputs, output)
        by_name = dict(zip((each.name for each in inputs), widths, strict=True))
        self.features = [
            Feature(each.name, each.kind, by_name[each.name], each.flat)
            for each in inputs
        ]
        # What rounds a sum by where the row lies is run for each row by itself.
        for one_by_one in (False, True):
            ready = graphs.prepared(
                model,
                inputs,
                by_name,
                chosen.tensor,
                softmax=softmax,
                one_by_one=one_by_one,
            )
            self.session = self._opened(ready.model.SerializeToString())
            self.names = {value.name for value in ready.model.graph.input}
            self.batch = ready.batch
            trial = _Trial(self, _words_of(ready.model))
            self._probe(ready, trial)
            if (tried := trial.run()) is not None:
                break
        else:
            raise InputError(
                "a row's score changed when only other rows did: the model does not "
                "score each row by itself"
            )
        self.columns = tried.shape[1]
        return {
            "features": [asdict(each) for each in self.features],
            "names": named,
            "outputs": [each.name for each in outputs],
            "output": chosen.name,
            "labels": chosen.labels,
            "columns": tried.shape[1],
            "last": ready.last,
            "sums_to_one": _sums_to_one(tried),
            "batch": self.batch,
        }

    def _probe(self, ready: Any, trial: _Trial) -> None:
        """Hold what was proved to what the runtime does, and settle the trial's rows."""
        from discreet.data import onnx_hazards as hazards  # noqa: PLC0415 - needs onnx

        graph = ready.model.graph
        made = [name for node in graph.node for name in node.output if name]
        names = list(ready.shapes) or [*self.names, *made]
        raw = hazards.probe(ready.model, names, ready.divisors)
        session = self._opened(raw, optimized=False)
        hazards.check_types(session, ready.divisors)  # before a row is tried
        self.full = trial.settle()
        sizes = hazards.shapes(session, names, self._given(self.full))
        if ready.shapes and sizes != list(ready.shapes.values()):
            raise InputError(
                "a tensor of the model has another shape than its operators say"
            )
        hazards.check_room(session, dict(zip(names, sizes, strict=True)))
        del session
        self.pool = self._pool()

    def _pool(self) -> ThreadPoolExecutor:
        """Return as many threads as batches fit in memory side by side.

        Otherwise it would depend on how many rows there are whether they have scores.
        """
        import resource  # noqa: PLC0415 - POSIX

        most, many = resource.getrlimit(resource.RLIMIT_AS)[0], self.threads
        pool = ThreadPoolExecutor(many)
        list(pool.map(self._fits, range(many)))  # what threads hold for themselves
        held = 0 if most == resource.RLIM_INFINITY else _held()
        while held and many:
            share = (most - held) * 9 // 10 // many
            resource.setrlimit(resource.RLIMIT_AS, (held + share, most))
            fits = self._fits() and self._fits()
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            if fits:
                break
            many //= 2
        if not many:
            raise MemoryError
        return pool if many == self.threads else ThreadPoolExecutor(many)

    def _fits(self, _: int = 0) -> bool:
        with suppress(MemoryError):
            return self.takes(list(self.full))
        return False

    def _opened(self, raw: bytes, *, optimized: bool = True) -> Any:
        options = self.runtime.SessionOptions()
        # One thread a run: where an operator divides its work among threads, a row's
        # last bit may depend on its place. Batches are run side by side instead.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = False
        if not optimized:  # run as it is written
            level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level
        try:
            return self.runtime.InferenceSession(
                raw, options, providers=["CPUExecutionProvider"]
            )
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - its text quotes the file
            raise InputError("onnxruntime cannot load the model") from None

    def score(
        self,
        *,
        rows: int,
        at: Sequence[Mapping[str, Any]],
        texts: Sequence[Sequence[str]],
        out: int,
        size: int,
    ) -> dict[str, Any]:
        """Score rows in shared memory, and write their numbers beside them."""
        if self.view is None or len(self.view) < size:
            self.view = mmap.mmap(self.shared, size)
        columns, words = [], iter(texts)
        for place, feature in zip(at, self.features, strict=True):
            many = rows * feature.width
            held: NDArray[Any] = np.frombuffer(
                self.view, place["dtype"], many, place["at"]
            ).reshape(rows, feature.width)
            if feature.kind == "text":
                held = np.array(next(words), dtype=object)[held]
            columns.append(held)
        scores = self.scored(columns, rows)
        held = np.frombuffer(self.view, np.float64, rows * self.columns, out)
        held.reshape(rows, self.columns)[...] = scores
        return {}

    def scored(self, columns: Sequence[NDArray[Any]], rows: int) -> FloatVector:
        """Return the scores of all rows, batch by batch."""
        pieces = [
            [column[start : start + self.batch] for column in columns]
            for start in range(0, rows, self.batch)
        ]
        return _stacked(list(self.pool.map(self._piece, pieces)))

    def _piece(self, columns: list[NDArray[Any]]) -> FloatVector:
        """Score at most one batch; where it fails, in halves."""
        many = len(columns[0])
        try:
            return self._batch(columns, many)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - some row has no score
            if "alloc" in str(error):  # every batch has the same size
                raise MemoryError from None
            if many == 1:
                return np.full((1, 1), np.nan)
        half = many // 2
        halves = (slice(None, half), slice(half, None))
        return _stacked([self._piece([c[rows] for c in columns]) for rows in halves])

    def _batch(self, columns: list[NDArray[Any]], many: int) -> FloatVector:
        if many < self.batch:
            both = zip(columns, self.full, strict=True)
            columns = [np.concatenate([own, full[many:]]) for own, full in both]
        first, *encoded = self.session.run(None, self._given(columns))
        scores = np.asarray(first, dtype=np.float64).reshape(self.batch, -1)[:many]
        for output in encoded:
            none = (output.reshape(self.batch, -1, output.shape[-1]) == 0).all(axis=2)
            unknown = none.any(axis=1)[:many]
            if unknown.any():
                scores = np.where(unknown[:, None], np.nan, scores)
        return np.where(np.isnan(scores), np.nan, scores)  # of one pattern of bits

    def takes(self, columns: list[NDArray[Any]]) -> bool:
        """Say whether no operator fails on a batch."""
        try:
            self._batch(columns, self.batch)
        except Exception as error:  # noqa: BLE001 - some row has no score
            if "alloc" in str(error):
                raise MemoryError from None
            return False
        return True

    def _given(self, columns: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return a batch's columns as the session takes them."""
        return {
            feature.name: _aligned(column.ravel() if feature.flat else column)
            for feature, column in zip(self.features, columns, strict=True)
            if feature.name in self.names
        }


def _stacked(parts: Sequence[FloatVector]) -> FloatVector:
    """Join the scores of parts; a row without any has one NaN, for all columns."""
    wide = max(part.shape[1] for part in parts)
    return np.concatenate([np.broadcast_to(p, (len(p), wide)) for p in parts])


def _aligned(column: NDArray[Any]) -> NDArray[Any]:
    """Return an array that begins where vector instructions like it: always alike.

    Sums are rounded by how many numbers stand before the first such place.
    """
    if column.dtype == object or column.ctypes.data % _ALIGNED == 0:
        return column
    room = np.empty(column.nbytes + _ALIGNED, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNED
    held = room[start : start + column.nbytes].view(column.dtype).reshape(column.shape)
    held[...] = column
    return held


def _chosen(outputs: Sequence[Any], wanted: str | None) -> Any:
    """Return the output that is named, or the only one that can be meant."""
    names = ", ".join(repr(each.name[:80]) for each in outputs)
    if not outputs:
        raise InputError("the model has no output of floats: export its probabilities")
    if wanted is not None:
        for each in outputs:
            if each.name == wanted:
                return each
        raise InputError(f"the model has no such output: it has {names}")
    likely = [each for each in outputs if "prob" in each.name.lower()]
    for group in (outputs, likely):
        if len(group) == 1:
            return group[0]
    raise InputError(f"the model has several outputs: choose one of {names}")


def _words_of(model: Any) -> list[str]:
    """Return texts that the model may know: to try it with."""
    words = [""]
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("cats_strings", "keys_strings"):
                words += [w.decode(errors="replace") for w in attribute.strings[:64]]
    return words[:512]


def _sums_to_one(scores: FloatVector) -> bool:
    held = scores[~np.isnan(scores).any(axis=1)]
    if not len(held) or held.shape[1] < 2:
        return False
    inside = (held > -1e-5) & (held < 1 + 1e-5)
    return bool(inside.all() and (abs(held.sum(axis=1) - 1) < 1e-3).all())


@dataclass
class _Trial:
    """Random rows: no row's score may move, bit for bit, when another one changes."""

    worker: _Worker
    words: Sequence[str]
    most: int = 5
    plain: bool = False

    def settle(self) -> list[NDArray[Any]]:
        """Choose rows on which no operator fails, and return a batch of them.

        Places in a small table may be numbers below 5, below 2, or 0.
        """
        for self.most, self.plain in ((5, False), (2, False), (2, True), (1, True)):
            rows = self._rows(np.random.default_rng(20250131), self.worker.batch)
            if self.worker.takes(rows):
                return rows
        raise InputError("the model fails on every row that it was tried with")

    def run(self) -> FloatVector | None:
        """Return the scores of random rows; None where one moves with others."""
        rng = np.random.default_rng(20250131)
        many = max(self.worker.batch, _FEWEST_TRIED)
        rows = self._rows(rng, many)
        scores = self._scores(rows)
        order = rng.permutation(many)
        alike = [
            (scores, self._scores(rows)),
            (scores[order], self._scores([c[order] for c in rows])),
        ]
        for k in rng.integers(0, many, size=_TRIED).tolist():
            others = np.arange(many) != k
            changed = [c.copy() for c in rows]
            for column, other in zip(changed, self._rows(rng, 1), strict=True):
                column[k] = other[0]
            alike.append((scores[others], self._scores(changed)[others]))
            alone = [np.repeat(c[k : k + 1], many, axis=0) for c in rows]
            same = np.repeat(scores[k : k + 1], many, axis=0)
            alike.append((same, self._scores(alone)))
        if any(before.tobytes() != after.tobytes() for before, after in alike):
            return None
        return scores

    def _scores(self, columns: list[NDArray[Any]]) -> FloatVector:
        return self.worker.scored(columns, len(columns[0]))

    def _rows(self, rng: np.random.Generator, many: int) -> list[NDArray[Any]]:
        words = np.array(["0"] if self.plain else self.words, dtype=object)

        def column(kind: str, shape: tuple[int, int]) -> NDArray[Any]:
            if kind == "text":
                return words[rng.integers(0, len(words), size=shape)]
            if kind == "bool":
                return rng.random(shape) < 0.5
            if self.plain or kind.startswith("int"):
                return rng.integers(0, self.most, size=shape).astype(kind)
            return _odd(rng, shape).astype(kind)

        return [column(f.kind, (many, f.width)) for f in self.worker.features]


def _odd(rng: np.random.Generator, shape: tuple[int, int]) -> FloatVector:
    """Return numbers of several sizes, whole ones and zeros among them."""
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3, size=(shape[0], 1))
    rounded = rng.random(shape) < 0.2
    return np.where(rounded, np.round(values), values)
