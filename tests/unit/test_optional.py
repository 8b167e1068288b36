"""The engine is optional: nothing loads it early, and its absence is one sentence."""

import subprocess
import sys

import pytest

from discreet.data.examples import Examples
from discreet.errors import MissingExtraError
from discreet.mpc import evaluate
from discreet.optional import load

pytestmark = pytest.mark.long


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "spu", None)
    with pytest.raises(MissingExtraError) as error:
        load("spu", "mpc")
    assert str(error.value).count(".[mpc]") == 1
    assert "Python 3.11" in str(error.value)


def test_an_evaluation_without_the_extra_ends_with_that_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "spu", None)
    monkeypatch.setitem(sys.modules, "spu.libspu", None)
    with pytest.raises(MissingExtraError, match=r"Python 3\.11"):
        evaluate([Examples([0.1, 0.9], [0, 1])])


def test_importing_discreet_exact_loads_no_engine():
    code = "import sys, discreet.mpc; print('spu' in sys.modules, 'jax' in sys.modules)"
    found = subprocess.run(  # noqa: S603 - our own interpreter, our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["False", "False"]
