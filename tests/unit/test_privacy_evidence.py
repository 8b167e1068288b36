"""Every privacy model x statistic x unit: what is lost is at most what is claimed."""

from fractions import Fraction

import numpy as np
import pytest

import privacy_evidence as evidence
from discreet.noise.polya import PolyaShares
from discreet.noise.skellam import SkellamShares
from discreet.plan.privacy_model import MODELS
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE
from discreet.statistic.protocol import STATISTICS

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", evidence.cases())
def test_the_loss_is_at_most_the_claim(name):
    row = evidence.row(name)
    assert row.kept, row
    assert row.computed > 0  # something was measured


def test_the_page_is_what_the_code_gives():
    assert evidence.PAGE.read_text() == evidence.page()


def test_every_model_and_statistic_has_a_row():
    rows = [evidence.row(name) for name in evidence.cases()]
    models = {row.model.split(",")[0] for row in rows}
    assert models == set(MODELS) - {"secure-aggregation"}  # which claims no loss
    shown = {type(statistic).name for statistic in evidence.STATISTICS.values()}
    others = {
        "equi-depth",
        "placed",
        "rank-sums",
        "shared-rows",
        "site-sums",
    }  # rows of their own
    assert shown | others == set(STATISTICS)


@pytest.mark.parametrize("apart", [(1,), (1, 1), (2,), (2, 2, 2)])
def test_noise_that_is_missing_a_site_is_caught(apart):
    """Every shift at which the claim is tight is over it with one share less."""
    moved = evidence.STATISTICS["histogram"].sensitivity(EXAMPLE)
    pure = PolyaShares(PureDP(Fraction(1)), moved, 2)
    assert evidence.loss_of(pure, apart, 1) > 1.1 * sum(apart)
    one = SkellamShares(ApproxDP(Fraction(1), Fraction(1, 1000)), moved, 2)
    assert evidence.loss_of(one, apart, 1) > 0.002


def test_half_the_noise_on_binned_labels_is_refuted():
    assert not evidence.binned(sized_for=2, pairs=(evidence.BINNED,)).kept


def test_composed_losses_on_the_grid_are_an_upper_bound():
    """Two cells by the outer product of their tables, by definition."""
    moved = evidence.STATISTICS["histogram"].sensitivity(EXAMPLE)
    shares = SkellamShares(ApproxDP(Fraction(1), Fraction(1, 1000)), moved, 1)
    table = shares.noise(1)
    p = table.probabilities
    q = np.pad(p, (1, 0))[:-1]
    exact = np.maximum(np.outer(p, p) - np.e * np.outer(q, q), 0).sum()
    bound = evidence.delta_of(table, (1, 1), 1.0)
    assert exact <= bound < exact * 1.01
