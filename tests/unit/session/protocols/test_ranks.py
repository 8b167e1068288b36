"""The ranks route: two halves joined by a fake wire, and what each refuses."""

import struct
from fractions import Fraction

import numpy as np
import pytest

from discreet.codec.messages import MalformedMessageError
from discreet.entropy import Seeded
from discreet.errors import InputError, PlanError, ReleaseError
from discreet.label.mechanisms import Option, SumKind
from discreet.label.rank_terms import (
    RankAnswer,
    RanksMessage,
    RankSumTerms,
    Scores,
    SentOrder,
    read,
)
from discreet.label.ranks import SiteRanks, midranks
from discreet.privacy.loss import ApproxDP, PureDP
from discreet.privacy.unit import EXAMPLE, LABEL
from discreet.secagg.errors import (
    FaultyCoordinatorError,
    FaultySiteError,
    SavedStateError,
    TooFewSitesError,
)
from discreet.session.protocols.ranks import JOIN, RANKS, RankSite, collect
from discreet.statistic import RankSums
from label_cases import rank_terms

TERMS = rank_terms(2, mechanism="endpoint")
SCORES = {1: np.array([0.3, 0.9, 0.3, 0.1]), 2: np.array([0.2, 0.8, 0.9])}
LABELS = {1: np.array([0, 1, 1, 0]), 2: np.array([0, 0, 1])}
BOUND = "the sampling error is a bound that holds for any scores, often too wide"


class Wire:
    """Two sites, their states, and every message that passed."""

    def __init__(self, terms=TERMS, seed=b"session", **spoil):
        self.terms, self.charged, self.passed = terms, [], {}
        self.spoil = spoil  # step -> {site: other reply, or None for silence}
        entropy = Seeded(seed)
        self.sites = {
            site: RankSite(
                terms,
                SCORES[site],
                lambda site=site: LABELS[site],
                entropy,
                lambda make, site=site: self._charge(site, make),
                (lambda site=site: 1 - LABELS[site]) if terms.keeps_flips else None,
            )
            for site in SCORES
        }
        self.states = dict.fromkeys(SCORES, b"")

    def _charge(self, site, make):
        self.charged.append(site)
        return make()

    def ask(self, step, messages):
        replies = {}
        for site, message in messages.items():
            self.passed[step, site] = message
            state, reply = self.sites[site].receive(self.states[site], message)
            self.states[site] = state
            reply = self.spoil.get(step, {}).get(site, reply)
            if reply is not None:
                replies[site] = reply
                self.passed[step + " reply", site] = reply
        return replies

    def run(self):
        return collect(self.ask, SCORES, self.terms)


def test_a_session_runs_on_bytes_and_reveals_one_vector_that_reads_again():
    wire = Wire()
    total, contributors = wire.run()
    assert all(isinstance(message, bytes) for message in wire.passed.values())
    assert total.dtype == np.int64
    fit = read(TERMS, total)
    assert contributors == [1, 2]
    assert fit.examples == 7
    assert fit.options == {SumKind.ENDPOINT: 2}
    assert fit.covariance.positives > 0
    assert wire.charged == [1, 2]


@pytest.mark.parametrize("mechanism", ["endpoint", "response", "response-labels"])
def test_what_is_read_is_what_the_sites_released(mechanism):
    wire = Wire(rank_terms(2, mechanism=mechanism))
    total, _ = wire.run()
    released = [
        RankAnswer.decode(wire.passed["ranks reply", s]).released for s in SCORES
    ]
    ranks = [RanksMessage.decode(wire.passed[RANKS, s]).ranks for s in SCORES]
    if mechanism == "response-labels":
        released = [r.sums(z) for r, z in zip(ranks, released, strict=True)]
    rows = total[3:].reshape(2, -1)
    assert rows[:, -2:].tolist() == [list(z) for z in released]
    assert rows[:, 3].tolist() == [4, 3]
    # By hand: the endpoint sums are read with the ends, the flips by their average.
    fit = read(wire.terms, total)
    if mechanism == "endpoint":
        spans = [r.high - r.low for r in ranks]
        by_hand = sum(
            (r.low * int(z[1]) + r.high * int(z[0])) / 2 / d
            for r, z, d in zip(ranks, released, spans, strict=True)
        )
    else:
        rho = 1 / (1 + np.exp(2))
        by_hand = sum(
            (int(z[0]) - rho * r.total) / 2 / (1 - 2 * rho)
            for r, z in zip(ranks, released, strict=True)
        )
    assert fit.totals.rank_sum == pytest.approx(by_hand)


