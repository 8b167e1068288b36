"""The ledger: charged first, chained, shared by processes, true to its caps; releases."""

from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context

import pytest

from discreet.errors import BudgetError
from discreet.privacy import ledger as ledger_module
from discreet.privacy.account import (
    Cap,
    Limits,
    Use,
    answer_once,
)
from discreet.privacy.composition import Spent
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import (
    LedgerError,
    Released,
    SiteSecret,
    public_dict,
)
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded
from discreet.privacy.unit import EXAMPLE, LABEL
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
    with Ledger.new(path) as opened:
        yield opened


def test_charges_and_messages_are_seen_by_whoever_opens_the_file_next(path):
    with Ledger.new(path) as ledger:
        ledger.record(ledger.reserve(use()), b"answer")
        ledger.reserve(use(b"t", loss=ApproxDP(Fraction(1), Fraction(1, 10**6))))
    with Ledger(path) as again:
        assert again.spent("icu") == Spent(Fraction(3, 2), Fraction(1, 10**6))
        assert again.spent("ward") == Spent()
        assert again.replay(b"s", 0) == b"answer"
        permit = again.reserve(use())
        again.record(permit, b"answer")
        assert again.spent("icu").epsilon == Fraction(3, 2)
        with pytest.raises(BudgetError, match="another message"):
            again.record(permit, b"fresh noise")


def test_sessions_of_one_question_are_counted_and_retries_are_not(path):
    with Ledger.new(path, limits=Limits(sessions_per_plan=2)) as ledger:
        for session in (b"a", b"b", b"a", b"b"):
            ledger.reserve(use(session, plan=b"p", asked=b"bins"))
            ledger.reserve(use(session, 1, plan=b"p", asked=b"bins"))
        with pytest.raises(BudgetError, match="2 sessions"):
            ledger.reserve(use(b"c", plan=b"another name", asked=b"bins"))
        ledger.reserve(use(b"c", plan=b"p", asked=b"other bins"))


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
    with Ledger.new(path, limits=FIVE) as ledger:
        ledger.reserve(exact(b"a"))
        if allowed:
            ledger.reserve(exact(b"b", sites))
        else:
            with pytest.raises(BudgetError, match="exact sum"):
                ledger.reserve(exact(b"b", sites))
        assert ledger.spent("icu").exact_sums == 1 + allowed
        ledger.reserve(replace(exact(b"c", sites), population="ward"))
        ledger.reserve(use(b"d", sites=SITES[:-1]))  # noise covers a difference


def test_an_exact_sum_on_changed_data_is_refused_under_any_name(path):
    with Ledger.new(path, limits=FIVE) as ledger:
        for session in (b"a", b"b"):
            asked = exact(session, asked=b"bins")
            assert answer_once(ledger, asked, lambda: b"counts") == b"counts"
        renamed = replace(exact(b"c", asked=b"bins"), plan=b"another name")
        with pytest.raises(BudgetError, match="the data changed"):
            answer_once(ledger, renamed, lambda: b"one row more")
        # The refusal told something, and it was charged.
        assert ledger.spent("icu").exact_sums == 3
        assert answer_once(ledger, renamed, lambda: b"counts") == b"counts"


def test_three_exact_sums_that_combine_to_one_site_are_refused(path):
    a, b, c, d = (tuple(f"{x}{i}" for i in range(5)) for x in "abcd")
    sets = [(*a, *b, "victim"), (*b, *c), (*c, *d), (*d, *a)]
    with Ledger.new(path, limits=FIVE) as ledger:
        for i, sites in enumerate(sets[1:]):
            ledger.reserve(exact(b"%d" % i, sites))
        # victim + a + b = (b + c) - (c + d) + (d + a) + victim; each pair differs by
        # five or more on either side.
        with pytest.raises(BudgetError, match="fewer than 5 sites"):
            ledger.reserve(exact(b"last", sets[0]))
        ledger.reserve(exact(b"last", (*a, *b)))


