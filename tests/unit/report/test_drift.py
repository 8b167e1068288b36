"""Periods side by side: alarms at the stated rate, and drops that are seen."""

import numpy as np
import pytest

import discreet
from discreet.errors import InputError
from discreet.report.drift import Drift, detectable_change

pytestmark = pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning")


def draw(rng, n, blur=0.0, shift=0.0):
    z = 1.6 * rng.normal(size=n) - 0.6
    y = rng.random(n) < 1 / (1 + np.exp(-z))
    return 1 / (1 + np.exp(-(z + blur * rng.normal(size=n) + shift))), y


def series(seed, periods=6, n=2_000, change=None, privacy=None):
    """Evaluate a series; ``change`` is (from which period on, keywords of draw)."""
    rng = np.random.default_rng(seed)
    scores, labels, names = [], [], []
    for t in range(periods):
        late = change is not None and t >= change[0]
        s, y = draw(rng, n, **(change[1] if late else {}))
        scores.append(s)
        labels.append(y)
        names += [f"p{t:02d}"] * n
    site = discreet.Examples(
        np.concatenate(scores), np.concatenate(labels), groups=np.array(names)
    )
    return discreet.evaluate(
        [site],
        groups=sorted(set(names)),
        privacy=privacy,
        examples=n * periods,
        prevalence=0.4,
        thresholds=[0.4],
    )


def test_a_drop_of_the_ranking_is_seen_where_it_happens():
    found = series(1, change=(4, {"blur": 1.5})).drift()
    assert any(c.measure == "auc" and c.period == "p04" for c in found.alarms)
    first = next(c for c in found.alarms if c.measure == "auc")
    assert first.now < first.before
    assert any("AUC" in line for line in found.sentences())


def test_a_shift_of_the_scores_is_seen_by_calibration_and_stability():
    found = series(2, change=(3, {"shift": 0.8})).drift(("auc", "observed_expected"))
    seen = {c.measure for c in found.alarms}
    assert {"observed_expected", "psi"} <= seen
    assert "auc" not in seen
    assert found.ks("p00", "p05") > 3 * found.ks("p00", "p01")


@pytest.mark.parametrize(
    "privacy",
    [None, pytest.param(discreet.DistributedDP(1), marks=pytest.mark.slow)],
)
def test_series_without_a_change_are_mostly_quiet(privacy):
    # At 5% of series: more than 4 of 12 has probability 2e-4.
    alarmed = sum(
        bool(series(s, periods=4, privacy=privacy).drift().alarms) for s in range(12)
    )
    assert alarmed <= 4


def test_contrasts_are_those_of_the_mean_before_by_hand():
    result = series(5, periods=4)
    found = [
        c
        for c in result.drift(("auc",), false_alarm=1e-9).changes
        if c.measure == "auc"
    ]
    values = [result[p].auc.value for p in result]
    sds = [result[p].auc.sampling for p in result]
    for t, change in enumerate(found, start=1):
        w = np.array(sds[:t]) ** -2.0
        mean = float(w @ values[:t] / w.sum())
        z = (values[t] - mean) / np.sqrt(sds[t] ** 2 + 1 / w.sum())
        assert change.before == pytest.approx(mean)
        assert change.z == pytest.approx(z)


def test_stability_is_its_definition_on_the_rows():
    result = series(6, periods=2, change=(1, {"shift": 0.5}))
    (found,) = result.drift().stability
    rng = np.random.default_rng(6)
    (before, _), (now, _) = draw(rng, 2_000), draw(rng, 2_000, shift=0.5)
    ends = np.append(np.quantile(before, np.arange(10) / 10), 1.1)
    ends[0] = 0.0
    p, q = (np.histogram(s, ends)[0] / s.size for s in (before, now))
    assert found.now == pytest.approx(np.sum((q - p) * np.log(q / p)), rel=0.05)


def test_what_can_be_seen_is_said_beforehand():
    drift = series(7).drift(("auc",))
    assert 0.01 < drift.detectable("auc") < 0.1
    assert drift.detectable("auc", power=0.5) < drift.detectable("auc", power=0.99)
    sds = [part.auc.sampling for part in drift.periods.values()]
    planned = detectable_change(float(np.mean(sds)), len(sds), measures=1)
    assert planned == pytest.approx(drift.detectable("auc"), rel=0.1)


def test_rates_are_watched_at_a_threshold():
    result = series(8, change=(3, {"shift": 1.0}))
    found = result.drift(("alert_rate",), threshold=0.4)
    assert any(c.measure == "alert_rate" for c in found.alarms)
    with pytest.raises(InputError, match="threshold"):
        result.drift(("recall",))
    with pytest.raises(InputError, match="row of"):
        result.drift(("nothing",))
    with pytest.raises(InputError, match="two or more"):
        Drift({"one": next(iter(result.values()))})
