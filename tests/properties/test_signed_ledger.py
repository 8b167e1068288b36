"""Exact sums and releases in any order: what can be revealed never shows few sites."""

import tempfile
from contextlib import suppress
from itertools import chain
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import BudgetError
from discreet.privacy.account import Limits, Use, combine_to_few
from discreet.privacy.ledger import Ledger
from discreet.privacy.loss import Unbounded
from fuzzing import draws

FEWEST = 2
SITES = "abcdef"
SESSIONS = st.sampled_from([b"1", b"2", b"3", b"4"])
PARTS = st.lists(st.integers(0, 2), min_size=len(SITES), max_size=len(SITES))
STEPS = st.one_of(
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
@given(steps=st.lists(STEPS, max_size=14))
def test_what_stays_signed_never_shows_few_sites(steps):
    signed, over = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        path, limits = Path(folder) / "ledger.db", Limits(fewest_sites=FEWEST)
        ledger = Ledger.new(path, limits=limits)
        try:
            for step in steps:
                with suppress(BudgetError):
                    match step:
                        case ("send", session):
                            use = Use(
                                "p",
                                session,
                                0,
                                Unbounded(),
                                sites=tuple(SITES),
                                signed=True,
                            )
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
                            ledger.close()
                            ledger = Ledger(path, limits=limits)
                revealed = [*chain.from_iterable(signed.values())]
                assert not revealed or not combine_to_few(revealed, FEWEST)
                assert ledger.spent("p").exact_sums >= len(signed)
            ledger.verify()
        finally:
            ledger.close()
