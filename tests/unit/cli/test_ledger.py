"""``discreet ledger``: show, verify, export."""

import json
import re
import sqlite3
import subprocess
import sys
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from discreet.cli.ledger import app
from discreet.errors import InputError
from discreet.privacy.account import Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_file import secret_path
from discreet.privacy.loss import PureDP, Unbounded
from discreet.privacy.unit import EXAMPLE, LABEL, Unit
from discreet.transport.joining import only_process

TENTH = PureDP(Fraction(1, 10))


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "ledger.db"
    with Ledger.new(found) as ledger:
        for i in range(40):
            use = Use("icu", b"s%d" % i, 0, TENTH, b"I" * 32, note="sepsis")
            ledger.record(ledger.reserve(use), b"MESSAGE")
        once = {"reusable": b"R" * 32, "note": "labels"}
        ledger.reserve(Use("ward", b"a", 0, TENTH, b"i", **once))
        ledger.reserve(Use("ward", b"b", 0, TENTH, b"i", **once))
        ledger.reserve(Use("er", b"c", 0, Unbounded(), b"i", sites=("x", "y")))
        ledger.settle(b"c", 0, [("x", "y")])
    return found


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_show_gives_basic_and_tighter_totals_a_population(path):
    shown = run("show", path)
    assert shown.exit_code == 0, shown.output
    assert "icu: epsilon 4 spent in 40 rounds." in shown.output
    together = shown.output.split("together (")[1]
    assert 1.5 < float(together.split(",")[0]) < 3.5
    assert "ward: epsilon 0.1 spent in 2 rounds." in shown.output
    assert "er: 1 exact sum spent in 1 round." in shown.output
    assert "84 entries" in shown.output
    only = run("show", path, "--population", "ward").output
    assert "icu" not in only
    for words in ("free", "no message"):
        assert words in only.replace("\n", " ")


def apart(*arguments, hidden=()):
    """Run the command in a process of its own, which lacks some packages."""
    script = (
        f"import sys; sys.modules |= dict.fromkeys({list(hidden)})\n"
        "from discreet.cli.main import main; main()"
    )
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", script, "ledger", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


INSTALL = (
    "The tighter total of a ledger needs an optional dependency: from a clone, "
    "pip install '.[accounting]'."
)


@pytest.mark.long
def test_without_the_extra_only_the_tighter_totals_are_left_out(path):
    """Everything else is said as with it, and one sentence more."""
    whole = apart("show", path)
    lacking = apart("show", path, hidden=["dp_accounting"])
    assert whole.returncode == lacking.returncode == 0, lacking.stderr
    assert INSTALL not in whole.stdout
    assert lacking.stdout.count(INSTALL) == 1
    kept = re.sub(r", together \([\d.]+, 1e-06\)-DP by dp-accounting", "", whole.stdout)
    assert kept != whole.stdout
    assert lacking.stdout.replace(INSTALL + "\n", "") == kept
    assert lacking.stderr == whole.stderr == ""


@pytest.mark.long
def test_an_export_without_the_extra_holds_no_tighter_total(path, tmp_path):
    out = tmp_path / "out.json"
    lacking = apart("export", path, "-o", out, hidden=["dp_accounting"])
    assert (lacking.returncode, lacking.stderr) == (0, INSTALL + "\n")
    without = json.loads(out.read_text())
    assert run("export", path, "-o", out).exit_code == 0
    whole = json.loads(out.read_text())
    for population in whole["populations"].values():
        for unit in population["units"]:
            assert unit["composed"]["epsilon"] > 0
            unit["composed"] = None
    assert without == whole


def test_where_nothing_tighter_can_be_said_nothing_is_to_be_installed(tmp_path):
    """One release, and exact sums alone."""
    path = tmp_path / "ledger.db"
    with Ledger.new(path) as ledger:
        ledger.reserve(Use("icu", b"a", 0, TENTH, b"i"))
        ledger.reserve(Use("er", b"b", 0, Unbounded(), b"i"))
    shown = apart("show", path, hidden=["dp_accounting"])
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "accounting" not in shown.stdout


def test_verify_says_intact_and_knows_a_noted_tag(path):
    intact = run("verify", path)
    assert intact.exit_code == 0
    tag = intact.output.split()[-1]
    assert run("verify", path, "--noted", tag).exit_code == 0
    assert run("verify", path, "--noted", "11" * 32).exit_code == 1


def test_a_population_without_charges_is_not_said_to_have_spent_nothing(path):
    said = run("show", path, "--population", "icu 2").exception
    assert "no charge of population 'icu 2'" in str(said)
    assert "'er', 'icu', 'ward'" in str(said)


@pytest.mark.parametrize("command", ["show", "export"])
@pytest.mark.parametrize("delta", ["7", "1", "-0.1", "nan"])
def test_a_delta_that_is_none_is_refused(path, command, delta):
    assert "[0, 1)" in str(run(command, path, f"--delta={delta}").exception)


def test_an_empty_ledger_has_no_tag_to_note(tmp_path):
    path = tmp_path / "new.db"
    Ledger.new(path).close()
    for command in ("show", "verify", "purge"):
        said = run(command, path)
        assert said.exit_code == 0
        assert "0000" not in said.output
    assert "No entry yet" in run("show", path).output
    run("export", path, "-o", tmp_path / "record.html")
    assert "0000" not in (tmp_path / "record.html").read_text()
    zeros = run("verify", path, "--noted", "00" * 32)
    assert "every empty ledger's" in str(zeros.exception)


def test_verify_exits_with_1_and_names_the_entry_that_was_changed(path):
    with sqlite3.connect(path) as file:
        file.execute("UPDATE entry SET tag = zeroblob(32) WHERE number = 7")
    file.close()
    broken = run("verify", path)
    assert broken.exit_code == 1
    assert "Not intact: entry 7 of the ledger was changed" in broken.output


