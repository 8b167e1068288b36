"""What is built holds all that the program reads beside its code."""

import tarfile
import zipfile

import pytest

from built import build

FILES = ("report.html.j2", "report.css", "report.js", "plan.html.j2", "plan.js")


@pytest.mark.slow
def test_the_wheel_holds_the_templates_and_scripts(tmp_path):
    names = zipfile.ZipFile(build(tmp_path, "wheel")).namelist()
    assert {f"discreet/report/templates/{name}" for name in FILES} < set(names)
    assert "discreet/py.typed" in names
    with tarfile.open(build(tmp_path, "sdist")) as archive:
        assert any(n.endswith("templates/report.js") for n in archive.getnames())
