import struct

import numpy as np
import pytest

from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError
from discreet.ranks.choice import Kind, Option
from discreet.ranks.coordinator import invite
from discreet.ranks.messages import Answer, Header, Invitation, Ranks, Scores
from discreet.ranks.ranks import SiteRanks, midranks
from discreet.ranks.site import Joined, Ranked, join
from discreet.ranks.terms import RankSumTerms
from discreet.secagg.errors import (
    ConsumedStateError,
    FaultyCoordinatorError,
    FaultySiteError,
    ProtocolError,
    SavedStateError,
    TooFewSitesError,
)

TERMS = RankSumTerms(2, mechanism="endpoint")
SCORES = {1: np.array([0.3, 0.9, 0.3, 0.1]), 2: np.array([0.2, 0.8, 0.9])}
LABELS = {1: np.array([0, 1, 1, 0]), 2: np.array([0, 0, 1])}


class Session:
    """A coordinator and two sites that have sent their scores."""

    def __init__(self, terms=TERMS, seed=b"session"):
        self.terms, self.entropy = terms, Seeded(seed)
        self.collecting, self.invitations = invite(
            SCORES, terms=terms, entropy=self.entropy
        )
        self.states, self.sent = {}, {}
        for site, scores in SCORES.items():
            self.states[site], self.sent[site] = join(
                self.invitations[site],
                scores,
                terms=terms,
                site=site,
                entropy=self.entropy,
            )

    def ranked(self):
        for site, message in self.sent.items():
            self.collecting.receive(site, message)
        return self.collecting.advance()

    def answers(self, ranks):
        found = {}
        for site, message in ranks.items():
            ready = Ranked.read(self.states[site], message, SCORES[site])
            _, found[site] = ready.answer(
                LABELS[site], terms=self.terms, entropy=self.entropy
            )
        return found


def test_a_session_runs_on_bytes_alone():
    session = Session()
    answering, ranks = session.ranked()
    for site, answer in session.answers(ranks).items():
        assert isinstance(answer, bytes)
        answering.receive(site, answer)
    opened = answering.advance()
    assert (opened.examples, opened.contributors) == (7, 2)
    assert opened.options == {Kind.ENDPOINT: 2}
    assert opened.covariance.positives > 0


def test_scores_are_sent_shuffled_and_ranks_come_back_in_that_order():
    session = Session()
    sent = Scores.decode(session.sent[1]).scores
    assert sorted(sent) == sorted(SCORES[1])
    order = Joined.decode(session.states[1]).order
    assert sent.tolist() == SCORES[1][order].tolist()
    _, ranks = session.ranked()
    pooled = np.concatenate([SCORES[1], SCORES[2]])
    expected = midranks(pooled)[:4][order]
    assert Ranks.decode(ranks[1]).ranks.doubled.tolist() == expected.tolist()


def test_two_sessions_of_one_plan_send_different_orders_and_sessions():
    scores = np.arange(200) / 200
    orders = set()
    for seed in (b"a", b"b"):
        _, invitations = invite([1], terms=TERMS, entropy=Seeded(seed))
        state, _ = join(
            invitations[1], scores, terms=TERMS, site=1, entropy=Seeded(seed)
        )
        orders.add(Joined.decode(state).order.tobytes())
        orders.add(Invitation.decode(invitations[1]).header.session)
    assert len(orders) == 4


def test_the_secret_order_is_not_printed():
    state = Joined.decode(Session().states[1])
    assert "order" not in repr(state)


def test_an_invitation_to_other_terms_or_another_site_is_refused():
    session = Session()
    with pytest.raises(FaultyCoordinatorError, match="other terms"):
        join(
            session.invitations[1],
            SCORES[1],
            terms=RankSumTerms(3, mechanism="endpoint"),
            site=1,
            entropy=session.entropy,
        )
    with pytest.raises(FaultyCoordinatorError, match="for site 1, this is site 2"):
        join(
            session.invitations[1],
            SCORES[1],
            terms=TERMS,
            site=2,
            entropy=session.entropy,
        )


