"""The commands of a consortium, as far as they go without a network."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli.files import read_plan
from discreet.cli.main import app
from discreet.errors import InputError
from discreet.models.distributed import DistributedDP
from discreet.plan.cohort import Cohort, PublicFacts, key_text
from discreet.plan.file import dumps
from discreet.plan.plan import ModelRef, recommend
from discreet.session import policy as policyfile


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    made = recommend(
        PublicFacts(1000, 0.3),
        DistributedDP("1"),
        cohort=Cohort(3),
        model=ModelRef("sepsis-xgb"),
    )
    path.write_text(dumps(made))
    return path


def consortium(folder: Path, plan: Path) -> list[str]:
    sites = [part for name in "abc" for part in ("--site", name)]
    return ["consortium", str(folder), *sites, "--plan", str(plan)]


def test_a_consortium_has_a_roster_and_policies_that_allow_its_plan(
    tmp_path: Path, plan: Path
) -> None:
    before = read_plan(plan).digest()
    result = CliRunner().invoke(app, consortium(tmp_path / "c", plan))
    assert result.exit_code == 0, result.output
    agreed = read_plan(plan)
    assert agreed.digest() != before
    assert agreed.roster is not None
    assert [member.name for member in agreed.roster.sites] == ["a", "b", "c"]
    for member in agreed.roster.sites:
        assert f"{member.name} {key_text(member.key)}" in result.output
        policy = policyfile.load(tmp_path / "c" / member.name / "policy.toml")
        policy.check(agreed)
        assert policy.coordinators == (key_text(agreed.roster.coordinator or b""),)


def test_keys_are_never_written_over(tmp_path: Path, plan: Path) -> None:
    arguments = consortium(tmp_path / "c", plan)
    assert CliRunner().invoke(app, arguments).exit_code == 0
    files = [path for path in (tmp_path / "c").rglob("*") if path.is_file()]
    kept = {path: path.read_bytes() for path in files}
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, InputError)
    assert kept == {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("names", [["a", "a"], ["coordinator"]])
def test_sites_are_named_once_and_none_is_the_coordinator(
    tmp_path: Path, names: list[str]
) -> None:
    sites = [part for name in names for part in ("--site", name)]
    result = CliRunner().invoke(app, ["consortium", str(tmp_path / "c"), *sites])
    assert isinstance(result.exception, InputError)


def test_a_report_that_cannot_be_written_is_refused_before_any_session(tmp_path):
    """Sites would have paid for a result that is then lost."""
    run = CliRunner().invoke(
        app, ["coordinate", "plan.toml", "--keys", str(tmp_path), "--report", "r.pdf"]
    )
    assert isinstance(run.exception, InputError)
    assert ".html, .json or .txt" in str(run.exception)
