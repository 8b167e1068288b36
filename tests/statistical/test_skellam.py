from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from discreet.entropy import Seeded
from discreet.noise.skellam import SkellamShares, skellam
from discreet.privacy.loss import ApproxDP
from discreet.privacy.unit import EXAMPLE, Sensitivity
from statistical_checks import ALPHA, fit_p_value

pytestmark = pytest.mark.statistical

SIZE = 100_000
CASES = [
    (Fraction(2, 3), range(-1, 2)),
    (Fraction(7), range(-5, 6)),
    (Fraction(60), range(-14, 15)),
]


def skellam_pmf(variance):
    return stats.skellam(variance / 2, variance / 2).pmf


@pytest.mark.parametrize(("variance", "support"), CASES)
def test_skellam_noise_follows_its_pmf(variance, support):
    sample = skellam(variance, SIZE, Seeded(b"skellam"))
    assert fit_p_value(sample, skellam_pmf(float(variance)), support) > ALPHA


@pytest.mark.parametrize(("variance", "support"), CASES)
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_the_fit_rejects_a_scale_that_is_15_percent_off(variance, support, factor):
    sample = skellam(variance, SIZE, Seeded(b"skellam"))
    wrong = skellam_pmf(float(variance) * factor**2)
    assert fit_p_value(sample, wrong, support) < ALPHA


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
    assert fit_p_value(total, skellam_pmf(variance), range(-7, 8)) > ALPHA
    assert fit_p_value(total, skellam_pmf(1.3 * variance), range(-7, 8)) < ALPHA
