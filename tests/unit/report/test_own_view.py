"""A site beside its consortium, at home."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet
from discreet import Examples, HeterogeneityQuestion
from discreet.cli.main import app
from discreet.plan import file as planfile
from discreet.report.heterogeneity import own_view


def site(rng, signal, n=900):
    y = rng.random(n) < 0.35
    return 1 / (1 + np.exp(-rng.normal(signal * y - 0.7, 1))), y


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(1)
    sites = [Examples(*site(rng, s)) for s in rng.normal(1.3, 0.15, 10)]
    return discreet.evaluate(
        sites,
        edges=discreet.Warped(128),
        heterogeneity=HeterogeneityQuestion(("auc", "recall@0.5")),
    )


def test_a_site_like_the_others_is_inside_and_a_bad_one_outside(result):
    rng = np.random.default_rng(2)
    found = result.exports.to_dict()
    usual = own_view(result.plan, Examples(*site(rng, 1.3)), found)
    assert len(usual) == 2
    assert usual[0].startswith("Your AUC is 0.8")
    assert f"{result.auc.value:.2f} pooled" in usual[0]
    assert usual[0].endswith(": inside.")
    assert usual[1].startswith("Your recall at 0.5")
    bad = own_view(result.plan, Examples(*site(rng, 0.2)), found)
    assert bad[0].endswith(": outside.")


def test_a_site_of_one_class_is_told_so(result):
    lines = own_view(
        result.plan, Examples([0.2, 0.4], [0, 0]), result.exports.to_dict()
    )
    assert all("cannot be estimated" in line for line in lines)


def test_a_result_of_another_plan_or_no_result_is_refused(result):
    mine = Examples([0.2, 0.4], [0, 1])
    with pytest.raises(discreet.InputError, match="another plan"):
        own_view(result.plan, mine, {"plan_digest": "00"})
    with pytest.raises(discreet.InputError, match="no result of discreet"):
        own_view(result.plan, mine, {"plan_digest": result.plan.digest().hex()})
    plain = discreet.recommend(discreet.PublicFacts(), discreet.SecureAggregation())
    with pytest.raises(discreet.InputError, match="--heterogeneity auc"):
        own_view(plain, mine, {})


def test_the_command_says_it_from_two_files(result, tmp_path):
    scores, labels = site(np.random.default_rng(3), 1.3)
    rows = "\n".join(f"{s},{int(y)}" for s, y in zip(scores, labels, strict=True))
    (tmp_path / "mine.csv").write_text(f"y_score,y_true\n{rows}\n")
    (tmp_path / "plan.toml").write_text(planfile.dumps(result.plan))
    (tmp_path / "result.json").write_text(result.to_json())
    done = CliRunner().invoke(
        app,
        [
            *("site", "own", str(tmp_path / "plan.toml"), str(tmp_path / "mine.csv")),
            *("--result", str(tmp_path / "result.json")),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "Your AUC is" in done.output
    assert "inside" in done.output
