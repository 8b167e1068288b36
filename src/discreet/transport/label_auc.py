"""Rank sums on terms that no plan holds: kept flips, or one sum of all sites.

A plan's rank sums are a session like any other (``discreet.transport.in_process``). Here
the same two halves of the ranks route talk without a plan, every message as bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from discreet.arrays import IntVector
from discreet.data.examples import Examples
from discreet.entropy import SYSTEM, Entropy, Seeded, child
from discreet.errors import InputError
from discreet.label.opened_sums import read
from discreet.label.rank_terms import RankSumTerms
from discreet.label.response_keys import LabelSet, ResponseKeys
from discreet.label.route import RankSite, collect
from discreet.noise.response import RandomizedResponse
from discreet.privacy.account import Use, answer_once
from discreet.privacy.claim import Setting
from discreet.privacy.loss import Amount
from discreet.privacy.unit import LABEL
from discreet.report.build import rank_result
from discreet.report.evaluation import Evaluation
from discreet.secagg.in_process import secure_sum
from discreet.statistic.rank_sums import Aggregation, MechanismName


def label_auc(  # noqa: PLR0913 - every public choice is a keyword
    sites: Sequence[Examples],
    *,
    epsilon: Amount,
    delta: Amount = 0,
    mechanism: MechanismName = "choice",
    share: Amount = Fraction(1, 2),
    aggregation: Aggregation = "plain",
    colluders: int = 0,
    response_keys: Sequence[ResponseKeys] | None = None,
    entropy: Entropy = SYSTEM,
) -> Evaluation:
    """Measure the AUC of public scores against labels that stay private.

    Every site and the coordinator run in this process, and all that passes between
    them is bytes.

    Args:
        sites: the sites' examples.
        epsilon: the loss for one flipped label.
        delta: above 0 for Gaussian noise (the papers' mechanisms and ``endpoint``).
        mechanism: ``choice``, or any other of ``discreet.statistic.rank_sums.MECHANISMS``.
        share: alpha or beta of ``global-laplace``, ``local-laplace``, ``orthogonal``.
        aggregation: ``plain``; or ``secagg``, noise added once to the sum of all.
        colluders: under ``secagg``, sites that may tell the coordinator their noise.
        response_keys: what each site keeps as long as its labels: the key of its flips and
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
    return evaluate_terms(terms, sites, response_keys=response_keys, entropy=entropy)


def evaluate_terms(
    terms: RankSumTerms,
    sites: Sequence[Examples],
    *,
    response_keys: Sequence[ResponseKeys] | None = None,
    entropy: Entropy = SYSTEM,
) -> Evaluation:
    """Carry out terms over sites in this process."""
    setting: Setting = "seeded" if isinstance(entropy, Seeded) else "simulated"
    total, present = run_terms(
        terms, sites, response_keys=response_keys, entropy=entropy
    )
    fit = read(terms, total)
    return rank_result(fit, terms.claim(setting), len(present), len(sites))


def run_terms(
    terms: RankSumTerms,
    sites: Sequence[Examples],
    *,
    response_keys: Sequence[ResponseKeys] | None = None,
    entropy: Entropy = SYSTEM,
) -> tuple[IntVector, list[int]]:
    """Carry out the conversation over sites in this process; return what was opened."""
    keeping = _custody(sites, response_keys, entropy)
    session = hashlib.sha256(terms.digest() + entropy(32)).digest()
    halves = {
        k + 1: _half(terms, site, kept, k + 1, session, child(entropy, f"site {k + 1}"))
        for k, (site, kept) in enumerate(zip(sites, keeping, strict=True))
    }
    states = dict.fromkeys(halves, b"")

    def ask(step: str, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        del step
        replies = {}
        for site, message in messages.items():
            states[site], replies[site] = halves[site].receive(states[site], message)
        return replies

    def summed(ranked: Collection[int]) -> tuple[IntVector, int]:
        vectors = [halves[s].summand(states[s], sites=len(ranked)) for s in ranked]
        opened = secure_sum(
            vectors,
            plan_digest=terms.digest(),
            min_survivors=len(vectors),
            colluders=terms.colluders,
            entropy=entropy,
        )
        return opened.total, len(opened.contributors)

    return collect(ask, halves, terms, secure_sum=summed)


def _custody(
    sites: Sequence[Examples],
    response_keys: Sequence[ResponseKeys] | None,
    entropy: Entropy,
) -> Sequence[ResponseKeys]:
    """Check the sites, and return what each keeps."""
    if isinstance(sites, Examples) or not all(isinstance(s, Examples) for s in sites):
        raise InputError("sites is a list of Examples; make them with discreet.read")
    if not sites:
        raise InputError("there are no sites: give at least one")
    if any(s.columns != 1 or s.label_code.classes is not None for s in sites):
        raise InputError("an AUC under label privacy needs one score and two classes")
    if len({site.scores for site in sites}) > 1:
        raise InputError("the sites declare different kinds or ranges of scores")
    keeping = response_keys or ResponseKeys.of_sites(len(sites), entropy)
    if len(keeping) != len(sites):
        raise InputError(
            f"{len(keeping)} custodies were given for {len(sites)} sites; give one each"
        )
    return keeping


def _half(
    terms: RankSumTerms,
    site: Examples,
    kept: ResponseKeys,
    number: int,
    session: bytes,
    entropy: Entropy,
) -> RankSite:
    """Return a site's half; its flips are charged as ``label_custody`` says."""
    scores, labels = site.to_arrays()
    population = site.name or f"site {number}"
    flipped = once = None
    if terms.keeps_flips:
        response = RandomizedResponse(terms.pure)
        known = LabelSet.of(site, population=population, session=session)
        flipped = partial(known.flipped, response, kept.key)
        once = known.charge(response, kept.key)
    use = Use(
        population,
        session,
        0,
        terms.budget,
        plan=terms.digest(),
        reusable=once,
        unit=LABEL,
    )
    return RankSite(
        terms,
        scores,
        lambda: labels.astype(np.int64),
        entropy,
        partial(answer_once, kept.account, use),
        flipped,
    )
