"""What is built holds all that the program reads beside its code, and runs."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from built import ROOT, build
from readme_example import SHOWN, SNIPPET, lines_without_numbers

pytestmark = pytest.mark.slow

TEMPLATES = ROOT / "src" / "discreet" / "report" / "templates"
FILES = {f"discreet/report/templates/{file.name}" for file in TEMPLATES.iterdir()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


def test_the_wheel_holds_the_templates_and_scripts(wheel, tmp_path):
    names = zipfile.ZipFile(wheel).namelist()
    assert set(names) >= FILES
    assert "discreet/py.typed" in names
    with tarfile.open(build(tmp_path, "sdist")) as archive:
        packed = {name.partition("/src/")[2] for name in archive.getnames()}
    assert packed >= FILES


def test_the_readmes_example_runs_from_the_wheel_as_it_is_pasted(wheel, tmp_path):
    installed, here = tmp_path / "installed", tmp_path / "here"
    shutil.unpack_archive(wheel, installed, "zip")  # a pure wheel needs no more
    here.mkdir()
    where = "\nimport sys; print(discreet.__file__, file=sys.stderr)"
    run = subprocess.run(  # noqa: S603 - our own page
        [sys.executable, "-c", SNIPPET + where],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr.strip() == str(installed / "discreet" / "__init__.py")
    assert lines_without_numbers(run.stdout) == lines_without_numbers(SHOWN)
    assert (here / "report.html").stat().st_size > 10_000