def test_scores_that_are_repeated_foreign_or_unasked_are_refused():
    session, other = Session(), Session(seed=b"other")
    session.collecting.receive(1, session.sent[1])
    with pytest.raises(FaultySiteError, match="site 1 sent this message already"):
        session.collecting.receive(1, session.sent[1])
    with pytest.raises(FaultySiteError, match="another session"):
        session.collecting.receive(2, other.sent[2])
    with pytest.raises(FaultySiteError, match="another session or another site"):
        session.collecting.receive(2, session.sent[1])
    with pytest.raises(FaultySiteError, match="site 3 was not asked"):
        session.collecting.receive(3, session.sent[2])


def test_answers_that_are_repeated_or_foreign_are_refused():
    session, other = Session(), Session(seed=b"other")
    answering, ranks = session.ranked()
    _, foreign = other.ranked()
    answers, strange = session.answers(ranks), other.answers(foreign)
    answering.receive(1, answers[1])
    with pytest.raises(FaultySiteError, match="already"):
        answering.receive(1, answers[1])
    with pytest.raises(FaultySiteError, match="another session"):
        answering.receive(2, strange[2])


def test_every_ranked_site_must_answer():
    session = Session()
    answering, ranks = session.ranked()
    answering.receive(1, session.answers(ranks)[1])
    with pytest.raises(TooFewSitesError, match=r"1 sites are left .* 2 are needed"):
        answering.advance()


def test_a_site_that_sends_no_scores_is_left_out():
    session = Session()
    session.collecting.receive(2, session.sent[2])
    answering, ranks = session.collecting.advance()
    assert set(ranks) == {2}
    assert answering.examples == 3
    with pytest.raises(TooFewSitesError):
        Session().collecting.advance()


def test_a_site_answers_once():
    session = Session()
    _, ranks = session.ranked()
    ready = Ranked.read(session.states[1], ranks[1], SCORES[1])
    state, _ = ready.answer(LABELS[1], terms=TERMS, entropy=session.entropy)
    with pytest.raises(ConsumedStateError):
        Ranked.read(state, ranks[1], SCORES[1])


def test_ranks_of_another_session_site_or_order_are_refused():
    session, other = Session(), Session(seed=b"other")
    _, ranks = session.ranked()
    _, foreign = other.ranked()
    with pytest.raises(FaultyCoordinatorError, match="another session"):
        Ranked.read(session.states[1], foreign[1], SCORES[1])
    with pytest.raises(FaultyCoordinatorError, match="another site"):
        Ranked.read(session.states[1], ranks[2], SCORES[1])
    header = Joined.decode(session.states[1]).header
    honest = Ranks.decode(ranks[1]).ranks
    swapped = SiteRanks(honest.doubled[::-1].copy(), 7)
    with pytest.raises(FaultyCoordinatorError, match="not in the order"):
        Ranked.read(session.states[1], Ranks(header, swapped).encode(), SCORES[1])
    few = SiteRanks(honest.doubled[:3].copy(), 7)
    with pytest.raises(FaultyCoordinatorError, match="3 ranks came for 4 scores"):
        Ranked.read(session.states[1], Ranks(header, few).encode(), SCORES[1])


def test_ranks_beyond_the_announced_examples_are_refused():
    session = Session()
    header = Joined.decode(session.states[1]).header
    good = Ranks(header, SiteRanks(np.array([0, 2, 4, 12]), 7)).encode()
    bad = good[:-4] + struct.pack(">I", 13)
    with pytest.raises(FaultyCoordinatorError, match=r"outside 0 \.\. 12"):
        Ranked.read(session.states[1], bad, SCORES[1])


