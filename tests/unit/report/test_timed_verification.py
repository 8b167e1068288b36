"""A report of follow-up is checked by computing it again; any change in it is noticed."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli.main import app
from discreet.errors import ReleaseError
from discreet.report.record import Made, digest
from discreet.report.verification import _Report, verify
from forged_reports import forged_documents, forged_pages

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::discreet.DisclosureWarning"),
]
NOISY = discreet.DistributedDP(1)
SAMPLED = 60
"""How many forgeries of each form are tried for each result."""


def followed(columns=1, *, causes=1, grouped=False):
    """Return three sites whose examples have a time, an event and a score."""
    rng = np.random.default_rng(4)
    n = 900
    z = rng.normal(size=n)
    times, left = rng.exponential(3 * np.exp(-z)), rng.uniform(0, 6, n)
    event = np.where(times <= left, rng.integers(1, causes + 1, n), 0)
    scores = np.column_stack([1 - np.exp(-k * np.exp(z) / 3) for k in (3, 1)])
    groups = rng.choice(["f", "m"], n)
    return [
        discreet.Examples(
            scores[i::3, 0] if columns == 1 else scores[i::3],
            time=np.minimum(times, left)[i::3],
            event=event[i::3],
            causes=causes,
            groups=groups[i::3] if grouped else None,
        )
        for i in range(3)
    ]


def evaluated(*data, horizons=(3,), privacy=None, groups=None, **more):
    return discreet.evaluate(
        followed(*data, grouped=groups is not None, **more),
        horizons=horizons,
        privacy=privacy,
        groups=groups,
        examples=900,
        prevalence=0.4,
    )


RESULTS = {
    "exact": evaluated,
    "epsilon 1": lambda: evaluated(privacy=NOISY),
    "several horizons": lambda: evaluated(horizons=[1, 3]),
    "a score for each horizon": lambda: evaluated(2, horizons=[1, 3]),
    "groups": lambda: evaluated(groups=["f", "m"]),
    "groups, epsilon 1": lambda: evaluated(groups=["f", "m"], privacy=NOISY),
    "two causes": lambda: evaluated(causes=2),
    "two models": lambda: discreet.compare(
        followed(2), horizons=[3], names=("new", "old"), examples=900
    ),
    "two models, epsilon 1": lambda: discreet.compare(
        followed(2), horizons=[1, 3], privacy=NOISY, examples=900
    ),
}


@pytest.fixture(scope="module", params=RESULTS)
def forms(request):
    """Return a real result's report in both forms."""
    result = RESULTS[request.param]()
    return {"html": result.exports.html(Made("2026-01-01")), "json": result.to_json()}


def test_an_untouched_report_of_follow_up_holds(forms):
    page = verify(forms["html"])
    assert page.same_bytes
    assert page.numbers > 100
    document = verify(forms["json"])
    assert document.holds
    assert document.numbers > 50


@pytest.mark.parametrize("form", ["html", "json"])
def test_whatever_is_changed_in_it_is_refused(forms, form, monkeypatch):
    """What the record gives is put in its place: the report itself, as shown above."""
    text = forms[form]
    again = text if form == "html" else json.loads(text)
    monkeypatch.setattr(_Report, "again", lambda *_: again)
    assert verify(text).holds
    every = list((forged_pages if form == "html" else forged_documents)(text))
    rng = np.random.default_rng(3)
    tried = [every[k] for k in rng.choice(len(every), SAMPLED, replace=False)]
    for forged in tried:
        try:
            holds = verify(forged.text()).holds
        except ReleaseError:
            continue
        assert not holds, (forged.what, forged.where)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    result = evaluated(horizons=[1, 3], privacy=NOISY)
    for form in ("html", "json"):
        result.save(folder / f"report.{form}")
    return folder


def _verified(path, text):
    path.write_text(text, encoding="utf-8")
    made = CliRunner().invoke(app, ["verify", str(path)], catch_exceptions=False)
    return made.exit_code, made.output


def _another_number(text):
    """Change the last digit of the first AUC that a reader sees."""
    value = re.search(r'(?:"big">|"auc": \{\s*"value": )(0\.\d+)', text)
    assert value is not None
    digit = str((int(value[1][-1]) + 1) % 10)
    place = value.end(1) if text.startswith("<") else value.start(1) + 4
    return text[: place - 1] + digit + text[place:]


@pytest.mark.parametrize("form", ["html", "json"])
def test_the_command_exits_by_what_it_found(saved, tmp_path, form):
    true = (saved / f"report.{form}").read_text(encoding="utf-8")
    path = tmp_path / f"report.{form}"
    code, said = _verified(path, true)
    assert (code, said.splitlines()[0]) == (0, f"report.{form} holds.")
    word = true.replace("independent censoring", "informative censoring")
    for changed in (_another_number(true), word):
        assert changed != true
        code, said = _verified(path, changed)
        assert code == 1
        assert said.startswith(f"report.{form} does not hold: ")
        assert "does not follow from the release" in said


def test_a_changed_count_is_refused_even_with_its_digest_made_again(saved):

    document = json.loads((saved / "report.json").read_text(encoding="utf-8"))
    record = document["release"]
    record["releases"][0]["total"][3] += 50
    record["digest"] = digest(record)
    with pytest.raises(ReleaseError, match="does not follow from the release"):
        verify(json.dumps(document))


def test_a_report_without_its_record_could_not_be_checked(tmp_path):
    result = evaluated()
    for form in ("html", "json"):
        path = tmp_path / f"report.{form}"
        result.save(path, record=False)
        code, said = _verified(path, path.read_text(encoding="utf-8"))
        assert code == 3
        assert said.startswith(f"report.{form} could not be fully checked.")
