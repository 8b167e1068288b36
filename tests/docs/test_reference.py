"""The reference pages name every exit code, error, key of a plan and statistic there is."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import errors
from discreet.cli import entry
from discreet.plan import file as plan_file
from discreet.plan.cohort import Cohort
from discreet.plan.plan import ModelRef
from discreet.statistic.protocol import STATISTICS

DOCS = Path(__file__).parents[2] / "docs"
MESSAGES = (DOCS / "messages.md").read_text(encoding="utf-8")
FORMATS = (DOCS / "file-formats.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
CLASSES = [
    thing
    for _, thing in inspect.getmembers(errors, inspect.isclass)
    if issubclass(thing, errors.DiscreetError | UserWarning)
]


def test_the_exit_codes_are_those_of_the_program():
    listed = dict(re.findall(r"^\| (\d+) \| (.*) \|$", MESSAGES, re.MULTILINE))
    told = re.findall(r"^(\d+)  +(.*(?:\n {6}.*)*)", entry.__doc__, re.MULTILINE)
    assert listed == {code: " ".join(words.split()) for code, words in told}


@pytest.mark.parametrize("error", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_and_warning_is_listed_with_its_first_sentence(error):
    first = inspect.getdoc(error).partition("\n\n")[0].rstrip(".")
    assert f"| `{error.__name__}` | {' '.join(first.split())} |" in MESSAGES


@pytest.mark.parametrize(
    "part", [plan_file._PlanFile, plan_file._Facts, plan_file._Roster, Cohort, ModelRef]
)
def test_every_key_of_a_plan_is_described(part):
    table = FORMATS.partition("## The plan")[2].partition("## Keys")[0]
    tables = {"model", "facts", "privacy", "cohort", "round", "roster"}
    missing = [
        f.name
        for f in fields(part)
        if f"`{f.name}`" not in table
        and not (f.name in tables and f"[{f.name}]" in table)
    ]
    assert missing == []


def test_the_statistics_are_those_that_a_plan_can_name():
    listed = re.search(r"^Statistics: (.*?)\.$", FORMATS, re.MULTILINE | re.DOTALL)[1]
    assert re.findall(r"`([\w-]+)`", listed) == list(STATISTICS)


def test_every_key_of_a_result_is_described():
    scores = np.arange(3000) / 3000
    sites = [discreet.Examples(scores, scores > 0.5)]
    result = discreet.evaluate(sites, edges=discreet.Uniform(16))
    described = FORMATS.partition("## Results")[2]
    keys = json.loads(result.to_json())
    assert [key for key in keys if f"`{key}`" not in described] == []


def test_the_glossary_is_in_alphabetical_order_and_each_entry_is_short():
    entries = re.findall(r"^\| \*\*(.+?)\*\* \| (.*) \|$", GLOSSARY, re.MULTILINE)
    names = [name for name, _ in entries]
    assert len(names) >= 50
    assert names == sorted(names, key=str.lower)
    assert [name for name, words in entries if len(words.split()) > 35] == []