def test_an_answer_by_another_mechanism_is_refused():
    session = Session()
    answering, _ = session.ranked()
    header = Joined.decode(session.states[1]).header
    other = Answer(header, Option(Kind.RESPONSE), np.array([3, 1])).encode()
    with pytest.raises(FaultySiteError, match="another mechanism than endpoint"):
        answering.receive(1, other)
    short = Answer(header, Option(Kind.ENDPOINT), np.array([3])).encode()
    with pytest.raises(FaultySiteError, match="2 released sums were expected, got 1"):
        answering.receive(1, short)
    silent = Answer(header, Option(Kind.NOTHING), np.zeros(0, dtype=np.int64)).encode()
    with pytest.raises(FaultySiteError, match="unreadable"):
        answering.receive(1, silent)


def test_other_data_than_was_ranked_is_refused():
    session = Session()
    _, ranks = session.ranked()
    with pytest.raises(InputError, match="4 scores were sent, and 3 are here"):
        Ranked.read(session.states[1], ranks[1], SCORES[2])
    ready = Ranked.read(session.states[1], ranks[1], SCORES[1])
    with pytest.raises(InputError, match="4 scores need as many labels, got 3"):
        ready.answer(LABELS[2], terms=TERMS, entropy=session.entropy)
    with pytest.raises(InputError, match="other terms"):
        ready.answer(LABELS[1], terms=RankSumTerms(1), entropy=session.entropy)


def messages():
    header = Header(bytes(32), bytes(range(32)), 5)
    ranks = SiteRanks(np.array([0, 3, 3]), 9)
    return [
        (Invitation, Invitation(header).encode()),
        (Scores, Scores(header, np.array([0.5, -0.0, 2.0])).encode()),
        (Ranks, Ranks(header, ranks).encode()),
        (
            Answer,
            Answer(header, Option(Kind.SLACK, -9, 50), np.array([-7, 2**40])).encode(),
        ),
    ]


@pytest.mark.parametrize(("kind", "raw"), messages())
def test_messages_have_one_encoding(kind, raw):
    assert kind.decode(raw).encode() == raw


@pytest.mark.parametrize(("kind", "raw"), messages())
def test_damaged_messages_are_refused_with_a_protocol_error(kind, raw):
    for bad in (
        b"",
        raw[:1],
        raw[:40],
        bytes([9]) + raw[1:],
        raw[:1] + b"\0" + raw[2:],
    ):
        with pytest.raises(ProtocolError):
            kind.decode(bad)
    with pytest.raises(ProtocolError):
        kind.decode(raw + b"\0")


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_scores_that_cannot_be_ranked_are_refused(value):
    header = Header(bytes(32), bytes(32), 1)
    good = Scores(header, np.array([0.5])).encode()
    with pytest.raises(ProtocolError):
        Scores.decode(good[:-8] + struct.pack(">d", value))


@pytest.mark.parametrize("raw", [b"", b"\x01E", Session().states[1][:-1]])
def test_a_state_that_is_not_one_is_refused(raw):
    with pytest.raises(SavedStateError):
        Joined.decode(raw)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"mechanism": "magic"}, "one of"),
        ({"delta": "1e-6"}, "omit it for choice"),
        ({"share": 0}, "strictly between"),
        ({"epsilon": "0.009"}, "at least 0.01"),
        ({"aggregation": "other"}, "plain"),
        ({"colluders": 1}, "colluders"),
        ({"aggregation": "secagg", "mechanism": "slack"}, "endpoint sums"),
    ],
)
def test_terms_that_do_not_fit_together_are_refused(keywords, words):
    with pytest.raises(PlanError, match=words):
        RankSumTerms(**{"epsilon": 1, **keywords})


def test_terms_that_differ_have_different_digests():
    every = [
        RankSumTerms(1),
        RankSumTerms("1.0000001"),
        RankSumTerms(1, mechanism="endpoint"),
        RankSumTerms(1, "1e-6", mechanism="endpoint"),
        RankSumTerms(1, share="0.4"),
        RankSumTerms(1, aggregation="secagg"),
        RankSumTerms(1, aggregation="secagg", colluders=1),
    ]
    assert len({terms.digest() for terms in every}) == len(every)
    assert RankSumTerms("1.0").digest() == RankSumTerms(1).digest()
