"""The ledger: charged first, chained, shared by processes, true to its caps."""

import sqlite3
import stat
from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context

import pytest

from discreet.errors import BudgetError
from discreet.privacy.account import (
    Cap,
    Limits,
    MemoryAccount,
    Permit,
    Spent,
    Use,
    answer_once,
)
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded
from discreet.site.fingerprint import LedgerError, SiteSecret, secret_path
from discreet.site.ledger import Ledger
from discreet.site.ledger_entries import TamperedLedgerError, public_dict
from ledger_spender import spend

HALF = PureDP(Fraction(1, 2))
SITES = tuple(f"site-{i}" for i in range(10))


def use(session=b"s", number=0, *, loss=HALF, population="icu", **more):
    return Use(population, session, number, loss, more.pop("intent", b"i"), **more)


def exact(session, sites=SITES, **more):
    return use(session, loss=Unbounded(), sites=sites, plan=b"p", **more)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with Ledger(path) as opened:
        yield opened


def test_a_charge_is_seen_by_whoever_opens_the_file_next(path):
    with Ledger(path) as ledger:
        ledger.reserve(use())
        ledger.reserve(use(b"t", loss=ApproxDP(Fraction(1), Fraction(1, 10**6))))
    with Ledger(path) as again:
        expected = Spent(Fraction(3, 2), Fraction(1, 10**6))
        assert again.spent("icu") == expected
        assert again.spent("ward") == Spent()


def test_a_retry_is_charged_once_and_resends_the_same_bytes(path):
    with Ledger(path) as ledger:
        ledger.record(ledger.reserve(use()), b"answer")
    with Ledger(path) as again:
        assert again.replay(b"s", 0) == b"answer"
        permit = again.reserve(use())
        again.record(permit, b"answer")
        assert again.spent("icu").epsilon == Fraction(1, 2)
        with pytest.raises(BudgetError, match="another message"):
            again.record(permit, b"fresh noise")


@pytest.mark.parametrize(
    "change", [{"intent": b"other"}, {"plan": b"other"}, {"sites": ("a", "b")}]
)
def test_a_retry_with_other_data_plan_or_roster_is_refused(ledger, change):
    ledger.record(ledger.reserve(use()), b"answer")
    with pytest.raises(BudgetError, match="another plan or other data"):
        ledger.reserve(use(**change))


def test_an_answer_is_made_once_and_only_after_the_charge(ledger):
    made = []

    def make():
        made.append(ledger.spent("icu").epsilon)
        return b"answer"

    assert answer_once(ledger, use(), make) == b"answer"
    assert answer_once(ledger, use(), make) == b"answer"
    assert made == [Fraction(1, 2)]


def test_a_permit_that_was_not_charged_stores_nothing(ledger):
    with pytest.raises(BudgetError, match="not issued"):
        ledger.record(Permit(use()), b"answer")
    assert ledger.replay(b"s", 0) is None


def test_the_cap_belongs_to_the_population_and_not_to_a_plan_or_file(path):
    limits = Limits(Cap(epsilon=Fraction(1)))
    with Ledger(path, limits=limits) as ledger:
        ledger.reserve(use(b"a", plan=b"one"))
        ledger.reserve(use(b"b", plan=b"two", intent=b"other scores"))
        with pytest.raises(BudgetError, match="exceed the cap"):
            ledger.reserve(use(b"c"))
        ledger.reserve(use(b"d", population="ward"))
        assert ledger.spent("icu").epsilon == 1


def test_sessions_of_one_plan_are_counted_and_retries_are_not(path):
    with Ledger(path, limits=Limits(sessions_per_plan=2)) as ledger:
        for session in (b"a", b"b", b"a", b"b"):
            ledger.reserve(use(session, plan=b"p"))
            ledger.reserve(use(session, 1, plan=b"p"))
        with pytest.raises(BudgetError, match="2 sessions"):
            ledger.reserve(use(b"c", plan=b"p"))
        ledger.reserve(use(b"c", plan=b"q"))


