"""The ledger does what an account in memory does, whatever happens in between."""

import tempfile
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BudgetError
from discreet.privacy.account import Cap, Limits, MemoryAccount, Permit, Use
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import ApproxDP, PureDP, Unbounded
from discreet.privacy.unit import EXAMPLE, LABEL, Unit
from fuzzing import draws

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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = Ledger.new(path, limits=Limits(CAP))
        try:
            for step in steps:
                if step == ("reopen",):
                    ledger.close()
                    ledger = Ledger(path, limits=Limits(CAP))
                assert outcome(ledger, step) == outcome(memory, step)
                for population in ("icu", "ward"):
                    assert ledger.spent(population) == memory.spent(population)
            ledger.verify()
        finally:
            ledger.close()
