"""Every installation that is written down exists, and is pinned."""

import re
import tomllib
from pathlib import Path

import pytest

from discreet.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_documented_installation_is_from_the_clone_and_pinned(page):
    for line in re.findall(r"pip install[^`\n]*", page.read_text()):
        check(line)


def test_a_missing_extra_names_an_installation_that_exists():
    check(str(MissingExtraError("this", "flower")))


def check(line):
    found = re.search(r"pip install -c constraints\.txt -e '\.\[([a-z,]+)\]'", line)
    assert found, line
    assert set(found[1].split(",")) <= set(PROJECT["optional-dependencies"])


def test_every_dependency_has_an_upper_bound():
    extras = PROJECT["optional-dependencies"]
    for name in [*PROJECT["dependencies"], *extras["demo"], *extras["flower"]]:
        assert "<" in name, name


def test_the_threat_models_table_names_tests_that_exist():
    text = (ROOT / "docs" / "threat-model.md").read_text()
    named = set(re.findall(r"`((?:e2e|unit|interop|properties)/[\w/.]+\.py)`", text))
    assert len(named) > 10
    for path in named:
        assert (ROOT / "tests" / path).exists(), path
