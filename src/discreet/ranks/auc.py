"""A rank-sum evaluation in one process: every message passes as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.arrays import FloatVector, IntVector
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded
from discreet.errors import InputError
from discreet.noise.response import RandomizedResponse
from discreet.privacy.account import Use
from discreet.privacy.claim import Setting
from discreet.privacy.loss import Amount
from discreet.privacy.unit import LABEL
from discreet.ranks.answer import LabelCustody
from discreet.ranks.build import MechanismName
from discreet.ranks.choice import Kind
from discreet.ranks.claims import rank_sum_claim
from discreet.ranks.coordinator import CollectingAnswers, OpenedSums, invite
from discreet.ranks.flipped_labels import LabelSet
from discreet.ranks.rank_auc import rank_auc
from discreet.ranks.site import Ranked, join
from discreet.ranks.terms import Aggregation, RankSumTerms
from discreet.result.scalars import ScalarEvaluation
from discreet.secagg.in_process import secure_sum

_REMEDY = (
    "use LabelDP(epsilon, mechanism='curves') for curves, thresholds and calibration"
)
_PLAIN_NAMES: Mapping[Kind, str] = {
    Kind.NOTHING: "no examples",
    Kind.RESPONSE: "randomized response",
    Kind.RESPONSE_LABELS: "randomized response",
    Kind.GLOBAL: "global noise",
    Kind.LOCAL: "local noise",
    Kind.ORTHOGONAL: "orthogonal noise",
    Kind.ENDPOINT: "endpoint",
    Kind.SLACK: "slack",
    Kind.STAIRCASE: "staircase",
}


@dataclass(frozen=True)
class _Site:
    """One site of the run: its data, and what it keeps."""

    examples: Examples
    scores: FloatVector
    labels: IntVector
    custody: LabelCustody
    population: str


def label_auc(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sequence[Examples],
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: MechanismName = "choice",
    share: Amount = Fraction(1, 2),
    aggregation: Aggregation = "plain",
    colluders: int = 0,
    custody: Sequence[LabelCustody] | None = None,
    entropy: Entropy = SYSTEM,
) -> ScalarEvaluation:
    """Measure the AUC of public scores against labels that stay private.

    Every site and the coordinator run in this process, and all that passes between
    them is bytes.

    Args:
        sites: the sites' examples.
        epsilon: the loss for one flipped label.
        delta: above 0 for Gaussian noise (the papers' mechanisms and ``endpoint``).
        mechanism: ``choice``, or any other of ``discreet.ranks.build.MECHANISMS``.
        share: alpha or beta of ``global-laplace``, ``local-laplace``, ``orthogonal``.
        aggregation: ``plain``; or ``secagg``, noise added once to the sum of all.
        colluders: under ``secagg``, sites that may tell the coordinator their noise.
        custody: what each site keeps as long as its labels: the key of its flips and
            its account; a fresh one each by default.
        entropy: secret bytes.

    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 4000)
    >>> halves = [Examples(scores, scores > 0.3), Examples(scores, scores > 0.7)]
    >>> result = label_auc(halves, epsilon=4)
    >>> 0.9 < result.auc.value < 0.94
    True
    """
    terms = RankSumTerms(epsilon, delta, mechanism, share, aggregation, colluders)
    setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
    opened = run_terms(terms, sites, custody=custody, entropy=entropy)
    estimate = rank_auc(opened.sums, opened.examples, covariance=opened.covariance)
    used = ", ".join(
        f"{count} by {_PLAIN_NAMES[kind]}" for kind, count in opened.options.items()
    )
    bound = "the sampling error is a bound that holds for any scores, often too wide"
    return ScalarEvaluation(
        {"auc": estimate},
        rank_sum_claim(terms, setting),
        contributors=opened.contributors,
        expected=len(sites),
        remedy=_REMEDY,
        notes=(f"sites answered: {used}", bound) if used else (bound,),
        facts={"examples": opened.examples},
    )


def run_terms(
    terms: RankSumTerms,
    sites: Sequence[Examples],
    *,
    custody: Sequence[LabelCustody] | None = None,
    entropy: Entropy = SYSTEM,
) -> OpenedSums:
    """Carry out the conversation over sites in this process."""
    present = _sites(sites, custody, entropy)
    collecting, invitations = invite(
        range(1, len(present) + 1), terms=terms, entropy=entropy
    )
    states: dict[int, bytes] = {}
    for number, invitation in invitations.items():
        states[number], message = join(
            invitation,
            present[number - 1].scores,
            terms=terms,
            site=number,
            entropy=entropy,
        )
        collecting.receive(number, message)
    answering, ranks = collecting.advance()
    ranked = {
        number: Ranked.read(states[number], message, present[number - 1].scores)
        for number, message in ranks.items()
    }
    if terms.aggregation == "secagg":
        return _in_total(terms, present, ranked, answering, entropy)
    for number, site in ranked.items():
        answer = _answer(terms, present[number - 1], site, answering.session, entropy)
        answering.receive(number, answer)
    return answering.advance()


def _sites(
    sites: Sequence[Examples],
    custody: Sequence[LabelCustody] | None,
    entropy: Entropy,
) -> list[_Site]:
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if not sites:
        raise InputError("there are no sites: give at least one")
    if any(s.columns != 1 or s.label_code.classes is not None for s in sites):
        raise InputError("an AUC under label privacy needs one score and two classes")
    if len({site.scores for site in sites}) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    keeping = custody or [LabelCustody.fresh(entropy) for _ in sites]
    if len(keeping) != len(sites):
        raise InputError(
            f"{len(keeping)} custodies were given for {len(sites)} sites; give one each"
        )
    found = []
    for k, (site, kept) in enumerate(zip(sites, keeping, strict=True)):
        scores, labels = site.to_arrays()
        name = site.name or f"site {k + 1}"
        found.append(_Site(site, scores, labels.astype(np.int64), kept, name))
    return found


def _answer(
    terms: RankSumTerms, site: _Site, ranked: Ranked, session: bytes, entropy: Entropy
) -> bytes:
    """Charge, answer, store; kept flips are charged once a label set."""
    flipped = once = None
    if terms.keeps_flips:
        response = RandomizedResponse(terms.pure)
        labels = LabelSet.of(site.examples)
        flipped = labels.flipped(response, site.custody.key)
        once = labels.charge(response, site.custody.key)
    account = site.custody.account
    permit = account.reserve(_use(terms, site, session, once))
    _, message = ranked.answer(
        site.labels, terms=terms, entropy=entropy, flipped=flipped
    )
    account.record(permit, message)
    return message


def _use(terms: RankSumTerms, site: _Site, session: bytes, once: bytes | None) -> Use:
    data = site.scores.astype("<f8").tobytes() + site.labels.astype("<i8").tobytes()
    intent = hashlib.sha256(terms.digest() + data).digest()
    return Use(
        site.population,
        session,
        0,
        terms.budget,
        intent,
        plan=terms.digest(),
        reusable=once,
        unit=LABEL,
    )


def _in_total(
    terms: RankSumTerms,
    sites: Sequence[_Site],
    ranked: Mapping[int, Ranked],
    answering: CollectingAnswers,
    entropy: Entropy,
) -> OpenedSums:
    """Open only the sum of all sites' sums, by the real protocol."""
    vectors = []
    for number, site in ranked.items():
        owner = sites[number - 1]
        account = owner.custody.account
        permit = account.reserve(_use(terms, owner, answering.session, None))
        _, vector = site.summand(
            owner.labels, terms=terms, sites=len(ranked), entropy=entropy
        )
        account.record(permit, vector.astype("<i8").tobytes())
        vectors.append(vector)
    opened = secure_sum(
        vectors,
        plan_digest=terms.digest(),
        min_survivors=len(vectors),
        colluders=terms.colluders,
        entropy=entropy,
    )
    return answering.open_sum(opened.total, len(opened.contributors))
