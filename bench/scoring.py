"""How fast rows are scored at a site, beside bare onnxruntime, and in how much memory.

    python bench/scoring.py [--rows 1000000] [--many 10000000] [--save]

Both read the same Parquet file and score it with the same ONNX file, on all cores. Bare
onnxruntime runs in this process with its own threads, in batches of 65,536 rows, and adds
the scores up; discreet checks every batch, pads it, and runs it in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import discreet
from discreet.optional import load
from evidence import Evidence, Figure

WIDE = 20
NAMES = [f"x{k}" for k in range(WIDE)]
BATCH = 2**16
PACKAGES = (
    *("data/batches", "data/examples", "data/model_process", "data/onnx_graph"),
    *("data/onnx_hazards", "data/onnx_rules", "data/scores", "data/scoring"),
    *("data/sources", "data/tables"),
)


def models(folder: Path) -> dict[str, Path]:
    """Fit and export two models: one that costs next to nothing, and one that does not."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - of this alone

    skl2onnx, onnxmltools = import_module("skl2onnx"), import_module("onnxmltools")
    types = import_module("onnxmltools.convert.common.data_types")
    lightgbm = import_module("lightgbm")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20_000, WIDE)).astype(np.float32)
    risk = x[:, 0] + x[:, 1] * x[:, 2] + rng.normal(size=len(x))
    y = (risk > 0).astype(int)
    linear = skl2onnx.to_onnx(
        LogisticRegression().fit(x, y), x[:1], options={"zipmap": False}
    )
    trees = lightgbm.LGBMClassifier(n_estimators=200, verbose=-1).fit(x, y)
    kinds = [("X", types.FloatTensorType([None, WIDE]))]
    boosted = onnxmltools.convert_lightgbm(trees, initial_types=kinds, zipmap=False)
    paths = {}
    for name, model in (
        ("logistic regression", linear),
        ("LightGBM, 200 trees", boosted),
    ):
        paths[name] = folder / f"{name.partition(' ')[0].strip(',')}.onnx"
        paths[name].write_bytes(model.SerializeToString())
    return paths


def write_rows(path: Path, rows: int) -> None:
    """Write rows of features and labels, a million at a time."""
    rng = np.random.default_rng(2)
    kinds = [(n, pa.float32()) for n in NAMES]
    schema = pa.schema([*kinds, ("y_true", pa.int8())])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in range(0, rows, 2**20):
            many = min(2**20, rows - start)
            x = rng.normal(size=(WIDE, many)).astype(np.float32)
            arrays = [*map(pa.array, x), pa.array((x[0] > 0).astype(np.int8))]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def bare(model: Path, rows: Path) -> float:
    """Score a file with onnxruntime alone; return the sum of the scores."""
    session, total = load("onnxruntime", "score").InferenceSession(str(model)), 0.0
    name, output = session.get_inputs()[0].name, session.get_outputs()[1].name
    for batch in pq.ParquetFile(rows).iter_batches(BATCH, columns=NAMES):
        x = np.column_stack([c.to_numpy() for c in batch.columns])
        total += float(session.run([output], {name: x})[0][:, 1].sum())
    return total


def alone(model: Path, x: Any) -> float:
    """Score a matrix that is there already with onnxruntime alone."""
    session, total = load("onnxruntime", "score").InferenceSession(str(model)), 0.0
    name, output = session.get_inputs()[0].name, session.get_outputs()[1].name
    for start in range(0, len(x), BATCH):
        part = {name: x[start : start + BATCH]}
        total += float(session.run([output], part)[0][:, 1].sum())
    return total


def ours(file: discreet.ModelFile, rows: Path) -> float:
    """Score a file as a site does; return the sum of the scores."""
    examples = discreet.read(rows, model=file)
    return sum(
        examples.scan(lambda batches: sum(float(b.scores[0].sum()) for b in batches))
    )


def timed(work: Callable[[], float], times: int = 3) -> tuple[float, float]:
    """Return the median seconds and the result."""
    seconds, results = [], []
    for _ in range(times):
        begun = time.perf_counter()
        results.append(work())
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds)), results[-1]


def whole(number: float) -> Figure:
    """Return a figure without decimals."""
    return Figure(number, digits=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--many", type=int, default=10_000_000)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true", help="into results/")
    args = parser.parse_args()
    if args.one:
        opened = discreet.ModelFile(args.one[0], inputs=NAMES)
        ours(opened, Path(args.one[1]))
        opened.close()
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            print(resource.getrusage(who).ru_maxrss // 1024)
        return
    speeds: list[list[str | Figure]] = []
    memories: list[list[str | Figure]] = []
    evidence = Evidence(
        "scoring", PACKAGES, {"rows": args.rows, "many": args.many}, whole=True
    )
    evidence.figure("load", Figure(os.getloadavg()[0], digits=1))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        paths = models(folder)
        rows = folder / "rows.parquet"
        write_rows(rows, args.rows)
        table = pq.read_table(rows, columns=NAMES)
        matrix = np.ascontiguousarray(
            np.column_stack([c.to_numpy() for c in table.columns])
        )
        print(f"{args.rows:,} rows of {WIDE} features, median of 3 runs")
        for name, path in paths.items():
            memory, expected = timed(partial(alone, path, matrix))
            plain, _ = timed(partial(bare, path, rows))
            begun = time.perf_counter()
            file = discreet.ModelFile(path, inputs=NAMES)
            start = time.perf_counter() - begun
            site, total = timed(partial(ours, file, rows))
            file.close()
            assert abs(total - expected) < 1e-4 * args.rows  # noqa: S101
            print(
                f"{name}: bare from memory {args.rows / memory:,.0f} rows/s, bare from "
                f"Parquet {args.rows / plain:,.0f}, at the site {args.rows / site:,.0f}: "
                f"{plain / site:.2f} of bare from Parquet, {memory / site:.2f} of bare "
                f"from memory; checking the file took {start:.1f} s"
            )
            # To three digits: more would say less.
            rates = [float(f"{args.rows / t:.3g}") for t in (memory, plain, site)]
            ratios = (Figure(plain / site), Figure(memory / site))
            speeds.append([name, *map(whole, rates), *ratios, Figure(start, digits=1)])
        del table, matrix
        write_rows(rows, args.many)
        size = rows.stat().st_size / 2**20
        for name, path in paths.items():
            begun = time.perf_counter()
            told = subprocess.run(  # noqa: S603 - this file
                [sys.executable, __file__, "--one", str(path), str(rows)],
                check=True,
                capture_output=True,
                text=True,
            )
            own, child = map(int, told.stdout.split())
            took = time.perf_counter() - begun
            print(
                f"{name}: {args.many:,} rows ({size:,.0f} MB) in {took:.0f} s; resident peak "
                f"{own} MB at the site, {child} MB in the model's process"
            )
            memories.append([name, *map(whole, (args.many, size, took, own, child))])
    evidence.figure("rows", whole(args.rows))
    evidence.table(
        "speed",
        (
            *("model", "bare, matrix in memory", "bare, from Parquet"),
            *("at the site, from Parquet", "ratio to bare from Parquet"),
            *("ratio to bare from memory", "seconds to check the file"),
        ),
        speeds,
    )
    evidence.table(
        "memory",
        (
            *("model", "rows", "MB of Parquet", "seconds"),
            *("peak at the site, MB", "peak in the model's process, MB"),
        ),
        memories,
    )
    if args.save:
        evidence.save()


if __name__ == "__main__":
    main()
