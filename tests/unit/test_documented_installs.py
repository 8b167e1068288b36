"""Every installation that is written down exists; the locked ones are whole."""

import re
import tomllib
from pathlib import Path

import pytest

from discreet.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_documented_installation_is_from_the_clone(page):
    for line in re.findall(r"pip install[^`\n]*", page.read_text()):
        check(line)


def test_a_missing_extra_names_an_installation_that_exists():
    check(str(MissingExtraError("this", "deploy")))


LOCKED = {
    "locks/deploy.txt": ("deploy", "demo"),
    "locks/flower.txt": ("flower", "demo"),
    "locks/mpc.txt": ("mpc",),
}
HASHED = "pip install --require-hashes -r "
ITSELF = "pip install --no-deps --no-build-isolation ."


def pinned(name):
    """Return the versions that a file of pins names."""
    lines = (ROOT / name).read_text().splitlines()
    pairs = (line.partition("==") for line in lines if re.match(r"[a-z]", line))
    return {name: version.rstrip(" \\") for name, _, version in pairs}


@pytest.mark.parametrize("name", LOCKED)
def test_a_locked_installation_names_every_package_with_its_hashes(name):
    blocks = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
    assert all("--hash=sha256:" in block for block in blocks)
    versions = pinned(name)
    extras = PROJECT["optional-dependencies"]
    direct = [*PROJECT["dependencies"], *(d for e in LOCKED[name] for d in extras[e])]
    for dependency in direct:
        plain = re.match(r"[A-Za-z0-9_-]+", dependency)[0].lower()
        assert plain in versions, plain
    assert "://" not in (ROOT / name).read_text()


def check(line):
    if line.startswith(HASHED):
        assert line.removeprefix(HASHED).strip() in LOCKED
        return
    if line.strip() == ITSELF:
        return
    found = re.search(r"pip install '\.\[([a-z,]+)\]'", line)
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