def test_flipped_labels_and_their_sums_reveal_the_same_numbers():
    revealed = [
        Wire(rank_terms(2, mechanism=name)).run()[0]
        for name in ("response", "response-labels")
    ]
    kinds = [total[[3, 14]].tolist() for total in revealed]
    assert kinds == [[SumKind.RESPONSE] * 2, [SumKind.RESPONSE_LABELS] * 2]
    for total in revealed:
        total[[3, 14]] = 0
    np.testing.assert_array_equal(*revealed)


def test_terms_that_keep_flips_are_not_answered_with_fresh_ones():
    wire = Wire(rank_terms(2, mechanism="response"))
    bare = wire.sites[1]
    naked = RankSite(bare.terms, bare.scores, bare.labels, bare.entropy, bare.charge)
    wire.sites[1] = naked
    with pytest.raises(InputError, match="needs a key"):
        wire.run()


def test_under_a_secure_sum_no_site_answers_and_the_revealed_sum_reads_again():
    terms = rank_terms(2, mechanism="endpoint", aggregation="secagg")
    wire = Wire(terms)

    def secure_sum(ranked):
        vectors = [
            wire.sites[s].summand(wire.states[s], sites=len(ranked)) for s in ranked
        ]
        return sum(vectors), len(vectors)

    total, contributors = collect(wire.ask, SCORES, terms, secure_sum=secure_sum)
    assert {wire.passed["ranks reply", s] for s in SCORES} == {b""}
    assert wire.charged == [1, 2]
    fit = read(terms, total)
    assert (contributors, fit.sites, fit.examples) == ([1, 2], 2, 7)
    assert fit.totals.positives == (total[3] + total[4]) / 12
    assert fit.options == {}
    assert fit.notes == (BOUND,)
    with pytest.raises(InputError, match="secure sum"):
        collect(Wire(terms).ask, SCORES, terms)
    with pytest.raises(TooFewSitesError):
        collect(
            Wire(terms).ask, SCORES, terms, secure_sum=lambda _: (np.zeros(2, int), 1)
        )


def test_scores_are_sent_shuffled_and_ranks_come_back_in_that_order():
    wire = Wire()
    wire.ask(JOIN, dict.fromkeys(SCORES, b""))
    order = SentOrder.decode(wire.states[1]).order
    wire = Wire()
    wire.run()
    sent = Scores.decode(wire.passed["join reply", 1]).scores
    assert sent.tolist() == SCORES[1][order].tolist()
    pooled = np.concatenate([SCORES[1], SCORES[2]])
    expected = midranks(pooled)[:4][order]
    assert RanksMessage.decode(wire.passed[RANKS, 1]).ranks.doubled.tolist() == (
        expected.tolist()
    )


def test_two_sessions_send_different_orders():
    scores = np.arange(200) / 200
    orders = set()
    for seed in (b"a", b"b"):
        site = RankSite(TERMS, scores, lambda: scores, Seeded(seed), lambda make: make)
        state, _ = site.receive(b"", b"")
        orders.add(SentOrder.decode(state).order.tobytes())
    assert len(orders) == 2


def test_neither_data_nor_secrets_are_printed():
    assert repr(Wire().sites[1]) == f"RankSite(terms={TERMS!r})"


@pytest.mark.parametrize("step", [JOIN, RANKS])
def test_bytes_that_cannot_be_read_are_the_sites_fault(step):
    with pytest.raises(FaultySiteError, match="site 2 sent bytes that cannot be read"):
        Wire(**{step: {2: b"\1x"}}).run()


def test_every_ranked_site_must_answer():
    with pytest.raises(TooFewSitesError, match=r"1 sites are left .* 2 are needed"):
        Wire(ranks={2: None}).run()


def test_a_site_that_sends_no_scores_is_left_out():
    wire = Wire(join={1: None})
    total, contributors = wire.run()
    assert contributors == [2]
    assert read(TERMS, total).examples == 3
    with pytest.raises(TooFewSitesError):
        Wire(join={1: None, 2: None}).run()


def test_ranks_in_another_order_or_number_are_refused_before_a_charge():
    wire = Wire()
    wire.run()
    ranks = RanksMessage.decode(wire.passed[RANKS, 1]).ranks
    for bad, words in (
        (ranks.doubled[::-1].copy(), "not in the order"),
        (ranks.doubled[:3].copy(), "3 ranks came for 4 scores"),
    ):
        fresh = Wire()
        fresh.ask(JOIN, dict.fromkeys(SCORES, b""))
        with pytest.raises(FaultyCoordinatorError, match=words):
            fresh.ask(RANKS, {1: RanksMessage(SiteRanks(bad, 7)).encode()})
        assert fresh.charged == []


