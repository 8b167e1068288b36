"""The ledger does what an account in memory does, and never helps to show few sites."""

import tempfile
from contextlib import contextmanager, suppress
from fractions import Fraction
from itertools import chain
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BudgetError
from discreet.privacy.account import (
    Cap,
    Limits,
    MemoryAccount,
    Permit,
    Use,
    combine_to_few,
)
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded
from discreet.privacy.unit import EXAMPLE, LABEL, Unit
from fuzzing import draws


class Reopened:
    """A ledger on disk that can be closed and opened again."""

    def __init__(self, path, limits):
        self.path, self.limits = path, limits
        self.ledger = Ledger.new(path, limits=limits)

    def again(self):
        self.ledger.close()
        self.ledger = Ledger(self.path, limits=self.limits)


@contextmanager
def on_disk(limits):
    with tempfile.TemporaryDirectory() as folder:
        disk = Reopened(Path(folder) / "ledger.db", limits)
        try:
            yield disk
            disk.ledger.verify()
        finally:
            disk.ledger.close()


CAP = Cap(Fraction(2), Fraction(1, 10**5), 2)
LOSSES = [
    PureDP(Fraction(1, 2)),
    PureDP(Fraction(1, 3)),
    ApproxDP(Fraction(1, 4), Fraction(1, 10**6)),
    Unbounded(),
]
USES = st.builds(
    Use,
    population=st.sampled_from(["icu", "ward"]),
    session=st.sampled_from([b"a", b"b", b"c"]),
    round=st.integers(0, 1),
    loss=st.sampled_from(LOSSES),
    intent=st.sampled_from([b"", b"i", b"j"]),
    plan=st.sampled_from([b"p", b"q"]),
    reusable=st.sampled_from([None, b"labels"]),
    unit=st.sampled_from([None, EXAMPLE, LABEL, Unit("subject", "add_remove", 2)]),
    asked=st.sampled_from([b"", b"bins"]),
)
STEPS = st.one_of(
    st.tuples(st.just("reserve"), USES),
    st.tuples(st.just("record"), USES, st.sampled_from([b"", b"m", b"n"])),
    st.tuples(st.just("replay"), USES),
    st.tuples(st.just("purge"), st.sampled_from([b"a", b"b", b"x"])),
    st.tuples(st.just("reopen")),
)


def outcome(account, step):
    match step:
        case ("reserve", use):
            act = lambda: account.reserve(use).use  # noqa: E731
        case ("record", use, message):
            act = lambda: account.record(Permit(use), message)  # noqa: E731
        case ("replay", use):
            act = lambda: account.replay(use.session, use.round)  # noqa: E731
        case ("purge", session):
            act = lambda: account.purge([session])  # noqa: E731
        case _:
            return None
    try:
        return act()
    except BudgetError as err:
        return str(err)


@draws(40)
@given(steps=st.lists(STEPS, max_size=20))
def test_a_ledger_behaves_as_an_account_in_memory(steps):
    memory = MemoryAccount(CAP)
    with on_disk(Limits(CAP)) as disk:
        for step in steps:
            if step == ("reopen",):
                disk.again()
            assert outcome(disk.ledger, step) == outcome(memory, step)
            for population in ("icu", "ward"):
                assert disk.ledger.spent(population) == memory.spent(population)


FEWEST = 2
SITES = "abcdef"
SESSIONS = st.sampled_from([b"1", b"2", b"3", b"4"])
PARTS = st.lists(st.integers(0, 2), min_size=len(SITES), max_size=len(SITES))
SIGNED_STEPS = st.one_of(
    st.tuples(st.just("send"), SESSIONS),
    st.tuples(st.just("settle"), SESSIONS, PARTS),
    st.tuples(st.just("release"), SESSIONS),
    st.tuples(st.just("withdrawn"), SESSIONS),
    st.tuples(st.just("reopen")),
)


def sums_of(parts):
    """Put each site into no sum, the first, or the second."""
    sums = [[s for s, p in zip(SITES, parts, strict=True) if p == k] for k in (1, 2)]
    return [sites for sites in sums if sites]


@draws(15)
@given(steps=st.lists(SIGNED_STEPS, max_size=14))
def test_what_stays_signed_never_shows_few_sites(steps):
    """Exact sums and releases in any order."""
    signed, over = {}, set()
    with on_disk(Limits(fewest_sites=FEWEST)) as disk:
        for step in steps:
            ledger = disk.ledger
            with suppress(BudgetError):
                match step:
                    case ("send", session):
                        sites = {"sites": tuple(SITES), "signed": True}
                        use = Use("p", session, 0, Unbounded(), **sites)
                        ledger.record(ledger.reserve(use), b"counts")
                    case ("settle", session, parts):
                        ledger.settle(session, 0, sums_of(parts))
                        assert session not in over, "signed after its release"
                        signed[session] = sums_of(parts)
                    case ("release", session):
                        ledger.release(session, 0)
                        assert session not in signed, "released what was signed"
                        over.add(session)
                    case ("withdrawn", session):
                        ledger.release(session, 0, withdrawn={"a": b"signature"})
                        signed.pop(session, None)
                        over.add(session)
                    case _:
                        disk.again()
            revealed = [*chain.from_iterable(signed.values())]
            assert not revealed or not combine_to_few(revealed, FEWEST)
            assert disk.ledger.spent("p").exact_sums >= len(signed)
