"""``--heterogeneity`` and ``--clusters``: asked on the command line, in the plan and the text."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.plan import file as planfile

RUN = CliRunner()
PRIVATE = [
    *("plan", "--examples", "30000", "--prevalence", "0.25", "--repetitions", "2"),
    *("--privacy", "distributed", "--unit", "client", "--max-examples", "50"),
    *("--heterogeneity", "auc", "--sites", "30"),
]


def test_a_plan_for_too_few_sites_is_not_written(tmp_path):
    out = tmp_path / "plan.toml"
    said = RUN.invoke(app, [*PRIVATE, "--epsilon", "1", "-o", str(out)])
    assert said.exit_code == 1, said.output
    assert "50% of the budget for how sites differ" in said.output
    assert "Do not run" in said.output
    assert not out.exists()


def test_a_plan_that_is_of_use_says_how_much_the_noise_costs(tmp_path):
    out = tmp_path / "plan.toml"
    said = RUN.invoke(app, [*PRIVATE, "--epsilon", "40", "-o", str(out)])
    assert said.exit_code == 0, said.output
    assert "times as far as without" in " ".join(said.output.split())
    plan = planfile.loads(out.read_text())
    assert [terms.key for terms in plan.statistic.effects] == ["auc"]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(5)
    found = []
    for k in range(10):
        y = rng.random(800) < 0.4
        s = 1 / (1 + np.exp(-rng.normal(1.3 * y - 0.6, 1)))
        rows = [
            f"{a},{int(b)},{i // 4}" for i, (a, b) in enumerate(zip(s, y, strict=True))
        ]
        path = tmp_path / f"{k}.csv"
        path.write_text("\n".join(["y_score,y_true,who", *rows]))
        found.append(str(path))
    return found


def test_evaluate_says_how_the_files_differ(files):
    said = RUN.invoke(
        app,
        [
            *("evaluate", *files, "--bins", "64", "--heterogeneity", "auc"),
            *(
                "--heterogeneity",
                "recall@0.5",
                "--clusters",
                "subject",
                "--subject",
                "who",
            ),
        ],
    )
    assert said.exit_code == 0, said.output
    text = " ".join(said.output.split())
    assert "AUC over 10 sites: mean" in text
    assert "recall at 0.5 over 10 sites" in text
    assert "Within a site, the AUC is" in text
    assert "If rows of one subject are alike" in text


def test_an_unknown_effect_is_one_clear_line(files):
    said = RUN.invoke(app, ["evaluate", *files, "--heterogeneity", "charm"])
    assert said.exit_code != 0
    assert "unknown effect of a site" in str(said.exception or said.output)
