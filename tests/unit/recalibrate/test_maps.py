import copy
import json
import sys

import numpy as np
import pytest

from discreet.data.scores import ScoreRange
from discreet.errors import InputError, MissingExtraError
from discreet.recalibrate import METHODS, as_transformer, fit, from_json, load, save
from discreet.recalibrate import maps as transformer_module
from discreet.recalibrate.maps import Identity, LogCurve, Steps

pytestmark = pytest.mark.long

GRID = np.linspace(0, 1, 1001)


@pytest.mark.parametrize("method", METHODS)
def test_a_saved_map_maps_every_score_as_before(method, sample, read, tmp_path):
    fitted = fit(*read(*sample(5_000, 1, slope=1.4), scale=1.0), method=method)
    save(fitted, tmp_path / "map.json")
    again = load(tmp_path / "map.json")
    assert again == fitted
    assert (again.apply(GRID) == fitted.apply(GRID)).all()


@pytest.mark.parametrize(
    "scores", [ScoreRange.declare("logit"), ScoreRange.declare("other", -2, 7)]
)
def test_the_kind_of_scores_is_saved(scores):
    fitted = Steps("binning", (0.5,), (0.1, 0.8), scores=scores)
    assert from_json(fitted.to_json()) == fitted
    assert from_json(Identity(scores=scores).to_json()) == Identity(scores=scores)


def changed(**fields):
    found = json.loads(Steps("binning", (0.5,), (0.1, 0.8)).to_json())
    found.update(fields)
    return json.dumps({k: v for k, v in found.items() if v is not None})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON"),
        ("[1]", "JSON object"),
        (changed(version=2), "version"),
        (changed(version=None), "version"),
        (changed(form="tree"), "steps, curve or identity"),
        (changed(cuts=None), "missing or malformed"),
        (changed(cuts="0.5"), "missing or malformed"),
        (changed(name=3), "missing or malformed"),
        (changed(rates=[0.1]), "1 cuts make 2 steps"),
        (changed(rates=[0.1, 1.8]), "probability"),
        (changed(rates=[0.1, float("nan")]), "not valid JSON"),
        (changed(cuts=[0.5, 0.4], rates=[0.1, 0.2, 0.3]), "increase strictly"),
        (changed(scores={"kind": "rank"}), "kind of scores"),
        (changed(scores={}), "missing or malformed"),
        (changed(form="curve", intercept=0, on_log=-1, on_rest=1), "does not fall"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(text, words):
    with pytest.raises(InputError, match=words):
        from_json(text)


def test_the_saved_form_has_a_version_and_no_array_of_counts(sample, read):
    found = fit(*read(*sample(5_000, 2, slope=1.4))).to_dict()
    assert found["version"] == 1
    assert set(found) <= {
        "version", "form", "name", "reason", "scores", "cuts", "rates"
    }  # fmt: skip


def test_the_transformer_is_copied_as_a_pickle_would_and_maps_a_column():
    fitted = LogCurve("platt", 0.1, 1.2, 1.2)
    transformer = as_transformer(fitted).fit(GRID)
    again = copy.copy(transformer)  # by __reduce__, as pickle does
    assert again.transform(GRID)[:, 0] == pytest.approx(fitted.apply(GRID))
    assert again.n_features_in_ == 1


def test_the_transformer_takes_one_column_only():
    with pytest.raises(InputError, match="one column"):
        as_transformer(Identity()).transform(np.ones((3, 2)))


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    transformer_module._transformer_class.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(MissingExtraError, match=r"\[demo\]"):
        as_transformer(Identity())