def test_survivors_that_differ_by_few_sites_are_refused_before_the_opening(path):
    with Ledger.new(path, limits=FIVE) as ledger:
        for session in (b"a", b"b"):
            ledger.reserve(exact(session))
        ledger.settle(b"a", 0, [SITES])
        with pytest.raises(BudgetError, match="differs from an earlier one by 1 site,"):
            ledger.settle(b"b", 0, [SITES[:-1]])
        ledger.settle(b"b", 0, [SITES])
        ledger.settle(b"b", 0, [reversed(SITES)])
        with pytest.raises(BudgetError, match="signs once"):
            ledger.settle(b"b", 0, [SITES[:-1]])


def test_later_sums_are_compared_with_who_survived_and_not_who_was_asked(path):
    with Ledger.new(path, limits=FIVE) as ledger:
        ledger.reserve(exact(b"a"))
        ledger.settle(b"a", 0, [SITES[:-1]])
        with pytest.raises(BudgetError, match="by 1 site,"):
            ledger.reserve(exact(b"b"))
        ledger.reserve(exact(b"b", SITES[:-1]))


def test_settling_a_noisy_round_notes_nothing_and_an_unknown_one_is_refused(ledger):
    ledger.reserve(use())
    ledger.settle(b"s", 0, [SITES])
    assert len(ledger.entries()) == 1
    with pytest.raises(BudgetError, match="not charged"):
        ledger.settle(b"t", 0, [SITES])


def test_a_dry_run_refuses_as_a_charge_would_and_charges_nothing(path):
    with Ledger.new(path, limits=Limits(Cap(epsilon=Fraction(1)))) as ledger:
        ledger.check([use(number=0), use(number=1)])
        with pytest.raises(BudgetError, match="exceed"):
            ledger.check([use(number=i) for i in range(3)])
        assert ledger.entries() == ()
        ledger.reserve(use(number=0))
        ledger.check([use(number=0), use(number=1)])
        with pytest.raises(BudgetError, match="another plan"):
            ledger.check([use(number=0, plan=b"other")])


def test_digests_of_data_are_stored_as_marks_and_not_exported(path):
    with Ledger.new(path) as ledger:
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
    with Ledger.new(path) as ledger:
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