@pytest.mark.parametrize("account", ["ledger", "memory"])
def test_the_same_flipped_labels_are_charged_once_a_population(account, ledger):
    account = ledger if account == "ledger" else MemoryAccount()
    flips = {"reusable": b"labels and key"}
    account.reserve(use(b"a", **flips))
    account.reserve(use(b"b", plan=b"another model", **flips))
    assert account.spent("icu").epsilon == Fraction(1, 2)
    account.reserve(use(b"c", reusable=b"changed labels"))
    assert account.spent("icu").epsilon == 1
    account.reserve(use(b"d", loss=PureDP(Fraction(2)), **flips))
    assert account.spent("icu").epsilon == 3
    account.reserve(use(b"e", population="ward", **flips))
    assert account.spent("ward").epsilon == Fraction(1, 2)


def test_flipped_labels_stay_usable_when_the_budget_is_spent(path):
    with Ledger(path, limits=Limits(Cap(epsilon=Fraction(1, 2)))) as ledger:
        ledger.reserve(use(b"a", reusable=b"labels"))
        ledger.reserve(use(b"b", reusable=b"labels"))
        with pytest.raises(BudgetError):
            ledger.reserve(use(b"c", reusable=b"other labels"))


FIVE = Limits(fewest_sites=5)


@pytest.mark.parametrize(
    ("sites", "allowed"),
    [
        (SITES, True),
        (SITES[:-1], False),
        (SITES[:-4], False),
        (SITES[:-5], True),
        ((*SITES, "new"), False),
        ((*SITES[:-1], *"abcde"), False),  # invented sites hide nobody
        ((*SITES[:-5], *"abcde"), True),
        ((), False),
    ],
)
def test_an_exact_sum_that_differs_by_few_sites_is_refused(path, sites, allowed):
    with Ledger(path, limits=FIVE) as ledger:
        ledger.reserve(exact(b"a"))
        if allowed:
            ledger.reserve(exact(b"b", sites))
        else:
            with pytest.raises(BudgetError, match="exact sum"):
                ledger.reserve(exact(b"b", sites))
        assert ledger.spent("icu").exact_sums == 1 + allowed
        ledger.reserve(replace(exact(b"c", sites), population="ward"))
        ledger.reserve(use(b"d", sites=SITES[:-1]))  # noise covers a difference


def test_an_exact_sum_on_changed_data_under_the_same_plan_is_refused(path):
    with Ledger(path, limits=FIVE) as ledger:
        ledger.reserve(exact(b"a"))
        ledger.reserve(exact(b"b"))
        with pytest.raises(BudgetError, match="the data changed"):
            ledger.reserve(exact(b"c", intent=b"one row more"))


def test_survivors_that_differ_by_few_sites_are_refused_before_the_opening(path):
    with Ledger(path, limits=FIVE) as ledger:
        for session in (b"a", b"b"):
            ledger.reserve(exact(session))
        ledger.settle(b"a", 0, SITES)
        with pytest.raises(BudgetError, match="differs from an earlier one by 1 site,"):
            ledger.settle(b"b", 0, SITES[:-1])
        ledger.settle(b"b", 0, SITES)
        ledger.settle(b"b", 0, reversed(SITES))
        with pytest.raises(BudgetError, match="already settled"):
            ledger.settle(b"b", 0, SITES[:-1])


def test_later_sums_are_compared_with_who_survived_and_not_who_was_asked(path):
    with Ledger(path, limits=FIVE) as ledger:
        ledger.reserve(exact(b"a"))
        ledger.settle(b"a", 0, SITES[:-1])
        with pytest.raises(BudgetError, match="by 1 site,"):
            ledger.reserve(exact(b"b"))
        ledger.reserve(exact(b"b", SITES[:-1]))


def test_settling_a_noisy_round_notes_nothing_and_an_unknown_one_is_refused(ledger):
    ledger.reserve(use())
    ledger.settle(b"s", 0, SITES)
    assert len(ledger.entries()) == 1
    with pytest.raises(BudgetError, match="not charged"):
        ledger.settle(b"t", 0, SITES)


