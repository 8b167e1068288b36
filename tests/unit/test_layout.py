"""Tests lie where their code lies, and the page on the tree names what is there."""

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
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_folder_of_unit_tests_has_a_package_of_its_name(folder):
    assert (SOURCE / folder / "__init__.py").exists()


def test_the_architecture_page_lists_every_package():
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert listed == {init.parent.name for init in SOURCE.glob("*/__init__.py")}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w/]+/\w+\.py)`", PAGE))))
def test_every_module_that_the_architecture_page_names_is_there(path):
    assert (SOURCE / path).exists() or (ROOT / path).exists()
