"""The record of processing: every charge once, in plain words, and no secret."""

from __future__ import annotations

import csv
import io
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli.main import app
from discreet.plan.cohort import fingerprint, key_text
from discreet.privacy.account import Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_file import secret_path
from discreet.privacy.loss import PureDP, Unbounded
from discreet.privacy.unit import EXAMPLE
from discreet.report.disclosures import NOT_RECORDED, disclosures, to_csv, to_html

KEY = b"k" * 32
ANSWER = b"the answer as it was sent"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger.new(tmp_path / "ledger.db")
    plain = Use(
        *("icu", b"a" * 32, 0, PureDP(Fraction(1, 2))),
        plan=b"p" * 32,
        note="sepsis: one example",
        unit=EXAMPLE,
        sites=("x", "y"),
        purpose="external validation",
        coordinator=key_text(KEY),
    )
    opened.record(opened.reserve(plain), ANSWER)
    opened.purge([b"a" * 32])
    waiting = Use("icu", b"b", 0, Unbounded(), sites=("x",), signed=True)
    opened.record(opened.reserve(waiting), ANSWER)
    opened.release(b"b", 0)
    flips = {"reusable": b"R" * 32, "purpose": "=HYPERLINK(1)<script>"}
    for session in (b"c", b"d"):
        use = Use("ward", session, 0, PureDP(Fraction(1)), **flips)
        opened.record(opened.reserve(use), ANSWER)
    opened.reserve(Use("ward", b"e", 0, PureDP(Fraction(1))))
    return opened


def test_every_charge_is_one_row_with_plan_purpose_coordinator_charge_and_date(
    ledger: Ledger,
) -> None:
    first, waiting, flipped, again, unanswered = disclosures(ledger.entries())
    assert (first.population, first.purpose) == ("icu", "external validation")
    assert first.coordinator == fingerprint(KEY)
    assert (first.loss, first.plan) == ("0.5-DP", (b"p" * 32).hex())
    assert first.answer.startswith("erased 20")
    assert first.at[:2] == "20"
    assert (first.counted, flipped.counted) == ("yes", "yes")
    assert waiting.counted.startswith("no: released")
    assert again.counted.startswith("no: the same")
    assert (flipped.answer, unanswered.answer) == ("stored", "none was stored")
    assert unanswered.purpose == unanswered.coordinator == NOT_RECORDED


def test_a_table_opens_in_a_spreadsheet_without_a_formula(ledger: Ledger) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(ledger.entries()))))
    assert len(rows) == 5
    assert rows[2]["purpose"] == "'=HYPERLINK(1)<script>"
    assert rows[0]["purpose"] == "external validation"


def test_the_page_has_totals_and_shows_what_others_wrote_as_text(
    ledger: Ledger,
) -> None:
    page = to_html(ledger.entries(), title="north", head=ledger.head(), made="today")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<td>icu</td><td>epsilon 0.5</td>" in page
    assert "<td>ward</td><td>epsilon 2</td>" in page
    assert ledger.head()[1] in page


@pytest.mark.parametrize("name", ["out.csv", "out.html", "out.json"])
def test_no_format_holds_a_secret_a_mark_or_an_answer(
    ledger: Ledger, name: str, tmp_path: Path
) -> None:
    out = tmp_path / name
    done = CliRunner().invoke(
        app, ["ledger", "export", str(ledger.path), "-o", str(out)]
    )
    assert done.exit_code == 0, done.output
    text = out.read_text()
    assert "external validation" in text
    secret = secret_path(ledger.path).read_bytes()
    for hidden in (secret, ANSWER, b"R" * 32):
        assert hidden.hex() not in text
        assert hidden.decode("latin-1") not in text
