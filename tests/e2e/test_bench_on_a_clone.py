"""A clone alone: benchmarks whose data are not beside it say so, and end well."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
ON_REAL_SCORES = (
    "calibration",
    "curves",
    "local",
    "odd_scores",
    "papers_curves",
    "private_curves",
)


def test_every_benchmark_that_reads_real_scores_is_among_these():
    reads = {p.stem for p in BENCH.glob("*.py") if "from datasets" in p.read_text()}
    # These do without real scores, too.
    without = {
        "curator",
        "synthetic",
        "hard_coverage",
        "prediction",
        "phones",
        "poisoning",
    }
    assert reads == {*ON_REAL_SCORES, *without}


@pytest.mark.parametrize("name", ON_REAL_SCORES)
def test_a_benchmark_without_its_data_is_skipped_in_one_line(name, tmp_path):
    clone = shutil.copytree(BENCH, tmp_path / "clone" / "bench")
    done = subprocess.run(  # noqa: S603 - our own benchmark
        [sys.executable, clone / f"{name}.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("skipped: ../shared has no data/")
    assert done.stdout.count("\n") == 1
