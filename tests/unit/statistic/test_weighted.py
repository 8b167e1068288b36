"""Weighted examples: scikit-learn's values, a stated sensitivity, fewer effective rows."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from sklearn import metrics as sk

import discreet
from discreet.data.edges import Edges, Uniform
from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError
from discreet.noise.mechanism import NoNoise
from discreet.plan.cohort import PublicFacts
from discreet.plan.file import dumps, loads
from discreet.plan.plan import recommend
from discreet.privacy.unit import Unit
from discreet.statistic import ClassHistogram
from discreet.statistic.weighted import Weighted
from discreet.transport.simulation import run

MOST = 5
EDGES = Edges.realise(Uniform(10))
HISTOGRAM = ClassHistogram(EDGES)
pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")


def rows(n=4000, seed=3, most=MOST):
    """Scores in the middle of bins, so that binning costs nothing."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    s = np.clip(rng.normal(0.35 + 0.25 * y, 0.2), 0, 0.99)
    s = (np.floor(20 * s) + 0.5) / 20
    w = rng.integers(0, most + 1, n)
    return y, s, w


def evaluated(y, s, w, privacy=None, **more):
    half = len(y) // 2
    sites = [
        discreet.Examples(s[part], y[part], weights=w[part])
        for part in (slice(half), slice(half, None))
    ]
    return discreet.evaluate(
        sites, privacy=privacy, max_weight=int(MOST), edges=Uniform(20),
        thresholds=[0.5], interpolation="linear", **more,
    )  # fmt: skip


def test_measures_are_those_of_scikit_learn_with_sample_weight():
    y, s, w = rows()
    result = evaluated(y, s, w)
    at, called = result.at(0.5), s >= 0.5
    for found, function, given, error in (
        (result.auc, sk.roc_auc_score, s, 1e-12),
        (result.average_precision, sk.average_precision_score, s, 1e-9),
        (result.metrics["brier"], sk.brier_score_loss, s, 2e-3),
        (at["precision"], sk.precision_score, called, 1e-12),
        (at["recall"], sk.recall_score, called, 1e-12),
        (at["accuracy"], sk.accuracy_score, called, 1e-12),
        (at["mcc"], sk.matthews_corrcoef, called, 1e-12),
    ):
        expected = function(y, given, sample_weight=w)
        assert found.value == pytest.approx(expected, abs=error), function


def test_conformal_sets_are_for_examples_of_one_weight():
    with pytest.raises(discreet.NotReleasedError, match="one weight"):
        evaluated(*rows()).thresholds.conformal(0.1)


def test_the_vector_is_the_sum_of_weights_and_of_their_squares():
    y, s, w = rows(200)
    counted = Weighted(HISTOGRAM, MOST, squares=True).count(
        discreet.Examples(s, y, weights=w)
    )
    bins = np.floor(10 * s).astype(int)
    for k, label in product(range(10), (0, 1)):
        inside = (bins == k) & (y == label)
        assert counted[10 * label + k] == w[inside].sum()
    assert counted[20:].tolist() == [(w[~y] ** 2).sum(), (w[y] ** 2).sum()]


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_no_example_moves_the_vector_further_than_it_says(relation):
    statistic = Weighted(HISTOGRAM, MOST)
    unit = Unit("example" if relation == "add_remove" else "row", relation)
    stated = statistic.sensitivity(unit)
    every = [(s, y, w) for s in (0.05, 0.95) for y in (0, 1) for w in (0, 1, MOST, 99)]

    def vector(*examples):
        if not examples:
            return np.zeros(statistic.size, dtype=np.int64)
        s, y, w = (np.array(column) for column in zip(*examples, strict=True))
        lenient = discreet.Examples(s, y, weights=w).fitted()
        return statistic.count(lenient)

    base = [(0.55, 1, 2)]
    if relation == "add_remove":
        pairs = [(base, [*base, one]) for one in every]
    else:
        pairs = [([*base, a], [*base, b]) for a, b in product(every, every)]
    moved = [vector(*b) - vector(*a) for a, b in pairs]
    assert max(np.abs(d).sum() for d in moved) == stated.l1
    assert max((d**2).sum() for d in moved) == stated.l2_squared
    assert max(np.abs(d).max() for d in moved) == stated.linf


def test_equal_weights_give_the_errors_of_plain_counts():
    y, s, _ = rows()
    plain = discreet.evaluate(
        [discreet.Examples(s, y)], edges=Uniform(20), thresholds=[0.5],
        interpolation="linear",
    )  # fmt: skip
    weighted = evaluated(y, s, np.full(len(y), MOST))
    for name in ("auc", "average_precision", "brier"):
        one, other = plain.metrics[name], weighted.metrics[name]
        assert other.interval() == pytest.approx(one.interval(), abs=1e-12), name
    assert weighted.at(0.5).recall.interval() == pytest.approx(
        plain.at(0.5).recall.interval(), abs=1e-12
    )
    assert weighted.observed.total_positives == pytest.approx(y.sum())


def test_the_effective_number_is_kishs_and_careful_under_noise():
    y, s, w = rows()
    exact = evaluated(y, s, w)
    ratios = [(w[k] ** 2).sum() / w[k].sum() for k in (y, ~y)]
    kept = exact.observed.total_positives + exact.observed.total_negatives
    assert kept == pytest.approx(w.sum() / max(ratios))
    assert f"add up to {w.sum():,}" in exact.fit.notes[0]
    assert "effective examples" in str(exact)
    privacy = discreet.DistributedDP(2)
    noisy = evaluated(y, s, w, privacy)
    assert "at least" in noisy.fit.notes[0]
    assert noisy.observed.noise.scale == pytest.approx(1 / 2)
    assert noisy.auc.sampling > exact.auc.sampling
    assert noisy.auc.value == pytest.approx(exact.auc.value, abs=0.02)


