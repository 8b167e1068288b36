"""Tests lie where their code lies, and pages name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "discreet"
FOLDERS = sorted(
    path.relative_to(ROOT / "tests" / "unit")
    for path in (ROOT / "tests" / "unit").rglob("*")
    if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py"))
)
PAGES = sorted(
    [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
)


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_folder_of_unit_tests_has_a_package_of_its_name(folder):
    assert (SOURCE / folder / "__init__.py").exists()


def test_the_architecture_page_lists_every_package():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert listed == {init.parent.name for init in SOURCE.glob("*/__init__.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_file_that_a_page_names_is_there(page):
    named = re.findall(r"`([\w/]+/\w+\.py)`", page.read_text(encoding="utf-8"))
    places = (ROOT, ROOT / "src", SOURCE, ROOT / "tests")
    assert [n for n in named if not any((p / n).exists() for p in places)] == []
