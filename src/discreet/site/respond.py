"""A site's answer to one round: the one place where data meets randomness."""

from __future__ import annotations

import hashlib

import numpy as np

from discreet.arrays import IntVector
from discreet.entropy import Entropy
from discreet.errors import InputError
from discreet.examples import Examples
from discreet.noise.choose import mechanism_for
from discreet.plan import Plan, ResolvedRound
from discreet.privacy.accounting import Account, Use
from discreet.site.bounding import bounded


def respond(
    examples: Examples,
    account: Account,
    plan: Plan,
    this: ResolvedRound,
    *,
    session: bytes,
    population: str,
    entropy: Entropy,
) -> IntVector:
    """Count, charge, add noise, store, and only then return what is sent.

    The account is charged before any noise is drawn, and the answer is stored
    before it is sent: a retry of the same session and round gets the same bytes,
    because fresh noise on the same counts would average out.
    """
    stored = account.replay(session, this.index)
    exact = this.statistic.count(bounded(examples, plan.privacy.protects))
    floor = plan.cohort.min_examples_per_site
    if floor and len(examples) < floor:
        raise InputError(
            f"this site has fewer than the {floor} examples that the plan asks for"
        )
    mechanism = mechanism_for(plan, this)
    intent = hashlib.sha256(plan.digest() + exact.astype("<i8").tobytes()).digest()
    permit = account.reserve(
        Use(population, session, this.index, mechanism.loss(), intent)
    )
    if stored is not None:
        return np.frombuffer(stored, dtype="<i8").astype(np.int64)
    answer = mechanism.protect(exact, entropy=entropy)
    account.record(permit, answer.astype("<i8").tobytes())
    return answer
