"""The example for NVFlare, run in its simulator."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nvflare, pytest.mark.slow]

SCRIPT = Path(__file__).resolve().parents[2] / "examples/nvflare/run_simulator.py"


@pytest.mark.page("docs/nvflare.md")
def test_a_masked_session_of_three_hospitals_runs_as_a_job(tmp_path):
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert b"3 of 3 sites" in done.stdout
    assert b"Even a coordinator that breaks the protocol" in done.stdout
