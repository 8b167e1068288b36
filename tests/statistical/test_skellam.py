from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.noise.skellam import SkellamShares, skellam
from discreet.privacy.loss import ApproxDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from statistical_checks import around_zero, assert_fits

pytestmark = pytest.mark.statistical


def skellam_pmf(variance):
    return stats.skellam(variance / 2, variance / 2).pmf


@pytest.mark.parametrize(
    ("variance", "reach"), [(Fraction(2, 3), 1), (Fraction(7), 5), (Fraction(60), 14)]
)
def test_skellam_noise_follows_its_pmf(variance, reach):
    sample = skellam(variance, 100_000, Seeded(b"skellam"))
    wrong = (0.85**2, 1.15**2)
    assert_fits(sample, skellam_pmf, float(variance), around_zero(reach), wrong)


@pytest.mark.parametrize("honest", [3, 200])
def test_a_sum_of_shares_is_skellam_of_the_whole_variance(honest):
    one = Sensitivity(1, 1, 1, EXAMPLE)
    mechanism = SkellamShares(ApproxDP(Fraction(1), Fraction(1, 10**6)), one, honest)
    zeros = np.zeros(20_000, dtype=np.int64)
    total = sum(
        mechanism.protect(zeros, entropy=Seeded(site.to_bytes(2, "big")))
        for site in range(honest)
    )
    variance = float(honest * mechanism.variance)
    assert_fits(total, skellam_pmf, variance, range(-7, 8), (1.3,))
