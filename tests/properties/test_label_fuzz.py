"""Damaged bytes make an end refuse, and never crash or accept what was not sent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.entropy import Seeded
from discreet.ranks.choice import Kind, Option
from discreet.ranks.coordinator import invite
from discreet.ranks.messages import Answer, Header, Invitation, Ranks, Scores
from discreet.ranks.ranks import SiteRanks
from discreet.ranks.site import Ranked, join
from discreet.ranks.terms import RankSumTerms
from discreet.secagg.errors import ProtocolError

HEADER = Header(bytes(32), bytes(range(32)), 5)
MESSAGES = {
    Invitation: Invitation(HEADER).encode(),
    Scores: Scores(HEADER, np.array([0.5, 0.25, 1e-300])).encode(),
    Ranks: Ranks(HEADER, SiteRanks(np.array([0, 3, 16]), 9)).encode(),
    Answer: Answer(HEADER, Option(Kind.SLACK, -9, 50), np.array([-7, 5])).encode(),
}


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
        except ProtocolError:
            continue
        assert found.encode() == bad


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_an_invitation(raw):
    with pytest.raises(ProtocolError):
        join(raw, np.zeros(2), terms=RankSumTerms(1), site=1, entropy=Seeded(b"fuzz"))


@given(st.lists(st.integers(0, 10), min_size=1, max_size=12), st.integers(0, 2**32))
def test_ranks_of_any_scores_are_accepted_by_the_site_that_sent_them(values, seed):
    terms, entropy = RankSumTerms(2), Seeded(seed.to_bytes(5, "big"))
    scores = np.array(values) / 10
    collecting, invitations = invite([1], terms=terms, entropy=entropy)
    state, sent = join(invitations[1], scores, terms=terms, site=1, entropy=entropy)
    collecting.receive(1, sent)
    answering, ranks = collecting.advance()
    ready = Ranked.read(state, ranks[1], scores)
    labels = np.array(values, dtype=np.int64) % 2
    _, answer = ready.answer(labels, terms=terms, entropy=entropy)
    answering.receive(1, answer)
    assert answering.advance().examples == len(values)
