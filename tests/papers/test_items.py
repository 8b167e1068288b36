"""Every item at a tiny number of runs, and the parts that the items rest on."""

import itertools

import numpy as np
import pytest

from discreet.curator.ranking import rank
from discreet.noise.laplace import LaplaceNoise
from papers.boyd2015.neighbours import neighbour_aucs
from papers.boyd2015.pool import Sample
from papers.boyd2015.sensitivity import brute_force, closed_form, theorem_4
from papers.cormode2023.area import uniform_buckets
from papers.cormode2023.calibration import central_isotonic
from papers.cormode2023.models import TRUSTS, leaf_edges, simulate_tree
from papers.cormode2023.population import KAGGLE, calibration_error, draw
from papers.cormode2023.rates import tree_rates, truth
from papers.cormode2023.slopes import equal_buckets, population
from papers.data import SHARED, Data, Scored
from papers.index.federation import SITES, Federation
from papers.registry import NAMES, paper
from papers.runner import Runner
from papers.tables import Verdict
from papers.xu2025.imbalance import subsample
from papers.xu2025.seeding import simulate_own_seeds, simulate_shared_seed

LONG = ("processes", "section-7.2")
"""They start a session of their own, or many: half a minute each."""
ITEMS = [
    pytest.param(
        *(name, item.name),
        marks=(
            *((pytest.mark.mpc,) if name == "unal2023" else ()),
            *((pytest.mark.slow,) if item.name in LONG else ()),
        ),
    )
    for name in NAMES
    for item in paper(name).items
]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Stand-ins of 2,000 rows, whether or not the real sets are here."""
    return Data(tmp_path_factory.mktemp("nothing"), 2000, stand_ins=True)


@pytest.mark.parametrize(("name", "item"), ITEMS)
def test_every_item_runs_and_leaves_its_tables_and_figures(name, item, small, tmp_path):
    whole = paper(name)
    one = whole.chosen([item])[0]
    done = []
    small._read.clear()
    final = one.exact or name == "sun2022"  # predicted for any size
    runner = Runner(tmp_path, small, runs=2 if final else 1, formats=("svg",))
    report = runner.reproduce(whole, one, progress=done.append)
    assert done == [*range(1, runner.wanted(one) + 1)]
    assert set(small._read) <= set(one.needs), "an item says which sets it reads"
    folder = tmp_path / name
    for table in report.tables:
        lines = (folder / f"{table.name}.csv").read_text().splitlines()
        assert len(lines) == 1 + len(table.rows) > 1
    for figure in report.figures:
        assert (folder / f"{figure.name}.svg").stat().st_size > 5000
    assert report.checks
    assert all(c.statement and c.ours for c in report.checks)
    assert all(c.note for c in report.checks if c.verdict is Verdict.explained)
    if final:
        assert Verdict.unexplained not in [c.verdict for c in report.checks]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "item"), ITEMS)
def test_every_item_agrees_or_has_its_reason_on_the_whole_data(name, item, tmp_path):
    if not SHARED.is_dir():
        pytest.skip("the scored examples are not beside the repository")
    whole = paper(name)
    one = whole.chosen([item])[0]
    runner = Runner(tmp_path, Data(), runs=5)
    report = runner.reproduce(whole, one, progress=lambda _: None)
    off = [c.statement for c in report.checks if c.verdict is Verdict.unexplained]
    assert not off


def test_neighbour_aucs_are_those_of_all_replaced_rows():
    rng = np.random.default_rng(1)
    sample = Sample(rng.random(4), rng.random(3))
    found = neighbour_aucs(sample)
    scores = np.append(sample.positives, sample.negatives)
    labels = np.arange(7) < 4
    places = np.append(np.sort(scores) - 1e-9, 2.0)
    wanted = {(False, True): set(), (True, False): set()}
    for k, place in itertools.product(range(7), places):
        other = scores.copy()
        other[k] = place
        flipped = labels.copy()
        flipped[k] = not labels[k]
        key = (bool(labels[k]), bool(flipped[k]))
        value = rank(flipped, other, ties="scikit-learn").auc
        wanted[key].add(round(float(value), 9))
    for name, key in (
        ("a negative becomes a positive", (False, True)),
        ("a positive becomes a negative", (True, False)),
    ):
        assert {round(v, 9) for v in found[name].tolist()} == wanted[key]


def test_the_closed_form_is_theorem_4():
    for beta in (0.001, 0.1):
        assert np.allclose(closed_form(beta), theorem_4(beta), rtol=1e-6)


def test_brute_force_finds_the_largest_change_of_average_precision():
    # Two rows, one positive: from the top to the bottom, 1 to 1/2.
    assert brute_force(2)[1] == pytest.approx(0.5)


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_released_tree_is_unbiased(trust, small):
    scored = draw(small, "sep", 3000, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    trees = [simulate_tree(scored, trust, 3, rng) for _ in range(200)]
    mean = np.mean([np.append(t.negatives[-1], t.positives[-1]) for t in trees], axis=0)
    exact = scored.cells(leaf_edges(3))
    noise = np.sqrt(trees[0].variances[-1] / 200)
    # A client split over 3 levels is also a sample of a third: sqrt(2 n) more.
    room = 5 * (noise + (np.sqrt(2 * exact.max() / 200) if trust == "LocalDP" else 0))
    assert np.abs(mean - exact).max() <= room + 1e-9


def test_rates_of_an_exact_fine_tree_are_the_exact_rates(small):
    scored = draw(small, "nov", 3000, np.random.default_rng(3))
    tree = simulate_tree(scored, "Federated", 14, np.random.default_rng(0))
    assert np.abs(tree_rates(tree) - truth(scored)).max() < 2e-3


def test_uniform_buckets_keep_every_example(small):
    scored = draw(small, "oct", 3000, np.random.default_rng(4))
    tree = simulate_tree(scored, "Federated", 8, np.random.default_rng(0))
    found = uniform_buckets(tree, 7)
    assert found.positives.sum() == scored.labels.sum()
    assert (found.negatives.size, found.negatives.sum()) == (
        7,
        (1 - scored.labels).sum(),
    )


def test_stand_ins_have_the_auc_and_the_calibration_error_of_the_paper():
    rng = np.random.default_rng(5)
    for name, facts in KAGGLE.items():
        scored = draw(Data(), name, 60_000, rng)
        assert abs(scored.auc - facts.auc) < 0.01
        said = calibration_error(scored.scores, scored.labels, 20)
        assert abs(said - facts.ece) < 0.01


def test_isotonic_regression_of_the_pooled_data_calibrates(small):
    rng = np.random.default_rng(6)
    train, test = (draw(small, "sep", 3000, rng) for _ in range(2))
    said = central_isotonic(train, test.scores)
    before = calibration_error(test.scores, test.labels, 10)
    assert calibration_error(said, test.labels, 10) < before / 2


def test_equal_buckets_are_equal():
    data = population(1000, np.random.default_rng(7))
    negatives, positives = equal_buckets(data, 8)
    assert (negatives + positives).tolist() == [125] * 8
    assert positives.sum() == data.labels.sum()
    assert (np.diff(data.scores) >= 0).all()


def test_one_seed_for_all_clients_multiplies_the_variance_by_their_number():
    sizes = [2**14]
    rng = np.random.default_rng(8)
    noise = LaplaceNoise(5.0)
    own, shared = (
        np.var([draw(sizes, noise.scale, rng) for _ in range(8)]) / noise.variance
        for draw in (simulate_own_seeds, simulate_shared_seed)
    )
    assert 0.9 < own < 1.1
    assert 8.5 < shared < 11.5


def test_one_seed_for_all_levels_repeats_the_upper_levels():
    found = simulate_shared_seed([2, 4, 8], 3.0, np.random.default_rng(9))
    assert found[:2].tolist() == found[2:4].tolist() == found[6:8].tolist()


def test_sites_part_the_pooled_data(small):
    of = Federation.split(small)
    assert len(of.sites) == SITES
    together = np.sort(np.concatenate([site.scores for site in of.sites]))
    assert np.array_equal(together, np.sort(of.pooled.scores))
    rates = [site.labels.mean() for site in of.sites]
    assert max(rates) > 2 * min(rates)


def test_rare_positives_keep_all_negatives():
    scores = np.linspace(0, 1, 1000)
    data = Scored("x", scores, (np.arange(1000) % 2).astype(np.int64))
    found = subsample(data, 0.1, np.random.default_rng(0))
    assert (found.positives.size, found.negatives.size) == (50, 500)
    assert subsample(data, 0.001, np.random.default_rng(0)) is None
    assert subsample(data, 2.0, np.random.default_rng(0)) is None