def test_an_export_has_every_entry_and_total_but_no_secret(path, tmp_path):
    out = tmp_path / "out.json"
    assert run("export", path, "-o", out).exit_code == 0
    text = out.read_text()
    assert json.loads(run("export", path).output) == json.loads(text)
    document = json.loads(text)
    assert document["head"]["entries"] == len(document["entries"]) == 84
    icu, er = (document["populations"][name] for name in ("icu", "er"))
    assert icu["capped"]["epsilon"] == icu["units"][0]["basic"]["epsilon"] == "4"
    assert icu["units"][0]["composed"]["epsilon"] < 4
    assert (er["capped"]["exact_sums"], er["units"]) == (1, [])
    secrets = [secret_path(path).read_bytes(), b"MESSAGE", b"I" * 32, b"R" * 32]
    with Ledger(path) as ledger:
        charge, stored = ledger.entries()[:2]
    secrets += [charge.use.intent, stored.mark]
    for secret in secrets:
        assert secret.hex() not in text
    assert "MESSAGE" not in text


def test_totals_are_shown_unit_by_unit(tmp_path):
    path = tmp_path / "ledger.db"
    assert run("new", path).exit_code == 0
    assert "already" in str(run("new", path).exception)
    subject = Unit("subject", "add_remove", 2)
    with Ledger(path) as ledger:
        for i, unit in enumerate((EXAMPLE, EXAMPLE, LABEL, subject)):
            ledger.reserve(Use("icu", b"%d" % i, 0, TENTH, b"i", unit=unit))
    shown = run("show", path).output
    assert "icu: epsilon 0.7 spent in 4 rounds." in shown
    for line in (
        "  one example added or removed: epsilon 0.4, together",
        "  one label flipped: epsilon 0.7, together",
        "  one subject (at most 2 examples a site) added or removed: epsilon 0.1; 3",
    ):
        assert line in shown
    assert shown.count("say nothing about it") == 1
    units = json.loads(run("export", path).output)["populations"]["icu"]["units"]
    assert [u["basic"]["epsilon"] for u in units] == ["0.4", "0.7", "0.1"]
    assert [u["silent"] for u in units] == [1, 0, 3]


def test_names_that_others_chose_do_not_steer_the_terminal(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger.new(path) as ledger:
        name = "m[/] \x1b[31m\x9b"
        ledger.reserve(Use("icu[bold]\x1b]0;x", b"a", 0, TENTH, b"i", note=name))
        ledger.note_refusal()
    shown = run("show", path)
    assert shown.exit_code == 0, shown.exception
    assert "m[/] ?[31m?" in shown.output.replace("\n", "")
    assert "icu[bold]" in shown.output
    assert not {"\x1b", "\x9b"} & set(shown.output)
    assert "Declined once" in shown.output


def test_looking_makes_no_ledger(tmp_path):
    missing = tmp_path / "none.db"
    assert "there is no ledger" in str(run("show", missing).exception)
    assert run("verify", missing).exit_code == 1
    assert not missing.exists()


def test_show_says_what_is_stored_and_purge_erases_it(path, tmp_path):
    (tmp_path / "ledger.db.session").write_bytes(b"keys")
    shown = run("show", path).output
    assert shown.count("Still stored: 7 bytes of answers") == 40
    assert "ledger.db.session holds the keys of an interrupted session." in shown
    young = run("purge", path)
    assert young.exit_code == 0, young.output
    assert "0 sessions erased, 40 still stored" in young.output
    assert (tmp_path / "ledger.db.session").exists()
    purged = run("purge", path, "--days", 0)
    assert purged.exit_code == 0, purged.output
    assert "40 sessions erased, 0 still stored" in purged.output
    assert not (tmp_path / "ledger.db.session").exists()
    after = run("show", path).output
    assert "The stored answers of 40 sessions were erased." in after
    assert "No answer is stored." in after
    assert "icu: epsilon 4 spent in 40 rounds." in after
    assert run("verify", path).exit_code == 0


def test_a_ledger_in_use_is_neither_purged_nor_rotated(path):
    with only_process(path):
        for command in ("purge", "rotate"):
            refused = run(command, path)
            assert isinstance(refused.exception, InputError)
            assert "takes part already" in str(refused.exception)


def test_rotate_replaces_the_secret_and_a_noted_tag_stays_in_the_chain(path):
    before, tag = secret_path(path).read_bytes(), run("verify", path).output.split()[-1]
    rotated = run("rotate", path)
    assert rotated.exit_code == 0, rotated.output
    assert secret_path(path).read_bytes().startswith(before)
    assert len(secret_path(path).read_bytes()) == len(before) + 32
    assert run("verify", path, "--noted", tag).exit_code == 0


def test_purge_keeps_answers_as_long_as_the_policy_beside_the_ledger_says(path):
    policy = path.with_name("policy.toml")
    for days, left in ((1, 40), (0, 0)):
        policy.write_text(
            'population = "icu"\n[allow]\nprivacy = ["distributed"]\n'
            f"[caps]\nretention_days = {days}\n"
        )
        purged = run("purge", path)
        assert purged.exit_code == 0, purged.output
        assert f"{left} still stored" in purged.output


def test_a_record_has_no_other_form_than_those_that_can_be_read(path, tmp_path):
    for name in ("record.pdf", "record"):
        refused = run("export", path, "-o", tmp_path / name)
        assert "for a PDF, print the .html" in str(refused.exception)
        assert not (tmp_path / name).exists()
    assert run("export", path, "-o", tmp_path / "record.json").exit_code == 0
    assert json.loads((tmp_path / "record.json").read_text())["version"] == 1
