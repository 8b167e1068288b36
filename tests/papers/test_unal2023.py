"""Ünal et al. (2023) again: formulas as printed, and the parts of the items."""

import numpy as np
import pytest

from papers.data import Data, Scored
from papers.runner import Runner
from papers.tables import Verdict
from papers.unal2023 import PAPER
from papers.unal2023.costs import settings
from papers.unal2023.exactness import aml, heart, split, without_ties
from papers.unal2023.pooled import (
    descending,
    from_shares,
    in_the_clear,
    largest_error,
    pool,
    simulate_rows,
)
from papers.unal2023.printed import (
    BY_DELTA,
    ROWS,
    SETTINGS,
    algorithm_4,
    differs_from_following,
    differs_from_preceding,
    equation_1,
    equation_2,
)


@pytest.fixture
def tied():
    rows = pool(simulate_rows((40, 30, 30), np.random.default_rng(1)))
    return Scored("tied", np.round(rows.scores, 1), rows.labels)


def rates(rows):
    scores, labels = descending(rows)
    tp, fp = np.cumsum(labels).astype(float), np.cumsum(1 - labels).astype(float)
    return scores, labels, tp / tp[-1], fp / fp[-1]


def test_every_table_and_figure_of_the_paper_can_be_asked_for():
    assert PAPER.chosen(["table-1", "table-2", "figure-1", "figure-2", "exactness"])


@pytest.mark.parametrize(("item", "wrong"), [("figure-1", 0), ("formulas", 4)])
def test_items_without_shares_have_their_verdicts(item, wrong, tmp_path):
    """The errors of the paper are shown as such, and nothing else is unexplained."""
    one = PAPER.chosen([item])[0]
    data = Data(tmp_path / "nothing", 2000, stand_ins=True)
    runner = Runner(tmp_path, data, runs=2, formats=("svg",))
    report = runner.reproduce(PAPER, one, progress=lambda _: None)
    found = [check.verdict for check in report.checks]
    assert found
    assert Verdict.unexplained not in found
    assert found.count(Verdict.wrong) == wrong


def test_areas_in_the_clear_are_those_of_scikit_learn(tied):
    metrics = pytest.importorskip("sklearn.metrics")
    precision, recall, _ = metrics.precision_recall_curve(tied.labels, tied.scores)
    assert in_the_clear(tied) == pytest.approx(
        {
            "auc": metrics.roc_auc_score(tied.labels, tied.scores),
            "aupr": metrics.auc(recall, precision),
            "average_precision": metrics.average_precision_score(
                tied.labels, tied.scores
            ),
        }
    )


def test_equation_2_needs_the_last_row_of_each_tie(tied):
    scores, _, tpr, fpr = rates(tied)
    right = equation_2(tpr, fpr, differs_from_following(scores), start=0.0)
    printed = equation_2(tpr, fpr, differs_from_preceding(scores), start=0.0)
    assert right == pytest.approx(tied.auc)
    assert abs(printed - tied.auc) > 1e-3


def test_algorithm_4_needs_positives_for_recall(tied):
    scores, labels, _, _ = rates(tied)
    marks = differs_from_following(scores)
    right = algorithm_4(labels, marks, rank_as_recall=False)
    assert right == pytest.approx(in_the_clear(tied)["aupr"])
    assert algorithm_4(labels, marks, rank_as_recall=True) > 1


def test_equation_1_counts_pairs_in_the_order_given():
    assert equation_1(np.array([1, 0, 1, 0])) == (3, 4)


def test_the_printed_rows_are_all_there():
    assert len(ROWS) == 15
    assert [row.delta for row in BY_DELTA] == [1, 3, 5, 11, 25, 51, 101]
    assert SETTINGS[-1].rows == 2000


def test_a_quick_look_takes_small_settings(tmp_path):
    assert settings(Data(tmp_path)) == SETTINGS
    assert [row.name for row in settings(Data(tmp_path, 2000))] == ["3 x 64", "3 x 128"]
    assert len(settings(Data(tmp_path, 1000))) == 2


def test_one_row_of_each_tie_is_kept():
    rows = aml(np.random.default_rng(2))
    kept = without_ties(rows, np.random.default_rng(3))
    assert np.unique(kept.scores).size == kept.scores.size
    assert set(kept.scores) == set(rows.scores)
    assert kept.labels.size < rows.labels.size == 191


def test_owners_hold_all_rows(tied):
    together = pool(split(tied, 3))
    assert sorted(together.scores) == sorted(tied.scores)
    assert together.labels.sum() == tied.labels.sum()


def test_heart_has_a_stand_in(tmp_path):
    found = heart(Data(tmp_path, stand_ins=True))
    assert found.simulated
    assert found.labels.size == 303


@pytest.mark.interop
@pytest.mark.mpc
def test_shares_open_the_areas_of_the_pooled_rows():
    owners = simulate_rows((9, 8, 7), np.random.default_rng(4))
    found = from_shares(owners)
    assert found.error < 1e-12
    assert found.cost.bytes_sent > 0
    wrong = {**found.areas, "auc": found.areas["auc"] + 1e-6}
    assert largest_error(wrong, pool(owners)) > 9e-7
