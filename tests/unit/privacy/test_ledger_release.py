"""Charges of exact sums: given back only where nothing can be revealed any more."""

import json
from dataclasses import replace

import pytest

from discreet.errors import BudgetError
from discreet.privacy.account import Cap, Limits, Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.ledger_entries import (
    Charge,
    LedgerError,
    Released,
    Settled,
    decode,
    encode,
)
from discreet.privacy.loss import PureDP, Unbounded

SITES = tuple(f"site-{i}" for i in range(10))
LIMITS = Limits(Cap(exact_sums=1), sessions_per_plan=1, fewest_sites=3)


def exact(session, **more):
    signed = more.pop("signed", True)
    return Use(
        "icu", session, 0, Unbounded(), plan=b"p", sites=SITES, signed=signed, **more
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with Ledger.new(path, limits=LIMITS) as opened:
        yield opened


def sent(ledger, session, **more):
    """Charge and store, as before masked counts leave."""
    ledger.record(ledger.reserve(exact(session, **more)), b"counts")


def exact_sums(ledger):
    return ledger.spent("icu").exact_sums


def test_what_was_never_signed_is_given_back(ledger, path):
    sent(ledger, b"a")
    ledger.release(b"a", 0)
    assert exact_sums(ledger) == 0
    assert ledger.uses("icu") == []
    sent(ledger, b"b")  # neither the cap nor the sessions of a plan stand in its way
    with Ledger(path, limits=LIMITS) as again:
        assert exact_sums(again) == 1
        again.verify()


def test_a_released_sum_is_never_signed_charged_or_sent_again(ledger):
    sent(ledger, b"a")
    ledger.release(b"a", 0)
    for act in (
        lambda: ledger.settle(b"a", 0, [SITES]),
        lambda: ledger.reserve(exact(b"a")),
        lambda: ledger.replay(b"a", 0),
        lambda: ledger.record(ledger.reserve(exact(b"a")), b"counts"),
    ):
        with pytest.raises(BudgetError, match="has released its charge"):
            act()


def test_releasing_twice_writes_once(ledger):
    sent(ledger, b"a")
    ledger.release(b"a", 0)
    ledger.release(b"a", 0)
    assert sum(isinstance(e, Released) for e in ledger.entries()) == 1


def test_what_was_signed_stays_charged(ledger):
    sent(ledger, b"a")
    ledger.settle(b"a", 0, [SITES])
    with pytest.raises(BudgetError, match="has signed this sum; its charge stands"):
        ledger.release(b"a", 0)
    assert exact_sums(ledger) == 1


def test_others_withdrawals_release_what_was_signed(ledger, path):
    sent(ledger, b"a")
    ledger.settle(b"a", 0, [SITES])
    ledger.release(b"a", 0, withdrawn={"site-3": b"signature"})
    assert exact_sums(ledger) == 0
    with pytest.raises(BudgetError, match="has released its charge"):
        ledger.settle(b"a", 0, [SITES])  # asked again before a share leaves
    with Ledger(path) as again:
        (released,) = (e for e in again.entries() if isinstance(e, Released))
        assert released.withdrawn == (("site-3", b"signature"),)


def test_a_release_counts_for_no_difference(ledger):
    """Only what can be revealed is compared."""
    sent(ledger, b"a")
    ledger.settle(b"a", 0, [SITES])
    ledger.release(b"a", 0, withdrawn={"site-3": b"signature"})
    sent(ledger, b"b")
    ledger.settle(b"b", 0, [SITES[:-1]])


@pytest.mark.parametrize(
    "use",
    [
        exact(b"a", signed=False),
        replace(exact(b"a"), loss=PureDP(1), signed=False),
    ],
    ids=["readable without a signature", "noisy"],
)
def test_other_charges_are_never_released(ledger, use):
    """Exact values of compute parties, answers that are readable as they travel."""
    ledger.record(ledger.reserve(use), b"counts")
    with pytest.raises(BudgetError, match="can be released"):
        ledger.release(b"a", 0)
    with pytest.raises(BudgetError, match="can be released"):
        ledger.release(b"unknown", 0)
    assert len(ledger.uses("icu")) == 1


def test_a_charge_without_a_message_stands(ledger):
    """It may have paid for a refusal that tells of changed data."""
    ledger.reserve(exact(b"a"))
    with pytest.raises(BudgetError, match="can be released"):
        ledger.release(b"a", 0)
    with pytest.raises(BudgetError, match="exceed the cap"):
        ledger.reserve(exact(b"b"))
    assert exact_sums(ledger) == 1


def test_the_next_exact_charge_releases_what_was_not_signed(ledger):
    sent(ledger, b"a")
    ledger.check([exact(b"b")])
    assert exact_sums(ledger) == 1, "a look releases nothing"
    sent(ledger, b"b")
    assert exact_sums(ledger) == 1
    with pytest.raises(BudgetError, match="has released its charge"):
        ledger.settle(b"a", 0, [SITES])
    ledger.settle(b"b", 0, [SITES])
    with pytest.raises(BudgetError, match="exceed the cap"):
        ledger.reserve(exact(b"c"))
    with pytest.raises(BudgetError, match="exceed the cap"):
        ledger.check([exact(b"c")])


def test_asking_whether_data_are_unchanged_takes_a_session_although_it_is_released(
    path,
):
    """The site refuses when they changed, so its going on tells that they did not."""
    limits = Limits(Cap(exact_sums=2), sessions_per_plan=3)
    with Ledger.new(path, limits=limits) as ledger:
        sent(ledger, b"a")
        ledger.settle(b"a", 0, [SITES])
        for session in (b"b", b"c"):
            sent(ledger, session)
            ledger.release(session, 0)
        assert exact_sums(ledger) == 1
        for act in (ledger.reserve, lambda use: ledger.check([use])):
            with pytest.raises(BudgetError, match="already answered in 3 sessions"):
                act(exact(b"d"))


def test_without_an_earlier_answer_a_released_session_does_not_count(path):
    limits = Limits(Cap(exact_sums=1), sessions_per_plan=1)
    with Ledger.new(path, limits=limits) as ledger:
        for session in (b"a", b"b", b"c"):
            sent(ledger, session)
            ledger.release(session, 0)
        ledger.check([exact(b"d")])


def test_a_population_releases_nothing_of_another(ledger):
    sent(ledger, b"a")
    ledger.reserve(replace(exact(b"b"), population="ward"))
    ledger.settle(b"a", 0, [SITES])


def test_a_session_goes_on_although_its_charge_was_not_signed_yet(ledger):
    sent(ledger, b"a")
    ledger.check([exact(b"a")])
    ledger.reserve(exact(b"a"))
    ledger.settle(b"a", 0, [SITES])


def test_all_sums_of_a_session_are_settled_and_compared(path):
    limits = Limits(fewest_sites=2)
    with Ledger.new(path, limits=limits) as ledger:
        groups = SITES[:3], SITES[3:6], SITES[6:]
        sent(ledger, b"a")
        ledger.settle(b"a", 0, groups)
        ledger.settle(b"a", 0, reversed(groups))
        with pytest.raises(BudgetError, match="signs once"):
            ledger.settle(b"a", 0, groups[:2])
        use = replace(exact(b"b"), sites=SITES[:-1])
        with pytest.raises(BudgetError, match=r"by 1 site, .* nothing was charged"):
            ledger.reserve(use)
        ledger.reserve(exact(b"b"))
        with pytest.raises(BudgetError, match=r"by 1 site, .* nothing was charged"):
            ledger.check_sums(exact(b"b"), [SITES[:-1]])
        with pytest.raises(BudgetError, match=r"by 1 site, .* this site does not sign"):
            ledger.settle(b"b", 0, [SITES[:-1]])
        ledger.settle(b"b", 0, [SITES])


def test_a_sum_of_one_session_that_differs_from_its_own_other_sum_is_refused(path):
    with Ledger.new(path, limits=Limits(fewest_sites=2)) as ledger:
        sent(ledger, b"a")
        with pytest.raises(BudgetError, match="1 site"):
            ledger.settle(b"a", 0, [SITES, SITES[:-1]])


def test_entries_come_back_from_their_bytes():
    entries = [
        Charge("2026-01-01T00:00:00+00:00", exact(b"a")),
        Settled("2026-01-01T00:00:00+00:00", b"a", 0, (SITES[:3], SITES[3:])),
        Released("2026-01-01T00:00:00+00:00", b"a", 0, (("site-3", b"s"),)),
        Released("2026-01-01T00:00:00+00:00", b"a", 0),
    ]
    for entry in entries:
        assert decode(encode(entry)) == entry
    charge = decode(encode(entries[0]))
    assert isinstance(charge, Charge)
    assert charge.use.signed


@pytest.mark.parametrize("signed", [0, "yes", None, "missing"])
def test_a_charge_that_does_not_say_clearly_whether_it_waits_is_refused(signed):
    charge = json.loads(encode(Charge("now", exact(b"a"))))
    changed = charge["use"] | {"signed": signed}
    if signed == "missing":
        del changed["signed"]
    with pytest.raises(LedgerError, match="signed"):
        decode(json.dumps(charge | {"use": changed}).encode())
