"""The list of mutants fits the code: `make mutants` can apply every one of them."""

import shlex
import tomllib
from pathlib import Path

import pytest

CLONE = Path(__file__).resolve().parents[2]
MUTANTS = tomllib.loads((CLONE / "tests" / "mutants.toml").read_text())["mutant"]


def test_there_are_at_least_sixty_and_none_is_listed_twice():
    assert len({(m["file"], m["old"], m["new"]) for m in MUTANTS}) == len(MUTANTS) >= 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m["file"])
def test_an_edit_fits_once_and_names_tests(mutant):
    source = (CLONE / "src" / "discreet" / mutant["file"]).read_text()
    assert source.count(mutant["old"]) == 1
    changed = source.replace(mutant["old"], mutant["new"])
    assert changed != source
    compile(changed, mutant["file"], "exec")
    named = [a for a in shlex.split(mutant["tests"]) if a.startswith("tests/")]
    assert named
    assert all((CLONE / name).exists() for name in named)
