"""The page of the public API has every public name, and no other."""

import re

import pytest

import api_page
import discreet

RESULTS = [discreet.Evaluation, discreet.MultiEvaluation, discreet.ModelComparison]


def _text():
    return api_page.PAGE.read_text(encoding="utf-8")


def test_every_public_name_is_on_the_page_and_no_other():
    headings = re.findall(r"^## `discreet\.(\w+)`$", _text(), flags=re.MULTILINE)
    assert sorted(headings) == sorted(discreet.__all__)


@pytest.mark.parametrize("cls", RESULTS, ids=lambda cls: cls.__name__)
def test_every_name_of_a_result_is_on_the_page(cls):
    section = _text().split(f"## `discreet.{cls.__name__}`")[1].split("\n## ")[0]
    assert re.findall(
        r"^\| `(\w+)` \|", section, flags=re.MULTILINE
    ) == api_page.members(cls)


@pytest.mark.parametrize("cls", RESULTS, ids=lambda cls: cls.__name__)
def test_a_result_has_at_most_25_public_names(cls):
    assert len(api_page.members(cls)) <= 25