def test_ranks_beyond_the_announced_examples_are_refused():
    wire = Wire()
    wire.ask(JOIN, dict.fromkeys(SCORES, b""))
    good = RanksMessage(SiteRanks(np.array([0, 2, 4, 12]), 7)).encode()
    bad = good[:-4] + struct.pack(">I", 13)
    with pytest.raises(FaultyCoordinatorError, match=r"outside 0 \.\. 12"):
        wire.ask(RANKS, {1: bad})


def test_an_answer_by_another_mechanism_is_refused():
    nothing = np.zeros(0, dtype=np.int64)
    for option, released, words in (
        (Option(SumKind.RESPONSE), np.array([3, 1]), "another mechanism than endpoint"),
        (
            Option(SumKind.ENDPOINT),
            np.array([3]),
            "2 released sums were expected, got 1",
        ),
        (Option(SumKind.NOTHING), nothing, "unreadable"),
    ):
        with pytest.raises(FaultySiteError, match=words):
            Wire(ranks={1: RankAnswer(option, released).encode()}).run()


def test_flipped_labels_that_are_not_labels_are_refused():
    bad = RankAnswer(Option(SumKind.RESPONSE_LABELS), np.array([0, 1, 2, 1])).encode()
    with pytest.raises(FaultySiteError, match="labels 0 and 1"):
        Wire(rank_terms(2, mechanism="response-labels"), ranks={1: bad}).run()


def test_other_data_than_was_ranked_is_refused():
    wire = Wire()
    wire.ask(JOIN, dict.fromkeys(SCORES, b""))
    with pytest.raises(InputError, match="4 scores were sent, and 3 are here"):
        wire.sites[2].receive(wire.states[1], b"")


@pytest.mark.parametrize("raw", [b"\x01", b"\x01E\0", b"\x01E\0\0\0\1"])
def test_a_state_that_is_not_one_is_refused(raw):
    with pytest.raises(SavedStateError):
        Wire().sites[1].receive(raw, b"")


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_scores_that_cannot_be_ranked_are_refused(value):
    good = Scores(np.array([0.5])).encode()
    with pytest.raises(MalformedMessageError):
        Scores.decode(good[:-8] + struct.pack(">d", value))


def test_a_vector_that_these_terms_do_not_reveal_is_refused():
    total, _ = Wire().run()
    for place, value in (
        (0, 2),  # the form of a secure sum
        (1, 8),  # more examples than the sites have
        (2, 1),  # fewer sites than rows
        (3, 99),  # no such mechanism
        (5, 10_001),  # more than the whole budget
        (9, 10**6),  # ranks that add up to too much
        (13, 0),  # fine: a released sum may be any integer
    ):
        bad = total.copy()
        bad[place] = value
        if place == 13:
            read(TERMS, bad)
            continue
        with pytest.raises(ReleaseError):
            read(TERMS, bad)
    for short in (total[:2], total[:-1], np.zeros(0, dtype=np.int64)):
        with pytest.raises(ReleaseError):
            read(TERMS, short)


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
        (
            {"aggregation": "secagg", "mechanism": "endpoint", "delta": "1e-6"},
            "omit delta",
        ),
    ],
)
def test_terms_that_do_not_fit_together_are_refused(keywords, words):
    with pytest.raises(PlanError, match=words):
        rank_terms(**{"epsilon": 1, **keywords})


def test_terms_follow_from_a_plans_statistic_its_loss_and_its_cohort():
    assert RankSumTerms.of(RankSums(), PureDP(Fraction(2))) == rank_terms(2)
    gaussian = ApproxDP(Fraction(1), Fraction(1, 10**6))
    assert RankSumTerms.of(RankSums("adaptive"), gaussian, colluders=3) == (
        rank_terms(1, "0.000001", mechanism="adaptive")
    )
    summed = RankSums("endpoint", aggregation="secagg")
    assert RankSumTerms.of(summed, PureDP(Fraction(1)), colluders=3).colluders == 3


def test_rank_sums_are_a_statistic_of_two_integers_for_one_flipped_label():
    sums = RankSums()
    assert (sums.size, sums.sensitivity(LABEL).l1, sums.binnings) == (2, 1, ())
    with pytest.raises(PlanError, match="no other unit"):
        sums.sensitivity(EXAMPLE)
    with pytest.raises(PlanError, match="ranked"):
        sums.count(None)