def test_a_dry_run_refuses_as_a_charge_would_and_charges_nothing(path):
    with Ledger(path, limits=Limits(Cap(epsilon=Fraction(1)))) as ledger:
        ledger.check([use(number=0), use(number=1)])
        with pytest.raises(BudgetError, match="exceed"):
            ledger.check([use(number=i) for i in range(3)])
        assert ledger.entries() == ()
        ledger.reserve(use(number=0))
        ledger.check([use(number=0), use(number=1)])
        with pytest.raises(BudgetError, match="other data"):
            ledger.check([use(number=0, intent=b"x")])


def tamper(path, statement, *values):
    with sqlite3.connect(path) as file:
        changed = file.execute(statement, values).rowcount
    file.close()
    assert changed


@pytest.fixture
def filled(path):
    with Ledger(path) as ledger:
        for session in (b"a", b"b", b"c"):
            ledger.record(ledger.reserve(use(session)), b"answer " + session)
        ledger.verify()
    return path


@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        (
            "UPDATE entry SET body = cast(replace(body, '5', '1') AS BLOB) WHERE number = 3",
            3,
        ),
        ("UPDATE entry SET tag = zeroblob(32) WHERE number = 2", 2),
        ("DELETE FROM entry WHERE number = 2", 2),
        ("DELETE FROM entry WHERE number = 6", 6),
        ("DELETE FROM entry WHERE number > 4", 5),
        ("DELETE FROM entry", 1),
        ("UPDATE head SET entries = 5", 6),
        ("UPDATE message SET bytes = x'00' WHERE session = x'62'", 4),
        ("DELETE FROM message WHERE session = x'62'", 4),
    ],
)
def test_tampering_is_seen_and_the_entry_is_named(filled, statement, entry):
    tamper(filled, statement)
    with pytest.raises(TamperedLedgerError) as caught, Ledger(filled) as ledger:
        ledger.verify()
    assert caught.value.entry == entry
    assert f"entry {entry} of the ledger" in str(caught.value)


def test_cutting_off_the_last_entries_is_seen_even_with_a_lower_count(filled):
    tamper(filled, "DELETE FROM entry WHERE number = 6")
    tamper(filled, "UPDATE head SET entries = 5")
    with pytest.raises(TamperedLedgerError):
        Ledger(filled)


def test_a_tampered_ledger_pays_for_nothing(filled):
    with Ledger(filled) as ledger:
        tamper(filled, "UPDATE head SET entries = 9")
        with pytest.raises(TamperedLedgerError):
            ledger.reserve(use(b"d"))


def test_an_older_copy_is_seen_by_whoever_noted_the_head(filled):
    copy = filled.read_bytes()
    with Ledger(filled) as ledger:
        ledger.verify(noted=ledger.head()[1])
        ledger.reserve(use(b"d"))
        noted = ledger.head()[1]
    filled.write_bytes(copy)
    with Ledger(filled) as ledger, pytest.raises(LedgerError, match="older copy"):
        ledger.verify(noted=noted)


def test_the_files_are_their_owners_alone(filled):
    for file in (filled, secret_path(filled)):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret_path(filled).chmod(0o640)
    with pytest.raises(LedgerError, match="chmod 600"):
        Ledger(filled)


def test_a_lost_secret_or_a_lost_ledger_is_an_error_and_not_a_new_start(filled):
    secret = secret_path(filled)
    kept = secret.read_bytes()
    secret.unlink()
    with pytest.raises(LedgerError, match=r"secret ledger\.db\.secret is gone"):
        Ledger(filled)
    secret.write_bytes(b"x" * 31)
    secret.chmod(0o600)
    with pytest.raises(LedgerError, match="31 bytes"):
        Ledger(filled)
    secret.write_bytes(bytes(32))
    with pytest.raises(TamperedLedgerError, match="another secret"):
        Ledger(filled)
    secret.write_bytes(kept)
    filled.unlink()
    with pytest.raises(LedgerError, match="restore the ledger"):
        Ledger(filled)


