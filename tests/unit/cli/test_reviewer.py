"""``discreet verify`` has three outcomes; ``--no-record`` makes what it cannot check."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.errors import InputError

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
]
NO_RECORD = "does not hold the record of its release"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(1)
    s = rng.random((600, 2))
    y = (rng.random(600) < s[:, 0]).astype(int)
    table = pa.table({"y_score": s[:, 0], "other": s[:, 1], "y_true": y})
    pc.write_csv(table.slice(0, 300), found / "north.csv")
    pc.write_csv(table.slice(300), found / "south.csv")
    return found


def run(command, *arguments):
    return CliRunner().invoke(
        app, [command, *(str(a) for a in arguments)], catch_exceptions=False
    )


def evaluate(folder, *arguments):
    made = run(
        *("evaluate", folder / "north.csv", folder / "south.csv", "--bins", 8),
        *("--threshold", 0.5, "--report", folder / "report.html"),
        *("--json", folder / "report.json", *arguments),
    )
    assert made.exit_code == 0, made.output
    return made.output


def test_a_report_holds_or_does_not_or_could_not_be_checked(folder):
    evaluate(folder, "--privacy", "distributed", "--epsilon", 1)
    for form in ("html", "json"):
        path = folder / f"report.{form}"
        true = path.read_text(encoding="utf-8")
        holds = run("verify", path)
        assert (holds.exit_code, holds.output.splitlines()[0]) == (
            0,
            f"report.{form} holds.",
        )
        path.write_text(true.replace("distributed", "dispersed"), encoding="utf-8")
        wrong = run("verify", path)
        assert wrong.exit_code == 1
        assert wrong.output.startswith(f"report.{form} does not hold: ")
        newer = true.replace('"record":1', '"record":2').replace(
            '"record": 1', '"record": 2'
        )
        path.write_text(newer, encoding="utf-8")
        unsure = run("verify", path)
        assert unsure.exit_code == 3
        assert unsure.output.startswith(f"report.{form} could not be fully checked.\n")
        assert "holds." not in unsure.output
        path.write_text(true, encoding="utf-8")


def test_an_exact_sums_report_says_on_its_first_screen_what_it_holds(folder):
    said = evaluate(folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    told = "holds every number that the sites revealed"
    assert told in said
    assert told in page[: page.index('<ul class="headlines">')]
    assert NO_RECORD not in page
    assert "--no-record" not in evaluate(folder, "--privacy", "local", "--epsilon", 4)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert 'class="holding"' not in page


def test_without_its_record_a_report_says_so_and_cannot_be_verified(folder):
    evaluate(folder, "--no-record")
    for form in ("html", "json"):
        path = folder / f"report.{form}"
        assert NO_RECORD in path.read_text(encoding="utf-8")
        found = run("verify", path)
        assert found.exit_code == 3
        assert found.output == (
            f"report.{form} could not be fully checked.\n"
            "It holds no record of a release, so nothing in it could be checked: ask for "
            "the report with its record, .html or .json.\n"
        )


def test_without_its_record_an_exact_sums_report_holds_no_bins_count(folder):
    """Neither the counts nor points of curves, whose steps are the counts."""
    evaluate(folder)
    document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    total = document["release"]["releases"][0]["total"]
    steps = np.diff(document["roc"]["tpr"])
    positives = document["examples"]["positives"]
    assert {round(s * positives) for s in steps} <= {int(t) for t in total}
    evaluate(folder, "--no-record")
    without = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert without["release"] is None
    assert set(document) - set(without) == {"roc", "pr", "curve_points"}
    assert "map" not in without["calibration"]
    assert without["metrics"] == document["metrics"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    for piece in ("release-record", "explorer-data", 'id="threshold"', "<path"):
        assert piece not in page
    assert "are left out of this file" in page
    assert not re.search(str(total)[1:-1].replace(" ", ""), page)


def test_under_noise_only_the_record_is_left_out(folder):
    evaluate(folder, "--privacy", "distributed", "--epsilon", 1, "--no-record")
    document = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert document["release"] is None
    assert document["roc"]["tpr"][0] == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "release-record" not in page
    assert "explorer-data" in page


def test_a_comparison_can_leave_its_record_out_too(folder):
    made = run(
        *("compare", folder / "north.csv", folder / "south.csv", "--no-record"),
        *("--score", "y_score", "--score", "other", "--json", folder / "two.json"),
    )
    assert made.exit_code == 0, made.output
    document = json.loads((folder / "two.json").read_text(encoding="utf-8"))
    assert document["release"] is None
    assert NO_RECORD in document["unverifiable"]
    assert all("roc" not in part for part in document["parts"].values())


def invoke(*words):
    return CliRunner().invoke(app, words)


def test_the_attack_reads_a_class_off_a_published_auc(two_sites):
    run = invoke(
        *("attack", "auc", two_sites[0], "--size", "60"),
        *("--digits", "2", "--digits", "6", "--trials", "60"),
    )
    assert run.exit_code == 0, run.output
    last = run.output.strip().splitlines()[-1].split()
    assert last[:2] == ["60", "6"]
    assert float(last[2]) > 0.8  # guessed
    assert float(last[3]) < 0.75  # null control
    assert float(last[4]) < 0.75  # private
    small = invoke("attack", "auc", two_sites[0], "--size", "10000")
    assert isinstance(small.exception, InputError)
    assert "fewer than --size" in str(small.exception)


def test_the_attack_prints_the_top_k_in_order_and_shuffled(two_sites) -> None:
    found = invoke("attack", "top-scores", *two_sites, "--top", "10", "--top", "1000")
    assert found.exit_code == 0, found.output
    ten = found.output.splitlines()[2].split()
    assert ten[0] == "10"
    # The ten highest of 6,000 calibrated scores are nearly all positive; shuffled,
    # half are.
    assert float(ten[2]) >= 0.9
    assert 0.4 < float(ten[5]) < 0.6