def test_two_processes_at_once_spend_no_more_than_the_cap(path):
    Ledger.new(path).close()
    context = get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=spend, args=(path, number, results))
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    paid = [results.get(timeout=240) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert sum(paid) == 20
    with Ledger(path) as ledger:
        ledger.verify()
        assert ledger.spent("icu").epsilon == 10


def test_a_session_of_free_flips_is_still_a_session_of_its_plan(path):
    with Ledger.new(path, limits=Limits(sessions_per_plan=1)) as ledger:
        ledger.reserve(use(b"a", plan=b"p", reusable=b"labels"))
        with pytest.raises(BudgetError, match="1 sessions"):
            ledger.reserve(use(b"b", plan=b"p", reusable=b"labels"))
        ledger.reserve(use(b"b", plan=b"another model", reusable=b"labels"))


def test_a_second_ledger_in_the_same_process_sees_what_the_first_spent(path):
    limits = Limits(Cap(epsilon=Fraction(1, 2)))
    with Ledger.new(path, limits=limits) as one, Ledger(path, limits=limits) as two:
        one.reserve(use(b"a"))
        with pytest.raises(BudgetError, match="exceed"):
            two.reserve(use(b"b"))


def test_refusals_are_counted_and_too_many_a_day_end_the_listening(path, monkeypatch):
    now = ledger_module._now()  # midnight does not come in between
    monkeypatch.setattr(ledger_module, "_now", lambda: now)
    limits = Limits(refusals_per_day=3)
    with Ledger.new(path, limits=limits) as ledger:
        for _ in range(3):
            ledger.check_patience()
            ledger.note_refusal()
        for _ in range(50):
            ledger.note_refusal()
        assert len(ledger.entries()) == 3  # a flood does not grow the file
        with pytest.raises(BudgetError, match=r"3 times today.*tomorrow"):
            ledger.check_patience()
        ledger.verify()
    with Ledger(path, limits=Limits(refusals_per_day=4)) as ledger:
        ledger.check_patience()


def test_refusals_of_another_day_are_forgiven(path, monkeypatch):
    with Ledger.new(path, limits=Limits(refusals_per_day=1)) as ledger:
        ledger.note_refusal()
        monkeypatch.setattr(ledger_module, "_now", lambda: "2999-01-01T00:00:00+00:00")
        ledger.check_patience()
        ledger.note_refusal()
        with pytest.raises(BudgetError, match="1 times today"):
            ledger.check_patience()


def test_losses_about_different_units_are_converted_before_they_are_capped(path):
    """One label may be flipped by removing an example and adding another: twice."""
    limits = Limits(Cap(epsilon=Fraction(3, 2)))
    with Ledger.new(path, limits=limits) as ledger:
        ledger.reserve(use(b"a", unit=EXAMPLE))
        ledger.reserve(use(b"b", unit=LABEL))
        assert ledger.spent("icu").epsilon == Fraction(3, 2)
        with pytest.raises(BudgetError, match="exceed"):
            ledger.reserve(use(b"c", loss=PureDP(Fraction(1, 100)), unit=LABEL))
    with Ledger(path) as again:
        assert [u.unit for u in again.uses("icu")] == [EXAMPLE, LABEL]


LIMITS = Limits(Cap(exact_sums=1), sessions_per_plan=1, fewest_sites=3)


def signed(session, **more):
    signed = more.pop("signed", True)
    return Use(
        "icu", session, 0, Unbounded(), plan=b"p", sites=SITES, signed=signed, **more
    )


@pytest.fixture
def capped(path):
    with Ledger.new(path, limits=LIMITS) as opened:
        yield opened


def sent(capped, session, **more):
    """Charge and store, as before masked counts leave."""
    capped.record(capped.reserve(signed(session, **more)), b"counts")


def exact_sums(capped):
    return capped.spent("icu").exact_sums


def test_what_was_never_signed_is_given_back(capped, path):
    sent(capped, b"a")
    for _ in range(2):
        capped.release(b"a", 0)
        assert exact_sums(capped) == 0
        assert capped.uses("icu") == []
    assert sum(isinstance(e, Released) for e in capped.entries()) == 1
    sent(capped, b"b")  # neither the cap nor the sessions of a plan stand in its way
    with Ledger(path, limits=LIMITS) as again:
        assert exact_sums(again) == 1
        again.verify()


def test_a_released_sum_is_never_signed_charged_or_sent_again(capped):
    sent(capped, b"a")
    capped.release(b"a", 0)
    for act in (
        lambda: capped.settle(b"a", 0, [SITES]),
        lambda: capped.reserve(signed(b"a")),
        lambda: capped.replay(b"a", 0),
        lambda: capped.record(capped.reserve(signed(b"a")), b"counts"),
    ):
        with pytest.raises(BudgetError, match="has released its charge"):
            act()


def test_what_was_signed_stays_charged(capped):
    sent(capped, b"a")
    capped.settle(b"a", 0, [SITES])
    with pytest.raises(BudgetError, match="has signed this sum; its charge stands"):
        capped.release(b"a", 0)
    assert exact_sums(capped) == 1


def test_others_withdrawals_release_what_was_signed(capped, path):
    sent(capped, b"a")
    capped.settle(b"a", 0, [SITES])
    capped.release(b"a", 0, withdrawn={"site-3": b"signature"})
    assert exact_sums(capped) == 0
    with pytest.raises(BudgetError, match="has released its charge"):
        capped.settle(b"a", 0, [SITES])  # asked again before a share leaves
    with Ledger(path) as again:
        (released,) = (e for e in again.entries() if isinstance(e, Released))
        assert released.withdrawn == (("site-3", b"signature"),)
    # Only what can be revealed is compared.
    sent(capped, b"b")
    capped.settle(b"b", 0, [SITES[:-1]])


@pytest.mark.parametrize(
    "use",
    [
        signed(b"a", signed=False),
        replace(signed(b"a"), loss=PureDP(1), signed=False),
    ],
    ids=["readable without a signature", "noisy"],
)
def test_other_charges_are_never_released(capped, use):
    """Exact values of compute parties, answers that are readable as they travel."""
    capped.record(capped.reserve(use), b"counts")
    with pytest.raises(BudgetError, match="can be released"):
        capped.release(b"a", 0)
    with pytest.raises(BudgetError, match="can be released"):
        capped.release(b"unknown", 0)
    assert len(capped.uses("icu")) == 1


def test_a_charge_without_a_message_stands(capped):
    """It may have paid for a refusal that tells of changed data."""
    capped.reserve(signed(b"a"))
    with pytest.raises(BudgetError, match="can be released"):
        capped.release(b"a", 0)
    with pytest.raises(BudgetError, match="exceed the cap"):
        capped.reserve(signed(b"b"))
    assert exact_sums(capped) == 1


def test_the_next_exact_charge_releases_what_was_not_signed(capped):
    sent(capped, b"a")
    capped.check([signed(b"b")])
    assert exact_sums(capped) == 1, "a look releases nothing"
    sent(capped, b"b")
    assert exact_sums(capped) == 1
    with pytest.raises(BudgetError, match="has released its charge"):
        capped.settle(b"a", 0, [SITES])
    capped.settle(b"b", 0, [SITES])
    with pytest.raises(BudgetError, match="exceed the cap"):
        capped.reserve(signed(b"c"))
    with pytest.raises(BudgetError, match="exceed the cap"):
        capped.check([signed(b"c")])


def test_asking_whether_data_are_unchanged_takes_a_session_although_it_is_released(
    path,
):
    """The site refuses when they changed, so its going on tells that they did not."""
    limits = Limits(Cap(exact_sums=2), sessions_per_plan=3)
    with Ledger.new(path, limits=limits) as capped:
        sent(capped, b"a")
        capped.settle(b"a", 0, [SITES])
        for session in (b"b", b"c"):
            sent(capped, session)
            capped.release(session, 0)
        assert exact_sums(capped) == 1
        for act in (capped.reserve, lambda use: capped.check([use])):
            with pytest.raises(BudgetError, match="already answered in 3 sessions"):
                act(signed(b"d"))


def test_without_an_earlier_answer_a_released_session_does_not_count(path):
    limits = Limits(Cap(exact_sums=1), sessions_per_plan=1)
    with Ledger.new(path, limits=limits) as capped:
        for session in (b"a", b"b", b"c"):
            sent(capped, session)
            capped.release(session, 0)
        capped.check([signed(b"d")])


def test_a_population_releases_nothing_of_another(capped):
    sent(capped, b"a")
    capped.reserve(replace(signed(b"b"), population="ward"))
    capped.settle(b"a", 0, [SITES])


def test_a_session_goes_on_although_its_charge_was_not_signed_yet(capped):
    sent(capped, b"a")
    capped.check([signed(b"a")])
    capped.reserve(signed(b"a"))
    capped.settle(b"a", 0, [SITES])


def test_all_sums_of_a_session_are_settled_and_compared(path):
    limits = Limits(fewest_sites=2)
    with Ledger.new(path, limits=limits) as capped:
        groups = SITES[:3], SITES[3:6], SITES[6:]
        sent(capped, b"a")
        capped.settle(b"a", 0, groups)
        capped.settle(b"a", 0, reversed(groups))
        with pytest.raises(BudgetError, match="signs once"):
            capped.settle(b"a", 0, groups[:2])
        use = replace(signed(b"b"), sites=SITES[:-1])
        with pytest.raises(BudgetError, match=r"by 1 site, .* nothing was charged"):
            capped.reserve(use)
        capped.reserve(signed(b"b"))
        with pytest.raises(BudgetError, match=r"by 1 site, .* nothing was charged"):
            capped.check_sums(signed(b"b"), [SITES[:-1]])
        with pytest.raises(BudgetError, match=r"by 1 site, .* this site does not sign"):
            capped.settle(b"b", 0, [SITES[:-1]])
        capped.settle(b"b", 0, [SITES])


def test_a_sum_of_one_session_that_differs_from_its_own_other_sum_is_refused(path):
    with Ledger.new(path, limits=Limits(fewest_sites=2)) as capped:
        sent(capped, b"a")
        with pytest.raises(BudgetError, match="1 site"):
            capped.settle(b"a", 0, [SITES, SITES[:-1]])
