"""The paper's rank mechanisms, and its noise on scores."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.data.examples import Examples
from discreet.entropy import Seeded
from discreet.label.mechanisms import Option, SumKind, build
from discreet.label.ranks import SiteRanks
from discreet.privacy.loss import PureDP
from discreet.published.sun2022 import adaptive_share, mean_centre, score_noise_auc
from label_cases import mechanism_of

ONE = PureDP(Fraction(1))


def ranks_of(*doubled, examples=1000):
    return SiteRanks(np.array(doubled, dtype=np.int64), examples)


def test_an_adaptive_site_of_one_example_gives_everything_to_the_count():
    assert adaptive_share(ranks_of(84), ONE) == 1
    assert mechanism_of("adaptive", ranks_of(84), ONE).covariance.positives == (
        pytest.approx(2.0, rel=1e-3)
    )  # the variance of Laplace noise of scale 1


def test_the_adaptive_share_minimises_the_variance_of_the_rank_sum():
    ranks = ranks_of(100, 300, 500, 1400)
    share = adaptive_share(ranks, ONE)
    u, v = 575 / 2, 825 / 2
    expected = u ** (2 / 3) / (u ** (2 / 3) + v ** (2 / 3))
    assert float(share) == pytest.approx(expected, abs=1e-4)
    part = round(share * 10_000)
    centre = mean_centre(ranks)

    def variance(p):
        return build(
            Option(SumKind.ORTHOGONAL, centre, p), ranks, ONE
        ).covariance.rank_sum

    assert variance(part) < min(variance(part - 300), variance(part + 300))


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(4)])
def test_papers_deviations_are_those_of_continuous_laplace_noise(epsilon):
    ranks = ranks_of(100, 300, 500, 1400)
    e, a = float(epsilon), 0.3
    cov = mechanism_of("local-laplace", ranks, PureDP(epsilon)).covariance
    assert cov.rank_sum == pytest.approx(2 * (700 / (a * e)) ** 2, rel=1e-3)
    assert cov.positives == pytest.approx(2 / ((1 - a) * e) ** 2, rel=1e-3)
    assert cov.cross == 0
    wide = mechanism_of("global-laplace", ranks, PureDP(epsilon)).covariance
    assert wide.rank_sum == pytest.approx(2 * (999 / (a * e)) ** 2, rel=1e-3)


def test_noise_on_the_scores_says_that_it_protects_no_label(rng):
    labels = rng.random(3000) < 0.3
    scores = 1 / (1 + np.exp(-rng.normal(1.2 * labels)))
    sites = [Examples(scores[i::3], labels[i::3]) for i in range(3)]
    result = score_noise_auc(sites, epsilon=2, entropy=Seeded(b"n"))
    truth = (scores[labels][:, None] > scores[~labels]).mean()
    assert 0.5 < result.auc.value < truth - 0.05
    assert result.auc.unusable is not None
    assert result.claim.loss == PureDP(Fraction(2))
    assert "labels: their sums are exact" in str(result)
    near = score_noise_auc(sites, epsilon=10_000, entropy=Seeded(b"n"))
    assert near.auc.value == pytest.approx(truth, abs=0.005)
