"""Sun et al. (2022) again: the stand-in, all sites at once, and every item."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.label.mechanisms import build, option_for
from discreet.label.ranks import SiteRanks, add_covariances, noise_sd
from discreet.privacy.loss import PureDP
from papers.data import Data
from papers.runner import Runner
from papers.sun2022 import PAPER
from papers.sun2022.accurate import equation_8, equation_9
from papers.sun2022.agreement import cells_agree
from papers.sun2022.criteo import FACTS, evaluation_set
from papers.sun2022.equations import algorithm_3, plug_in, won_pairs
from papers.sun2022.printed import IN_TABLE_1, SITES, TABLE_7
from papers.sun2022.response import expected_flipped, flipped_auc
from papers.sun2022.score_noise import noisy_auc
from papers.sun2022.sites import (
    SPLITS,
    Weights,
    adaptive_weights,
    endpoint_weights,
    global_weights,
    local_weights,
    orthogonal_weights,
    pieces,
    response_sd,
    secure_sum_sd,
    simulate_response,
    sites_of,
)
from papers.tables import Verdict

ROWS = 2000
BY_NAME = {
    "global-laplace": global_weights,
    "local-laplace": local_weights,
    "orthogonal": lambda sites: orthogonal_weights(sites, 0.5),
    "adaptive": adaptive_weights,
    "endpoint": endpoint_weights,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return Data(tmp_path_factory.mktemp("nothing"), ROWS)


@pytest.fixture(scope="module")
def ranked(small):
    return evaluation_set(small)


def library_sd(name, ranked, sites, how, epsilon):
    budget = PureDP(Fraction(epsilon))
    ranks = [
        SiteRanks(2 * piece.astype(np.int64), ranked.examples)
        for piece in pieces(ranked.examples, sites, how)
    ]
    options = [option_for(name, site, budget) for site in ranks]
    used = [build(o, r, budget) for o, r in zip(options, ranks, strict=True)]
    covariance = add_covariances(m.covariance for m in used)
    return noise_sd(ranked.sums, ranked.examples, covariance)


@pytest.mark.parametrize("item", [item.name for item in PAPER.items])
def test_no_item_differs_without_a_reason(item, small, tmp_path):
    one = PAPER.chosen([item])[0]
    runner = Runner(tmp_path, small, runs=2, formats=("svg",))
    report = runner.reproduce(PAPER, one, progress=lambda _: None)
    off = [c.statement for c in report.checks if c.verdict is Verdict.unexplained]
    assert not off


def test_every_table_and_figure_of_the_paper_can_be_asked_for():
    tables = [f"table-{k}" for k in (1, 2, 3, 5, 6, 7, 8, 9)]
    figures = [f"figure-{k}" for k in (1, 4, 5, 6, 7, 8)]
    assert PAPER.chosen([*tables, *figures, "ratio"])


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_the_stand_in_has_the_printed_auc(epoch):
    found = evaluation_set(Data(most_rows=200_000), "small", epoch)
    facts = FACTS["small"]
    assert abs(found.auc - facts.aucs[epoch - 1]) < 1e-6
    assert found.examples == 200_000
    share = found.positives / found.examples
    assert abs(share - facts.positives / facts.examples) < 1e-5
    # Calibrated: a fifth of the examples has as many positives as its scores say.
    for piece in np.array_split(np.arange(found.examples), 5):
        said = found.posteriors[piece].mean()
        assert abs(found.labels[piece].mean() - said) < 0.01


@pytest.mark.parametrize("name", sorted(BY_NAME))
@pytest.mark.parametrize("how", SPLITS)
@pytest.mark.parametrize("sites", [3, 40, ROWS])
def test_all_sites_at_once_have_the_noise_of_the_mechanisms(name, how, sites, ranked):
    ours = BY_NAME[name](sites_of(ranked.examples, sites, how)).sd(ranked, 2)
    theirs = library_sd(name, ranked, sites, how, 2)
    assert ours == pytest.approx(theirs, rel=2e-3)


def test_drawn_aucs_have_the_predicted_deviation_and_no_other(ranked):
    weights = adaptive_weights(sites_of(ranked.examples, 40, "IID"))
    rng = np.random.default_rng(1)
    drawn = [weights.simulate_auc(ranked, 8, rng) for _ in range(4000)]
    # The variance of 4,000 draws of 80 summed Laplace variables is good to 2.5%.
    found = np.mean((np.array(drawn) - ranked.auc) ** 2)
    assert found == pytest.approx(weights.sd(ranked, 8) ** 2, rel=0.15)
    wrong = Weights(
        tuple(1.3 * s for s in weights.s), tuple(1.3 * p for p in weights.p)
    )
    assert found != pytest.approx(wrong.sd(ranked, 8) ** 2, rel=0.15)


def test_randomized_response_has_the_predicted_deviation(ranked):
    rng = np.random.default_rng(2)
    drawn = [
        ranked.noisy_auc(*simulate_response(ranked, 3.0, rng)) for _ in range(3000)
    ]
    found = np.mean((np.array(drawn) - ranked.auc) ** 2)
    assert found == pytest.approx(response_sd(ranked, 3.0) ** 2, rel=0.15)


def test_flipped_labels_give_the_auc_that_is_computed_from_their_errors(ranked):
    rng = np.random.default_rng(3)
    rho = 1 / (1 + math.e)
    response_key = rng.random(ranked.examples) < rho
    said = np.where(response_key, 1 - ranked.labels, ranked.labels)
    places = np.flatnonzero(said)
    p, n = places.size, said.size - places.size
    direct = (places.sum() - p * (p - 1) / 2) / (p * n)
    y = (said - rho) / (1 - 2 * rho)
    errors = (
        float(np.arange(said.size) @ (y - ranked.labels)),
        float((y - ranked.labels).sum()),
    )
    assert flipped_auc(ranked, 1.0, errors) == pytest.approx(direct, abs=1e-12)
    assert 0.5 < expected_flipped(ranked, 1.0) < ranked.auc


def test_algorithm_3_is_the_plug_in():
    labels = (np.random.default_rng(4).random(500) < 0.4).astype(np.int64)
    p, n = int(labels.sum()), int((1 - labels).sum())
    noisy = (float(np.flatnonzero(labels).sum()) - p * (p - 1) / 2) / (p * n)
    assert algorithm_3(noisy, p, n, 0.2) == pytest.approx(plug_in(labels, 0.2))


def test_pairs_are_won_by_the_higher_rank():
    assert won_pairs(np.array([0, 1, 0, 1])) == 3


def test_the_ratio_of_equations_8_and_9_is_the_root_of_3(ranked):
    ratio = equation_8(ranked, ranked.examples, 1) / equation_9(ranked, 1)
    assert ratio == pytest.approx(math.sqrt(3), rel=1e-3)


def test_noise_on_scores_vanishes_with_epsilon(ranked):
    rng = np.random.default_rng(5)
    found = noisy_auc(ranked.posteriors, ranked.labels, 1e5, rng)
    assert abs(found - ranked.auc) < 1e-3


def test_a_secure_sum_is_better_than_any_number_of_sites(ranked):
    for sites in (10, 100):
        alone = adaptive_weights(sites_of(ranked.examples, sites, "IID"))
        assert secure_sum_sd(ranked, 1) < alone.sd(ranked, 1)


def test_a_cell_that_is_off_is_named_and_blanks_are_skipped():
    good = {"a": (1.0, 1.1), "b": (math.nan, 5.0)}
    assert cells_agree("x", good).verdict is Verdict.agrees
    bad = cells_agree("x", {**good, "c": (1.0, 2.0)})
    assert bad.verdict is Verdict.unexplained
    assert "c does not" in bad.ours


def test_table_1_agrees_at_its_true_size():
    ranked = evaluation_set(Data())
    makers = {"global": global_weights, "local": local_weights}
    for (name, how, epsilon), printed in TABLE_7.items():
        for sites in IN_TABLE_1[:2]:
            maker = makers.get(name, adaptive_weights)
            ours = maker(sites_of(ranked.examples, sites, how)).sd(ranked, epsilon)
            assert abs(math.log(ours / printed[SITES.index(sites)])) < 0.3