@pytest.mark.parametrize("lie", ["none", "too many", "one class"])
def test_squares_that_no_weights_give_are_refused(lie):
    """One site's squares would else choose everybody's error bars."""
    y, s, w = rows()
    counted = Weighted(HISTOGRAM, MOST, squares=True)
    vector = counted.count(discreet.Examples(s, y, weights=w)).astype(float)
    assert counted.parts(vector, NoNoise())[""].refusal is None
    size = HISTOGRAM.size
    vector[size:] = {
        "none": (0, 0),
        "too many": MOST * np.array([vector[:10].sum(), vector[10:20].sum()]) + 1,
        "one class": (vector[size], vector[10:20].sum() - 1),
    }[lie]
    assert "squared weights" in counted.parts(vector, NoNoise())[""].refusal


def test_under_noise_the_release_has_the_noise_of_the_largest_weight():
    plan = recommend(
        PublicFacts(4000, 0.3), discreet.DistributedDP(1), edges=Uniform(10),
        max_weight=MOST,
    )  # fmt: skip
    assert loads(dumps(plan)) == plan
    assert loads(dumps(plan)).digest() == plan.digest()
    noise = plan.privacy.mechanism_for(plan.resolve(0, []), plan.cohort)
    opened = noise.open(np.zeros(plan.statistic.size, dtype=np.int64), 1)
    assert opened.noise.scale == pytest.approx(MOST)
    y, s, w = rows()
    found = run(plan, [discreet.Examples(s, y, weights=w)], entropy=Seeded(b"w"))
    again = run(plan, [discreet.Examples(s, y, weights=w)], entropy=Seeded(b"w"))
    assert found.auc.value == again.auc.value
    assert "for one example added or removed" in str(found.claim)


def test_intervals_cover_when_weights_are_inverse_sampling_chances():
    """Negatives are sampled one in five and weigh five: the population is what counts."""
    rng = np.random.default_rng(8)
    population = rows(200_000, seed=9)[:2]
    truth = sk.roc_auc_score(*population)
    held = 0
    for _ in range(60):
        kept = rng.choice(200_000, 6000, replace=False)
        y, s = (column[kept] for column in population)
        taken = y | (rng.random(6000) < 1 / MOST)
        w = np.where(y, 1, MOST)
        low, high = evaluated(y[taken], s[taken], w[taken]).auc.interval()
        held += low <= truth <= high
    assert held >= 54  # 95% of 60 is 57; fewer than 54 has a chance below 2%


@pytest.mark.parametrize("weight", [0.5, -1, 6, np.nan, np.inf])
def test_a_weight_that_is_no_whole_number_in_range_is_refused(weight):
    site = discreet.Examples([0.2, 0.8], [0, 1], weights=[1.0, weight])
    with pytest.raises(InputError, match=r"1 of 2 weights .* from 0 to 5"):
        Weighted(HISTOGRAM, MOST).count(site)


def test_inside_a_session_weights_are_moved_to_the_nearest_and_none_is_refused():
    given = [0.4, -3.0, 77.0, 2.6, np.nan]
    site = discreet.Examples([0.05, 0.15, 0.25, 0.35, 0.45], [1] * 5, weights=given)
    fitted = site.fitted()
    counted = Weighted(HISTOGRAM, MOST).count(fitted)
    assert counted[10:15].tolist() == [0, 0, MOST, 3, 0]
    assert fitted.set_aside == 1
    without = discreet.Examples([0.05], [1]).fitted()
    assert Weighted(HISTOGRAM, MOST).count(without).sum() == 0


def test_frames_and_files_have_a_column_of_weights():
    y, s, w = rows(500)
    frame = pa.table({"y_true": y.astype(int), "y_score": s, "n": w})
    found = discreet.evaluate(
        [frame], weight="n", max_weight=MOST, edges=Uniform(20), interpolation="linear"
    )
    expected = sk.roc_auc_score(y, s, sample_weight=w)
    assert found.auc.value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("privacy", "sentence"),
    [
        (discreet.LocalDP(4), "one-example local messages"),
        (discreet.LabelDP(1), "no groups or weights"),
        (discreet.LabelDP(1, mechanism="curves"), "no groups or weights"),
        (discreet.ExactMPC(), "weights"),
    ],
)
def test_models_that_cannot_add_up_weights_say_so(privacy, sentence):
    y, s, w = rows(500)
    site = discreet.Examples(s, y, weights=w)
    with pytest.raises(PlanError, match=sentence):
        discreet.evaluate([site] * 3, privacy=privacy, max_weight=MOST, examples=1500)


def test_what_does_not_go_with_weights_is_refused_in_a_sentence():
    y, s, w = rows(500)
    site = discreet.Examples(s, y, weights=w)
    with pytest.raises(InputError, match=r"weights are not used here: .* max_weight="):
        discreet.evaluate([site])
    with pytest.raises(InputError, match="max_weight= needs weights at every site"):
        discreet.evaluate([site, discreet.Examples(s, y)], max_weight=MOST)
    with pytest.raises(PlanError, match="without groups"):
        discreet.evaluate([site], max_weight=MOST, groups=["a"])
    both = discreet.Examples(np.column_stack([s, s]), y, weights=w)
    with pytest.raises(InputError, match="weights are not used here"):
        discreet.compare([both])
    with pytest.raises(PlanError, match="the largest weight must be between 2 and"):
        discreet.evaluate([site], max_weight=1)
    squares = Weighted(HISTOGRAM, MOST, squares=True)
    with pytest.raises(PlanError, match="exact sums alone"):
        squares.admits(Unit("example", "add_remove"), 3)
