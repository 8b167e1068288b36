"""The wheel, installed into an empty environment, makes a report: nothing is left out."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORT = """
import numpy as np, discreet
rng = np.random.default_rng(1)
s = rng.random(20_000)
site = discreet.Examples(s, rng.random(20_000) < s)
discreet.evaluate([site], privacy="distributed", epsilon=1).save("report.html")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(  # noqa: S603 - our own environment
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    return out


@pytest.mark.slow
def test_the_wheel_holds_the_templates_and_scripts(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "report.html.j2",
        "report.css",
        "report.js",
        "plan.html.j2",
        "plan.js",
    ):
        assert f"discreet/result/templates/{name}" in names
    assert "discreet/py.typed" in names
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert any(n.endswith("templates/report.js") for n in archive.getnames())


@pytest.mark.slow
def test_an_empty_environment_makes_a_report_with_the_wheel(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    # A path to the sources would hide what the wheel lacks.
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    install = ["-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel]
    for asked in ([python, *install], [python, "-c", REPORT]):
        subprocess.run(  # noqa: S603
            asked, check=True, cwd=tmp_path, capture_output=True, env=clean
        )
    verify = [tmp_path / "empty" / "bin" / "discreet", "verify", "report.html"]
    run = subprocess.run(  # noqa: S603
        verify, check=True, cwd=tmp_path, capture_output=True, text=True, env=clean
    )
    assert "report.html holds." in run.stdout
