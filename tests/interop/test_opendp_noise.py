"""Our samplers against OpenDP's, which share no code with ours."""

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from discreet.entropy import Seeded
from discreet.noise.laplace import discrete_laplace
from discreet.noise.polya import PolyaShares
from discreet.privacy.loss import PureDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from statistical_checks import ALPHA, same_law_p_value

pytestmark = [pytest.mark.interop, pytest.mark.statistical]

SIZE = 40_000
SUPPORT = range(-5, 6)


@pytest.fixture(scope="module", autouse=True)
def _contrib():
    dp.enable_features("contrib")


@pytest.fixture(scope="module")
def opendp_laplace():
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), 2.5)
    assert measure.map(1) == pytest.approx(0.4)
    return np.array(measure([0] * SIZE))


def test_discrete_laplace_draws_as_opendp_does(opendp_laplace):
    ours = discrete_laplace(Fraction(5, 2), SIZE, Seeded(b"ours"))
    assert same_law_p_value(ours, opendp_laplace, SUPPORT) > ALPHA


def test_three_polya_shares_draw_as_opendp_does(opendp_laplace):
    one = Sensitivity(1, 1, 1, EXAMPLE)
    shares = PolyaShares(PureDP(Fraction(2, 5)), one, honest=3)
    zeros = np.zeros(SIZE, dtype=np.int64)
    total = sum(shares.protect(zeros, entropy=Seeded(bytes([i]))) for i in range(3))
    assert same_law_p_value(total, opendp_laplace, SUPPORT) > ALPHA


def test_a_scale_that_is_15_percent_off_does_not(opendp_laplace):
    wrong = discrete_laplace(Fraction(5, 2) * Fraction(85, 100), SIZE, Seeded(b"ours"))
    assert same_law_p_value(wrong, opendp_laplace, SUPPORT) < ALPHA
