"""Damaged bytes make an end refuse, and never crash or accept what was not sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.codec.messages import MalformedMessageError
from discreet.entropy import Seeded
from discreet.errors import ReleaseError
from discreet.label.mechanisms import Option, SumKind
from discreet.label.rank_terms import RankAnswer, RanksMessage, Scores, read
from discreet.label.ranks import SiteRanks
from discreet.session.protocols.ranks import RankSite, collect
from label_cases import rank_terms

MESSAGES = {
    Scores: Scores(np.array([0.5, 0.25, 1e-300])).encode(),
    RanksMessage: RanksMessage(SiteRanks(np.array([0, 3, 16]), 9)).encode(),
    RankAnswer: RankAnswer(Option(SumKind.SLACK, -9, 50), np.array([-7, 5])).encode(),
}
TERMS = rank_terms(2)


@pytest.mark.parametrize("kind", MESSAGES)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_are_another_message(kind, data):
    raw = bytearray(MESSAGES[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for bad in (bytes(raw), bytes(raw[:cut])):
        try:
            found = kind.decode(bad)
        except MalformedMessageError:
            continue
        assert found.encode() == bad


def opened_of(values, seed):
    scores = np.array(values) / 10
    labels = np.array(values, dtype=np.int64) % 2
    entropy = Seeded(seed.to_bytes(5, "big"))
    site = RankSite(TERMS, scores, lambda: labels, entropy, lambda make: make())
    states = [b""]

    def ask(_, messages):
        states[0], reply = site.receive(states[0], messages[1])
        return {1: reply}

    return collect(ask, [1], TERMS)[0]


@given(st.lists(st.integers(0, 10), min_size=1, max_size=12), st.integers(0, 2**32))
def test_ranks_of_any_scores_are_accepted_by_the_site_that_sent_them(values, seed):
    assert read(TERMS, opened_of(values, seed)).examples == len(values)


@given(st.data())
def test_any_opened_vector_is_read_or_refused_as_a_release(data):
    total = opened_of([1, 4, 4, 9], 1)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, total.size - 1))
        total[place] = data.draw(
            st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)
        )
    try:
        fit = read(TERMS, total)
    except ReleaseError:
        return
    assert fit.sites == 1
