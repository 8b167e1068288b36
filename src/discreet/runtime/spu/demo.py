"""A whole session on one machine: three parties, the owners and an analyst."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.sources import read
from discreet.errors import InputError
from discreet.exact.encode import padded_size
from discreet.exact.model import ExactMPC
from discreet.runtime.spu.errors import SessionFailedError
from discreet.runtime.spu.fleet import Fleet, Member, local_session

SYNTHETIC_ROWS: Final = (120, 80, 50)
_POLL_SECONDS: Final = 0.2


def simulate_owner_files(folder: Path, sizes: Sequence[int], seed: int) -> list[Path]:
    """Write synthetic scored rows, one file an owner; scores in steps, so with ties."""
    rng = np.random.default_rng(seed)
    files = []
    for number, size in enumerate(sizes):
        labels = (rng.random(size) < 0.3).astype(np.int64)
        logits = 1.5 * labels - 1.0 + rng.standard_normal(size)
        scores = np.round(1.0 / (1.0 + np.exp(-logits)), 3)
        path = folder / f"owner-{number + 1}.parquet"
        pq.write_table(pa.table({"y_score": scores, "y_true": labels}), path)
        files.append(path)
    return files


def run_demo(
    files: Sequence[Path],
    *,
    score: str,
    label: str,
    model: ExactMPC,
    timeout: float,
    report: Callable[[str], None],
) -> str:
    """Run a session on the files, or on synthetic ones; return what to print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = list(files) or simulate_owner_files(folder, SYNTHETIC_ROWS, seed=1)
        sizes = [len(read(file, score=score, label=label)) for file in given]
        shown = [padded_size(max(sizes))] * len(sizes) if model.hide_sizes else sizes
        with Fleet(local_session(shown, model), folder, timeout=timeout) as fleet:
            columns = ("--score", score, "--label", label)
            report("compiling once; the parties compare the digest of what they run")
            fleet.start_parties("--executable", str(fleet.compile()))
            for owner, file in zip(fleet.session.owners, given, strict=True):
                fleet.start("owner", owner.name, str(file), *columns)
            analyst = fleet.start_analyst()
            report(f"{len(fleet.members)} processes: " + _listed(fleet.members))
            _follow(fleet.members, analyst, report)
            lines = [
                analyst_text(analyst),
                "",
                *_comparison(fleet, given, score, label),
            ]
        return "\n".join(lines)


def _listed(members: Sequence[Member]) -> str:
    return ", ".join(f"{m.name} ({m.process.pid})" for m in members)


def analyst_text(analyst: Member) -> str:
    """Return the result without the progress lines before it."""
    lines = analyst.output().splitlines()
    return "\n".join(line for line in lines if not line.startswith("party-"))


def _follow(
    members: Sequence[Member], analyst: Member, report: Callable[[str], None]
) -> None:
    """Wait for all; pass on the analyst's progress and the first failure."""
    seen = 0
    while any(member.process.poll() is None for member in members):
        lines = analyst.output().splitlines()
        for line in lines[seen:]:
            if line.startswith("party-"):
                report(line)
        seen = len(lines)
        time.sleep(_POLL_SECONDS)
    for member in members:
        if member.process.returncode:
            raise SessionFailedError(f"{member.name}: {member.last_line()}")


def _comparison(
    fleet: Fleet, files: Sequence[Path], score: str, label: str
) -> list[str]:
    """Compare with scikit-learn on the pooled rows, which only a demo can pool."""
    try:
        from sklearn import metrics  # noqa: PLC0415 - optional
    except ImportError:
        return ["Install scikit-learn to see its values beside these."]
    pooled = [read(file, score=score, label=label).to_arrays() for file in files]
    scores = np.concatenate([s for s, _ in pooled])
    labels = np.concatenate([y for _, y in pooled])
    if len(set(labels.tolist())) != 2:
        raise InputError("the pooled data have one class only")
    precision, recall, _ = metrics.precision_recall_curve(labels, scores)
    expected = {
        "auc": float(metrics.roc_auc_score(labels, scores)),
        "average_precision": float(metrics.average_precision_score(labels, scores)),
        "aupr": float(metrics.auc(recall, precision)),
    }
    found = fleet.result()["metrics"]
    lines = [f"{'':20}{'from shares':>20}{'scikit-learn, pooled':>24}{'differ by':>12}"]
    for metric, value in expected.items():
        ours = float(found[metric]["value"])
        lines.append(f"{metric:20}{ours:20.16f}{value:24.16f}{abs(ours - value):12.1e}")
    return lines
