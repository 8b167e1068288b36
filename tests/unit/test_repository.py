"""The repository fits itself: folders, pages, installations, the list of mutants."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from discreet.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "discreet"
FOLDERS = sorted(
    path.relative_to(ROOT / "tests" / "unit")
    for path in (ROOT / "tests" / "unit").rglob("*")
    if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py"))
)
PAGES = sorted(
    [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MUTANTS = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_documented_installation_is_from_the_clone(page):
    for line in re.findall(r"pip install[^`\n]*", page.read_text()):
        check(line)


def test_a_missing_extra_names_an_installation_that_exists():
    check(str(MissingExtraError("this", "deploy")))


LOCKED = {
    "locks/dev.txt": ("demo", "deploy", "lake", "score", "sql", "test", "dev"),
    "locks/deploy.txt": ("deploy", "demo"),
    "locks/flower.txt": ("flower", "demo"),
    "locks/mpc.txt": ("mpc",),
}
HASHED = "pip install --no-deps --require-hashes -r "
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
        assert plain in versions or plain == "discreet", plain
    assert "://" not in (ROOT / name).read_text()


def check(line):
    if line.startswith(HASHED):
        assert line.removeprefix(HASHED).strip() in LOCKED
        return
    if line.strip() == ITSELF:
        return
    if newer := re.fullmatch(r"pip install --upgrade ([a-z]+)", line.strip()):
        extras = PROJECT["optional-dependencies"].values()
        assert any(newer[1] in each for extra in extras for each in extra)
        return
    found = re.search(r"pip install '\.\[([a-z,]+)\]'", line)
    assert found, line
    assert set(found[1].split(",")) <= set(PROJECT["optional-dependencies"])


MAJOR_EACH_TIME = ("cryptography", "pyarrow")
"""Each release is a major one; a bound would hold security releases back."""


def test_every_dependency_has_an_upper_bound_unless_each_release_is_a_major_one():
    extras = PROJECT["optional-dependencies"]
    for name in [*PROJECT["dependencies"], *extras["demo"], *extras["flower"]]:
        assert ("<" in name) != name.startswith(MAJOR_EACH_TIME), name


def test_make_installs_nothing_but_locks_and_this_package():
    """A lock that pip resolves again, or a plain name, depends on the registry's day."""
    recipes = (ROOT / "Makefile").read_text()
    assert "install --quiet --no-deps\n" in recipes
    used = re.findall(
        r"python (\$\((?:PIP|LOCKED|ITSELF)\).*?)(?: && .*)?$", recipes, re.MULTILINE
    )
    assert len(used) >= 6
    for what in used:
        assert re.fullmatch(r"\$\(LOCKED\) -r locks/[a-z$*]+\.txt|\$\(ITSELF\)", what)


def test_there_are_at_least_sixty_and_none_is_listed_twice():
    assert len({(m["file"], m["old"], m["new"]) for m in MUTANTS}) == len(MUTANTS) >= 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m["file"])
def test_an_edit_fits_once_and_names_tests(mutant):
    source = (ROOT / "src" / "discreet" / mutant["file"]).read_text()
    assert source.count(mutant["old"]) == 1
    changed = source.replace(mutant["old"], mutant["new"])
    assert changed != source
    compile(changed, mutant["file"], "exec")
    named = [a for a in shlex.split(mutant["tests"]) if a.startswith("tests/")]
    assert named
    assert all((ROOT / name).exists() for name in named)