def test_a_file_that_is_no_ledger_or_a_newer_one_is_refused(path):
    path.write_bytes(b"this is not SQLite" * 100)
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(path)
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 2")
    file.close()
    with pytest.raises(LedgerError, match="newer"):
        Ledger(path)


def test_looking_at_a_ledger_that_is_not_there_makes_none(path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.read(path)
    assert not path.exists()


def test_digests_of_data_are_stored_as_marks_and_not_exported(path):
    with Ledger(path) as ledger:
        ledger.record(
            ledger.reserve(use(intent=b"I" * 32, reusable=b"R" * 32)), b"M" * 9
        )
        entries = ledger.entries()
    raw = b"".join(f.read_bytes() for f in path.parent.iterdir())
    for digest in (b"I" * 32, b"R" * 32):
        assert digest not in raw
        assert digest.hex().encode() not in raw
    exported = str([public_dict(entry) for entry in entries])
    marks = (entries[0].use.intent, entries[0].use.reusable, entries[1].mark)
    assert not any(mark.hex() in exported for mark in marks)


def test_marks_depend_on_the_secret_the_purpose_and_the_framing():
    marks = [
        SiteSecret(bytes(32)).mark("entry", b"a", b"b"),
        SiteSecret(b"x" * 32).mark("entry", b"a", b"b"),
        SiteSecret(bytes(32)).mark("head", b"a", b"b"),
        SiteSecret(bytes(32)).mark("entry", b"ab", b""),
    ]
    assert len(set(marks)) == len(marks)
    assert "0000" not in repr(SiteSecret(bytes(32)))


def test_a_full_disk_is_a_clear_error_and_nothing_is_charged_or_kept(path):
    with Ledger(path) as ledger:
        permit = ledger.reserve(use())
        pages = ledger._file._sql.execute("PRAGMA page_count").fetchone()[0]
        ledger._file._sql.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerError, match=r"disk is full.*nothing was charged"):
            ledger.record(permit, b"x" * 100_000)
        ledger._file._sql.execute("PRAGMA max_page_count = 10000")
        assert ledger.replay(b"s", 0) is None
        assert ledger.spent("icu").epsilon == Fraction(1, 2)
        ledger.record(permit, b"x")
        ledger.verify()


def test_two_processes_at_once_start_one_ledger_and_spend_no_more_than_the_cap(path):
    context = get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=spend, args=(path, number, results))
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    paid = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert sum(paid) == 20
    with Ledger.read(path) as ledger:
        ledger.verify()
        assert ledger.spent("icu").epsilon == 10


def test_a_key_lasts_as_long_as_the_ledger_and_has_one_purpose(path, tmp_path):
    with Ledger(path) as ledger, Ledger(tmp_path / "other.db") as other:
        key = ledger.key_for("flips")
        assert key != other.key_for("flips")
        assert key != ledger.key_for("masks")
    with Ledger(path) as again:
        assert again.key_for("flips") == key


def test_a_session_of_free_flips_is_still_a_session_of_its_plan(path):
    with Ledger(path, limits=Limits(sessions_per_plan=1)) as ledger:
        ledger.reserve(use(b"a", plan=b"p", reusable=b"labels"))
        with pytest.raises(BudgetError, match="1 sessions"):
            ledger.reserve(use(b"b", plan=b"p", reusable=b"labels"))
        ledger.reserve(use(b"b", plan=b"another model", reusable=b"labels"))


def test_a_second_ledger_in_the_same_process_sees_what_the_first_spent(path):
    limits = Limits(Cap(epsilon=Fraction(1, 2)))
    with Ledger(path, limits=limits) as one, Ledger(path, limits=limits) as two:
        one.reserve(use(b"a"))
        with pytest.raises(BudgetError, match="exceed"):
            two.reserve(use(b"b"))
