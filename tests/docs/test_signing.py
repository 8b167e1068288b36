"""The signing pack: its numbers are computed, its diagram is measured, its words are there."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACK = ROOT / "docs" / "signing"
sys.path.insert(0, str(ROOT / "examples" / "signing"))

import data_flow  # noqa: E402 - an example, not installed


@pytest.fixture(scope="module")
def measured():
    return data_flow.measured()


def test_the_table_and_the_picture_of_the_data_flow_are_what_a_session_measures(
    measured,
):
    plan, steps = measured
    assert data_flow.table(steps) in (PACK / "data-flow.md").read_text()
    assert data_flow.drawing(plan, steps) == (PACK / "data-flow.svg").read_text()


def test_sizes_do_not_depend_on_the_data(measured, monkeypatch):
    made_up = data_flow.made_up
    monkeypatch.setattr(
        data_flow,
        "made_up",
        lambda plan: type(made_up(plan))([0.5] * 3, [True, False, True]),
    )
    assert data_flow.measured()[1] == measured[1]


def test_the_assessment_names_the_counts_of_the_plan_and_the_factors_of_its_epsilons(
    measured,
):
    plan, _ = measured
    text = (PACK / "dpia.md").read_text()
    counts = sum(r.statistic.size for r in plan.rounds)
    assert text.count(f"{counts} ") >= 2
    for power, factor in re.findall(r"e\^(\d) = ([\d.]+)", text):
        assert f"{math.exp(int(power)):.2f}" == factor
    assert f"odds at most {math.exp(3):.2f}" in text


def test_the_table_of_epsilons_is_computed():
    rows = re.findall(
        r"^\| ([\d.]+) \| (.*) \|$", (PACK / "epsilon.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 6
    for epsilon, cells in rows:
        factor = math.exp(float(epsilon))
        expected = [f"{factor:.2f}"]
        for prior in (0.01, 0.1, 0.5):
            odds = factor * prior / (1 - prior)
            expected.append(f"{odds / (1 + odds):.1%}")
        assert cells.split(" | ") == expected


def test_no_posterior_of_the_table_is_exceeded_by_the_noise_itself():
    """Brute force: one count with or without a patient, under discrete Laplace noise."""
    for epsilon in (0.5, 1.0, 2.0):
        reach = range(-60, 61)
        law = {k: math.exp(-epsilon * abs(k)) for k in reach}
        for prior in (0.01, 0.1, 0.5):
            worst = max(
                prior * law[k - 1] / (prior * law[k - 1] + (1 - prior) * law[k])
                for k in list(reach)[1:]
            )
            odds = math.exp(epsilon) * prior / (1 - prior)
            assert worst == pytest.approx(odds / (1 + odds))


@pytest.mark.parametrize(
    "page",
    [
        "docs/limitations.md",
        "docs/threat-model.md",
        "docs/threat-model-proofs.md",
        "docs/for-privacy-reviewers.md",
        "docs/signing/README.md",
        "docs/signing/dpia.md",
        "SECURITY.md",
    ],
)
def test_that_no_cryptographer_reviewed_it_stands_first(page):
    text = (ROOT / page).read_text()
    place = re.search("not reviewed by an outside cryptographer", text, re.IGNORECASE)
    assert place is not None
    assert place.start() < 900
    assert text[: place.start()].count("\n## ") == 0


def test_every_privacy_model_has_its_paragraph():
    from discreet.plan.privacy_model import MODELS

    text = (PACK / "clauses.md").read_text()
    named = re.findall(r"^\*\*(\w+) \(", text, re.MULTILINE)
    assert sorted(named) == sorted(MODELS[name].__name__ for name in MODELS)


def test_every_page_of_the_pack_is_listed_in_it():
    listed = (PACK / "README.md").read_text()
    for page in PACK.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in listed
