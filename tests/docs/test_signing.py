"""The signing pack: its numbers are computed, its diagram is measured, its words are there."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import discreet
from discreet.errors import InputError
from discreet.models.distributed import DistributedDP
from discreet.models.label import LabelDP
from discreet.models.local import LocalDP
from discreet.models.secure_aggregation import SecureAggregation
from discreet.plan.cohort import Cohort, PublicFacts
from discreet.plan.plan import recommend
from discreet.plan.privacy_model import MODELS
from discreet.privacy.ledger import Ledger
from discreet.secagg.graph import check_counts, parameters
from discreet.session.preview import preview
from discreet.transport.keys import make_consortium, public_file_in
from policies import open_policy

ROOT = Path(__file__).parents[2]
PACK = ROOT / "docs" / "signing"
sys.path.insert(0, str(ROOT / "examples" / "signing"))

import data_flow  # noqa: E402 - examples, not installed
import sign_off  # noqa: E402


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
        "README.md",
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
    text = (PACK / "clauses.md").read_text()
    named = re.findall(r"^\*\*(\w+) \(", text, re.MULTILINE)
    assert sorted(named) == sorted(MODELS[name].__name__ for name in MODELS)


REHEARSED = {
    "sites": {"contributed": 3, "expected": 3},
    "release": {"made": {"on": "2026-02-03"}},
}


def filled(folder, privacy):
    """Return the form of a plan at one of three sites, from its own preview."""
    made = make_consortium(folder, ("north", "south", "east"), hosts=("127.0.0.1",))
    cohort = Cohort(3, privacy.cohort(3).colluders)
    plan = recommend(PublicFacts(900, 0.4), privacy, cohort=cohort)
    plan = replace(plan, roster=made, purpose="validation")
    policy = open_policy(
        population="icu",
        privacy=tuple(MODELS),
        units=("example", "label", "row"),
        epsilon_per_plan=Fraction(4),
        epsilon_total=Fraction(8),
        delta_total=Fraction(1, 1000),
        exact_sums=2,
        sessions_per_plan=1,
    )
    examples = discreet.Examples([0.1, 0.6, 0.9] * 50, [False, True, True] * 50)
    with Ledger.new(folder / "ledger.sqlite") as ledger:
        seen = preview(plan, examples, policy=policy, ledger=ledger).to_dict()
    site = public_file_in(folder / "north")
    return sign_off.form(plan, policy, seen, REHEARSED, site=site, tag="ab12")


@pytest.mark.parametrize(
    ("privacy", "says"),
    [
        (SecureAggregation(), "an exact sum: no epsilon, no odds"),
        (DistributedDP(1), "epsilon 1: odds times 2.72 at most, from 10% to 23.2%"),
        (DistributedDP(1, delta="0.000001"), "but for a chance of 1e-06 of any other"),
        (LocalDP(3), "twice the epsilon: odds times 403.43 at most"),
        (LabelDP(1), "epsilon 1: odds times 2.72 at most"),
    ],
)
def test_the_form_says_what_each_model_promises_and_costs(tmp_path, privacy, says):
    page = filled(tmp_path, privacy)
    assert says in page
    assert "None" not in page
    assert "north, fingerprint" in page
    assumed = "the cryptography in use is secure" in page
    assert assumed == isinstance(privacy, SecureAggregation | DistributedDP)
    for text in ("validation", "ab12", "2026-02-03", "after 30 days"):
        assert text in page


def test_the_conspirators_of_the_clauses_are_those_that_masks_do_not_withstand():
    text = " ".join((PACK / "clauses.md").read_text().split())
    assert "is 2 x min_survivors - hospitals - 1" in text
    for hospitals in range(3, 101):
        for least in range(2, hospitals + 1):
            fewest = 2 * least - hospitals - 1
            if fewest < 1:
                continue  # no plan of so few survivors is carried out
            withstood = fewest - 1
            check_counts(hospitals, withstood, least, "malicious")
            with pytest.raises(InputError):
                check_counts(hospitals, withstood + 1, least, "malicious")
            chosen = parameters(
                hospitals, corrupt=0, survivors=least, coordinator="malicious"
            )
            assert (chosen.degree, chosen.threshold) == (hospitals - 1, least - 1)


def test_a_huge_epsilon_is_called_what_it_is():
    assert sign_off.odds(Fraction(1000), Fraction(0)).startswith("odds times more than")


def test_every_page_of_the_pack_is_listed_in_it():
    listed = (PACK / "README.md").read_text()
    for page in PACK.glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in listed
