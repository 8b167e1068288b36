"""Maps of several classes and the top label's calibration, from one-vs-rest counts."""

import numpy as np
import pytest

import discreet
from discreet.errors import InputError
from discreet.recalibrate.several_classes import fit_classes, top_label_error

pytestmark = [
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
    pytest.mark.long,
]
NAMES = ["a", "b", "c", "d"]


def draw(rng, n=20_000, sharpness=2.0):
    """Softmax scores that are too extreme by a factor on the logits."""
    z = 1.5 * rng.normal(size=(n, 4)) + np.array([0.5, 0.0, 0.0, -0.5])
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    said = np.exp(sharpness * z)
    return said / said.sum(axis=1, keepdims=True), y


def evaluated(scores, y, privacy=None):
    site = discreet.Examples(scores, np.array(NAMES)[y], classes=NAMES)
    return discreet.evaluate(
        [site], classes=NAMES, privacy=privacy, examples=y.size, prevalence=0.25
    )


def log_loss(p, y):
    return -np.mean(np.log(p[np.arange(y.size), y]))


def counts_of(result):
    return {name: part.fit.counts for name, part in result.items()}


@pytest.mark.parametrize("privacy", [None, discreet.DistributedDP(1)])
def test_maps_mend_scores_that_are_too_extreme(privacy):
    scores, y = draw(np.random.default_rng(1))
    new, labels = draw(np.random.default_rng(2))
    result = evaluated(scores, y, privacy)
    before = log_loss(np.clip(new, 1e-6, 1), labels)
    for name in ("temperature", "vector"):
        found = result.class_map(name)
        mended = found.apply(new)
        assert mended.sum(axis=1) == pytest.approx(1)
        assert log_loss(mended, labels) < before - 0.1
        assert (found.slopes < 0.8).all()


def test_noise_moves_one_temperature_less_than_a_vector():
    scores, y = draw(np.random.default_rng(3), n=5_000)
    drawn = {"temperature": [], "vector": []}
    for _ in range(6):
        result = evaluated(scores, y, discreet.DistributedDP(0.3))
        for name, kept in drawn.items():
            kept.append(result.class_map(name).slopes)
    spread = {name: np.std(kept, axis=0).mean() for name, kept in drawn.items()}
    assert spread["temperature"] < spread["vector"]


def test_the_top_labels_error_is_that_of_the_rows_that_are_sure():
    scores, y = draw(np.random.default_rng(4), sharpness=4.0)
    found = evaluated(scores, y).top_label_ece
    top, right = scores.max(axis=1), scores.argmax(axis=1) == y
    group = np.minimum((top * 15).astype(int), 14)
    sure = top > 0.5
    ece = (
        sum(abs(np.sum((right - top)[sure & (group == g)])) for g in range(15)) / y.size
    )
    whole = sum(abs(np.sum((right - top)[group == g])) for g in range(15)) / y.size
    assert found.value == pytest.approx(ece, abs=2e-3)
    assert found.binning.low - 2e-3 <= whole <= found.binning.high + 2e-3
    share = np.mean(~sure)
    assert found.binning.high == pytest.approx(found.value + share, abs=3e-3)
    assert "below one half" in found.caution


def test_the_sampling_error_is_that_of_repeated_draws():
    found = evaluated(*draw(np.random.default_rng(5), sharpness=4.0)).top_label_ece
    values = [
        evaluated(*draw(np.random.default_rng(50 + k), sharpness=4.0)).top_label_ece
        for k in range(25)
    ]
    # 25 draws know a standard deviation to 14%: 4 of those are 57%.
    assert found.sampling == pytest.approx(np.std([v.value for v in values]), rel=0.57)


def test_what_is_no_class_is_refused():
    scores, y = draw(np.random.default_rng(6))
    result = evaluated(scores, y)
    with pytest.raises(InputError, match="temperature"):
        fit_classes(counts_of(result), "matrix")
    with pytest.raises(InputError, match="a column a class"):
        result.class_map().apply(scores[:, :2])
    assert top_label_error(counts_of(result)).value > 0
    assert result.class_map().to_dict()["name"] == "temperature"
